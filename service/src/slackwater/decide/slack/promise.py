"""How much room a promise needs: "so many of a class's new pods start within T seconds", from the arrivals that were observed.

    room = plan_room(arrivals, promise)       # pods that should find room, for each of the next buckets

A pod starts at once where there is room kept for it, else it waits for a node. Room that was taken is there again a lead
later: what a node takes to start, and a loop. So room for what arrives within one lead is enough, and none is needed where T
is a lead or longer. How much will arrive is taken from the past in several ways: the same at all times; as at this time
of the hour, or of the day, in the last cycles. Each way is tried on the past, with a factor; of those that would have kept
the promise there, the one that would have needed the least room is used. Deliberately absent: from where arrivals are known,
and turning pods into placeholders.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.decide.slack.rule import PPM
from slackwater.model.columns import Int64

_HOUR, _DAY = 3600, 86_400
#: Cycles that are looked back on.
_CYCLES: Final = 3
#: How much more than was seen is kept, in percent.
_FACTORS: Final = (100, 110, 120, 135, 150, 175, 200, 250)
#: The past is tried with a little more than was promised, since it will not be the same again: a part of what may be missed.
_FLAT_MARGIN: Final = 8
_CYCLE_MARGIN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """`share_ppm` millionths of the pods start within `within_seconds`. A node takes `lead_seconds` from the loop that asks for
    it. Arrivals are counted in buckets of `bucket_seconds`."""

    share_ppm: int
    within_seconds: int
    lead_seconds: int
    bucket_seconds: int = 60

    @property
    def lead(self) -> int:
        """In buckets, at least one."""
        return max(-(-self.lead_seconds // self.bucket_seconds), 1)


@dataclass(frozen=True, slots=True)
class Way:
    """A way of telling what comes: `period` in buckets, 0 for the same at all times; `percent` of what was seen."""

    period: int
    percent: int


def plan_room(arrivals: Sequence[int] | Int64, promise: Promise, *, ahead: int) -> Int64:
    """Room in pods for each of the next `ahead` buckets. `arrivals` by bucket, the newest last; shape (ahead,)."""
    seen = np.asarray(arrivals, np.int64)
    return room_ahead(seen, promise, choose_way(seen, promise), ahead=ahead)


def room_ahead(seen: Int64, promise: Promise, way: Way, *, ahead: int) -> Int64:
    """As `plan_room`, told in this way."""
    if promise.within_seconds >= promise.lead_seconds or not len(seen):
        return np.zeros(ahead, np.int64)
    if way.period == 0:
        return np.full(ahead, _flat(seen, promise), np.int64)
    longer = np.concatenate([seen, np.zeros(ahead, np.int64)])
    return _foreseen(longer, promise, way.period, way.percent)[len(seen) :]


def choose_way(seen: Int64, promise: Promise) -> Way:
    """The way that would have kept the promise on the past with the least room; the same at all times where none would."""
    flat = np.full(len(seen), _flat(seen, promise), np.int64)
    best, least = Way(0, 100), None
    for period in (_HOUR // promise.bucket_seconds, _DAY // promise.bucket_seconds):
        start = period * _CYCLES
        if len(seen) < start + period:  # the past has to have one whole cycle after those that are looked back on
            continue
        wanted = promise.share_ppm + (PPM - promise.share_ppm) // _CYCLE_MARGIN
        limit = int(flat[start:].sum())
        for percent in _FACTORS:
            room = _foreseen(seen, promise, period, percent)
            cost = int(room[start:].sum())
            if kept_ppm(seen, room, promise, start=start) >= wanted:
                if cost < limit and (least is None or cost * 10**6 // max(limit, 1) < least):
                    best, least = Way(period, percent), cost * 10**6 // max(limit, 1)
                break
    return best


def kept_ppm(arrivals: Int64, room: Int64, promise: Promise, *, start: int = 0) -> int:
    """Millionths of the pods from bucket `start` on that found room at once; all where none came."""
    before = _within(arrivals, promise.lead) - arrivals
    served = np.clip(room - before, 0, arrivals)[start:]
    came = int(arrivals[start:].sum())
    return PPM if not came else int(served.sum()) * PPM // came


def smallest_flat(arrivals: Int64, promise: Promise, *, start: int = 0, share_ppm: int | None = None) -> int:
    """The least room that, kept at all times, keeps the promise on these arrivals."""
    wanted = promise.share_ppm if share_ppm is None else share_ppm
    low, high = 0, int(_within(arrivals, promise.lead).max(initial=0))
    while low < high:
        middle = (low + high) // 2
        if kept_ppm(arrivals, np.full(len(arrivals), middle, np.int64), promise, start=start) >= wanted:
            high = middle
        else:
            low = middle + 1
    return low


def _flat(seen: Int64, promise: Promise) -> int:
    return smallest_flat(seen, promise, share_ppm=promise.share_ppm + (PPM - promise.share_ppm) // _FLAT_MARGIN)


def _within(arrivals: Int64, lead: int) -> Int64:
    """What came in the `lead` buckets that end with each."""
    total = np.concatenate([np.zeros(1, np.int64), np.cumsum(arrivals)])
    ends = np.arange(1, len(total))
    return np.asarray(total[ends] - total[np.maximum(ends - lead, 0)], np.int64)


def _foreseen(arrivals: Int64, promise: Promise, period: int, percent: int) -> Int64:
    """For each bucket the most that came within a lead at its time in the last cycles, or near it, times the factor.

    Of a bucket only what is at least a lead older is read, since a node has to be asked for so much earlier.
    """
    lead = promise.lead
    came = _within(arrivals, lead)
    around = came.copy()
    for shift in range(1, lead + 1):
        around[shift:] = np.maximum(around[shift:], came[:-shift])
        around[:-shift] = np.maximum(around[:-shift], came[shift:])
    most = np.zeros(len(arrivals), np.int64)
    for cycle in range(1, _CYCLES + 1):
        back = cycle * period
        if back < len(arrivals):
            most[back:] = np.maximum(most[back:], around[: len(arrivals) - back])
    return -(-most * percent // 100)
