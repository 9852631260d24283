"""What slack planning remembers between two loops: the placeholders with their nodes, and the size and number of each rule's
placeholders ("pieces", see `rate_sizing`).

- `SlackState`, `Placeholder`: these values. They are only in memory; ADR 71 says what a new process finds again.
- `steadied`, `PreviousPieces`: keep the previous pieces while the new ones differ little, so that a node that comes or goes
  does not change them.
- `kept_nodes`, `KeptNodes`: how many nodes of a group slack was found to need, so that scale-down does not remove what slack
  buys again.

Whether placeholders fit after a removal depends on where a scheduler puts the evicted pods, which nobody knows before. So slack
remembers what purchases have shown: with one node less, it did not fit. Where rules ask for room, purchases for pods count too:
pods within the amount of slack may fit into none of its pieces. While pods request as much as they did then, the
group keeps that many nodes. If they request less, by at most the amount of slack, the load may be a wave that slack has to
damp: then the group keeps its nodes for `keep_seconds` more. A larger fall, or fewer placeholders wanted, ends it at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from slackwater.controllers.slack.policy import SlackRule
from slackwater.controllers.slack.rate_sizing import Pieces, RuleSizes
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater.model.resources import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviousPieces:
    """The pieces that a rule had in the previous loop. `too_many_since`: since when the rule has needed fewer pieces than it
    has; None if it needs all. `needed`: the most pieces that it has needed since then."""

    pieces: Pieces
    too_many_since: UnixTime | None = None
    needed: int = 0


def steadied(cut: RuleSizes, held: PreviousPieces | None, *, now: UnixTime, shrink_seconds: float) -> PreviousPieces:
    """Returns the pieces to keep now. `cut`: the sizes that the present cluster asks for. `held`: the pieces of the previous
    loop; None: there were none.

    The former size stays while it is allowed and at least half of the size in `cut`; the number of pieces compensates for the
    difference. It does not stay if so many pieces, without the last, held over a quarter more of a resource than was asked for:
    the shape of pieces differs from that of the room then, and the excess would keep nodes (`plan_slack` sees to it that it
    buys none). If more pieces are needed, they are kept at once, since the rule's room must not fall short. Fewer are kept only
    after too many were kept for `shrink_seconds` without a break, and then the largest number that was needed in that time.
    """
    if held is None or not held.pieces.count:
        return PreviousPieces(pieces=cut.pieces)
    total = cut.pieces.total
    size = held.pieces.size if _is_size_allowed(held.pieces.size, cut) else cut.pieces.size
    needed = _n_pieces(total, size, _largest_bound(size, cut))
    if any(4 * (needed - 1) * have > 5 * want for have, want in zip(size, total, strict=True)):
        size, needed = cut.pieces.size, cut.pieces.count
    most = held.pieces.count if size == held.pieces.size else 0
    if needed >= most:
        return PreviousPieces(pieces=Pieces(size=size, count=needed, total=total))
    since = now if held.too_many_since is None else held.too_many_since
    highest = max(needed, held.needed if held.too_many_since is not None else 0)
    if now - since >= shrink_seconds:
        return PreviousPieces(pieces=Pieces(size=size, count=highest, total=total))
    return PreviousPieces(pieces=Pieces(size=size, count=most, total=total), too_many_since=since, needed=highest)


def _is_size_allowed(size: Amounts, cut: RuleSizes) -> bool:
    """May pieces keep the size that they had in the previous loop? If no pieces are needed any more, they may keep any size
    until they are removed."""
    ideal = cut.pieces.size
    if not cut.pieces.count:
        return True
    fits = any(size.within(bound) for bound in cut.former_bounds)
    whole = all(bool(have) == bool(want) and 2 * have >= want for have, want in zip(size, ideal, strict=True))
    return fits and whole


def _largest_bound(size: Amounts, cut: RuleSizes) -> Amounts:
    """For each resource, the largest amount among those bounds that a piece of this size is within."""
    most = size
    for bound in cut.bounds:
        if size.within(bound):
            most = most.at_least(bound)
    return most


def _n_pieces(total: Amounts, size: Amounts, most: Amounts) -> int:
    """How many pieces hold `total`, if each amount of a piece may be one unit above `size`, but not above `most`."""
    each = [have + 1 if have < bound else have for have, bound in zip(size, most, strict=True)]
    return max(-(-want // have) if want and have else 0 for want, have in zip(total, each, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """A placeholder, `pod` with the name `slack/<number>`. `source`: the name of what asks for it: a rule, an annotated
    workload, a buffer or a class with an SLO. `place`: its node; None if it fits on no node."""

    number: int
    source: str
    pod: Pod
    place: NodeName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackLoad:
    """What decides how many nodes slack needs. `used`: what all pods request. `asked`: the room that the rules ask for.
    `rules`: those that ask for room now. `headroom`: the number of placeholders that are like a pod."""

    used: Amounts
    asked: Amounts
    rules: tuple[SlackRule, ...] = ()
    headroom: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptNodes:
    """The working and upcoming nodes that a group had after its last purchase (`nodes`), the load at that purchase, and the
    largest amounts of what had no room (`piece`). `since`: the time of the purchase. `at`: when pods last requested as much.
    `empty_too`: nodes without pods and placeholders are kept as well: less is requested now, or the purchase is recent.
    """

    nodes: int
    load: SlackLoad
    piece: Amounts
    since: UnixTime
    at: UnixTime
    empty_too: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackState:
    """What slack planning remembers after a loop. `placeholders`: sorted by number. `held`: the pieces of each rule, by the
    rule's name. `kept_nodes`: how many nodes each group keeps for slack."""

    placeholders: tuple[Placeholder, ...] = ()
    held: Mapping[str, PreviousPieces] = field(default_factory=dict)
    kept_nodes: Mapping[GroupName, KeptNodes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackPurchase:
    """A purchase. `nodes`: how many nodes the group has with it. `piece`: the largest amounts of what it is for."""

    nodes: int
    piece: Amounts


def kept_nodes(
    before: Mapping[GroupName, KeptNodes],
    load: SlackLoad,
    purchases: Mapping[GroupName, SlackPurchase],
    *,
    now: UnixTime,
    keep_seconds: float,
) -> dict[GroupName, KeptNodes]:
    """The nodes that each group keeps for slack, after the present plan. None are kept if `keep_seconds` is 0."""
    if not keep_seconds:
        return {}
    still = {name: kept for name, old in before.items() if (kept := _still(old, load, now, keep_seconds)) is not None}
    new = {
        name: KeptNodes(nodes=bought.nodes, load=load, piece=bought.piece, since=now, at=now)
        for name, bought in purchases.items()
        if name not in still or bought.nodes >= still[name].nodes
    }
    return {**still, **new}


def _still(kept: KeptNodes, load: SlackLoad, now: UnixTime, keep_seconds: float) -> KeptNodes | None:
    """The entry as it holds now; None if it no longer does."""
    then = kept.load
    if load.rules != then.rules or load.headroom < then.headroom:
        return None
    if then.used.minus(kept.piece).within(load.used):
        return replace(kept, at=now, empty_too=now - kept.since < keep_seconds)
    damped = then.used.minus(then.asked).within(load.used) and now - kept.at < keep_seconds
    return replace(kept, empty_too=True) if damped else None
