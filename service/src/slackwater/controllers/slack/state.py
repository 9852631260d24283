"""The state of slack between two loops: the placeholders with their nodes, and the sizes of each rule's pieces.

- `SlackState`, `Placeholder`: the state. It does not outlive the process; ADR 71 says what a restart finds again.
- `steadied`, `PreviousPieces`: hysteresis, so that the pieces do not change with every node that comes or goes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.controllers.slack.rate_sizing import Pieces, RuleSizes
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.objects import Pod
from slackwater.model.resources import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviousPieces:
    """A rule's pieces of the previous loop. `too_many_since`: since when fewer pieces have been needed; None if they are not.
    `needed`: the most pieces that have been needed since then."""

    pieces: Pieces
    too_many_since: UnixTime | None = None
    needed: int = 0


def steadied(cut: RuleSizes, held: PreviousPieces | None, *, now: UnixTime, shrink_seconds: float) -> PreviousPieces:
    """The pieces to keep now. `cut`: the sizes by the present cluster. `held`: the pieces of the previous loop.

    The former size stays while it is allowed and at least half of the size in `cut`; the number of pieces compensates. If more
    pieces are needed, they are kept at once, since the rule's room must not fall short. Fewer are kept only after too many were
    kept for `shrink_seconds` without a break, and then the largest number that was needed in that time.
    """
    if held is None or not held.pieces.count:
        return PreviousPieces(pieces=cut.pieces)
    total = cut.pieces.total
    size = held.pieces.size if _is_good(held.pieces.size, cut) else cut.pieces.size
    needed = _how_many(total, size, _largest_bound(size, cut))
    most = held.pieces.count if size == held.pieces.size else 0
    if needed >= most:
        return PreviousPieces(pieces=Pieces(size=size, count=needed, total=total))
    since = now if held.too_many_since is None else held.too_many_since
    highest = max(needed, held.needed if held.too_many_since is not None else 0)
    if now - since >= shrink_seconds:
        return PreviousPieces(pieces=Pieces(size=size, count=highest, total=total))
    return PreviousPieces(pieces=Pieces(size=size, count=most, total=total), too_many_since=since, needed=highest)


def _is_good(size: Amounts, cut: RuleSizes) -> bool:
    """May pieces keep this size? If no pieces are needed any more, they may keep any size until they are removed."""
    ideal = cut.pieces.size
    if not cut.pieces.count:
        return True
    fits = any(size.within(bound) for bound in cut.bounds)
    whole = all(bool(have) == bool(want) and 2 * have >= want for have, want in zip(size, ideal, strict=True))
    return fits and whole


def _largest_bound(size: Amounts, cut: RuleSizes) -> Amounts:
    """For each resource, the largest amount among the bounds that this size is within."""
    most = size
    for bound in cut.bounds:
        if size.within(bound):
            most = most.at_least(bound)
    return most


def _how_many(total: Amounts, size: Amounts, most: Amounts) -> int:
    """The number of pieces that hold `total`, if each may have one unit more than `size` within `most`."""
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
class SlackState:
    """The state of slack after a loop. `placeholders`: sorted by number. `held`: the pieces of each rule, by the rule's
    name."""

    placeholders: tuple[Placeholder, ...] = ()
    held: Mapping[str, PreviousPieces] = field(default_factory=dict)
