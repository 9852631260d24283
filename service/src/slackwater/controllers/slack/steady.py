"""Steady pieces: hysteresis of their size and number, so that they do not change with every node that comes or goes.

The size stays as long as it is allowed and at least half of what it would be now; the number compensates. More pieces are kept
at once, since less than was asked for is no slack. Fewer are kept only after too many were kept for a while without a break,
and then as many as were needed at most in that while.
"""

from dataclasses import dataclass

from slackwater.controllers.slack.sizing import Cut, Pieces
from slackwater.model.ids import UnixTime
from slackwater.model.resources import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A rule's pieces of the previous loop. `too_many_since`: since when fewer were needed, at most `needed` since then."""

    pieces: Pieces
    too_many_since: UnixTime | None = None
    needed: int = 0


def steadied(cut: Cut, held: Held | None, *, now: UnixTime, shrink_seconds: float) -> Held:
    """The pieces to keep now."""
    if held is None or not held.pieces.count:
        return Held(pieces=cut.pieces)
    total = cut.pieces.total
    size = held.pieces.size if _is_good(held.pieces.size, cut) else cut.pieces.size
    needed = _how_many(total, size, _largest_bound(size, cut))
    most = held.pieces.count if size == held.pieces.size else 0
    if needed >= most:
        return Held(pieces=Pieces(size=size, count=needed, total=total))
    since = now if held.too_many_since is None else held.too_many_since
    highest = max(needed, held.needed if held.too_many_since is not None else 0)
    if now - since >= shrink_seconds:
        return Held(pieces=Pieces(size=size, count=highest, total=total))
    return Held(pieces=Pieces(size=size, count=most, total=total), too_many_since=since, needed=highest)


def _is_good(size: Amounts, cut: Cut) -> bool:
    """May pieces of this size stay? If none are needed any more, any size may stay until they go."""
    ideal = cut.pieces.size
    if not cut.pieces.count:
        return True
    fits = any(size.within(bound) for bound in cut.bounds)
    whole = all(bool(have) == bool(want) and 2 * have >= want for have, want in zip(size, ideal, strict=True))
    return fits and whole


def _largest_bound(size: Amounts, cut: Cut) -> Amounts:
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
