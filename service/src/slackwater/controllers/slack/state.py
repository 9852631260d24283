"""The state of slack between two loops: the placeholders with their places, and the sizes of pieces.

- `SlackState`, `Placeholder`: the state. It does not outlive the process; ADR 71 says what a restart finds again.
- `steadied`, `PreviousPieces`: hysteresis, so that pieces do not change with every node that comes or goes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.controllers.slack.rate_sizing import Pieces, RuleSizes
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.objects import Pod
from slackwater.model.resources import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviousPieces:
    """A rule's pieces of the previous loop. `too_many_since`: since when fewer were needed, at most `needed` since then."""

    pieces: Pieces
    too_many_since: UnixTime | None = None
    needed: int = 0


def steadied(cut: RuleSizes, held: PreviousPieces | None, *, now: UnixTime, shrink_seconds: float) -> PreviousPieces:
    """The pieces to keep now, given those of the previous loop.

    The size stays as long as it is allowed and at least half of what it would be now; the number compensates. If more pieces
    are needed, they are kept at once, since less than was asked for is no slack. Fewer are kept only after too many were kept
    for a while without a break, and then the largest number that was needed in that while.
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
    """May pieces of this size stay? If none are needed any more, any size may stay until they go."""
    ideal = cut.pieces.size
    if not cut.pieces.count:
        return True
    fits = any(size.within(bound) for bound in cut.bounds)
    whole = all(bool(have) == bool(want) and 2 * have >= want for have, want in zip(size, ideal, strict=True))
    return fits and whole


def _largest_bound(size: Amounts, cut: RuleSizes) -> Amounts:
    """The largest size of each resource among the bounds that this size is within."""
    most = size
    for bound in cut.bounds:
        if size.within(bound):
            most = most.at_least(bound)
    return most


def _how_many(total: Amounts, size: Amounts, most: Amounts) -> int:
    """How many pieces hold `total`, where each may have one unit more than `size` if `most` allows it."""
    each = [have + 1 if have < bound else have for have, bound in zip(size, most, strict=True)]
    return max(-(-want // have) if want and have else 0 for want, have in zip(total, each, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """Placeholder `slack/<number>` of a `source`: a rule, a marked workload, a buffer or a class. `place` None: it has none."""

    number: int
    source: str
    pod: Pod
    place: NodeName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackState:
    """What slack remembers: `placeholders` in the order of their numbers, and `held`, the pieces of each rule."""

    placeholders: tuple[Placeholder, ...] = ()
    held: Mapping[str, PreviousPieces] = field(default_factory=dict)
