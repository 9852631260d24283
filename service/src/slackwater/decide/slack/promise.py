"""How much room a promise needs: "so many of a class's new pods start within T seconds", from the arrivals that were observed.

    room = plan_room(arrivals, promise)       # pods that should find room, for each of the next buckets

A pod starts at once where there is room kept for it, else it waits for a node. Room that was taken is there again a lead
later: what a node takes to start, and a loop. So room for what arrives within one lead, less what goes in that time, is
enough; and since nodes stay a while when they are not needed any more, less what there was more of a short while ago. None is
needed where T is a lead or longer. How much will be needed is taken from the past in several ways: the same at all times; as
at this time of the hour, or of the day, in the last cycles. Each way is tried on the past, with a factor; of those that would
have kept the promise there, the one that would have needed the least room is used. Deliberately absent: from where arrivals
are known, how what is found is corrected (`trim`), and turning pods into placeholders.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.decide.slack.rule import PPM
from slackwater.model.columns import Int64

_HOUR, _DAY = 3600, 86_400
#: Cycles that are looked back on.
_CYCLES: Final = 3
#: How much more than was seen is kept, in percent.
_FACTORS: Final = (50, 60, 70, 80, 90, 100, 110, 120, 135, 150, 175, 200, 250)
#: Or what was exceeded in so many percent of the time, an hour or so around it.
_EXCEEDED: Final = (60, 50, 40, 33, 27, 22, 18, 15, 12, 10, 8, 6, 4, 2)
_AROUND, _BLOCK = 1500, 600
#: The past is tried with a little more than was promised, since it will not be the same again: a part of what may be missed.
_FLAT_MARGIN: Final = 8
_CYCLE_MARGIN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """`share_ppm` millionths of the pods start within `within_seconds`. A node takes `lead_seconds` from the loop that asks for
    it, and stays for `keep_seconds` when it is not needed. Pods are counted in buckets of `bucket_seconds`."""

    share_ppm: int
    within_seconds: int
    lead_seconds: int
    keep_seconds: int = 0
    bucket_seconds: int = 60

    @property
    def lead(self) -> int:
        """In buckets, at least one."""
        return max(-(-self.lead_seconds // self.bucket_seconds), 1)

    @property
    def keep(self) -> int:
        """In whole buckets."""
        return self.keep_seconds // self.bucket_seconds


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Pods that came, and pods that went, by bucket, the newest last; shapes (n,)."""

    came: Int64
    went: Int64

    @classmethod
    def of(cls, came: Sequence[int] | Int64, went: Sequence[int] | Int64 | None = None) -> "Traffic":
        """Where nothing is said nobody goes."""
        arrivals = np.asarray(came, np.int64)
        return cls(arrivals, np.zeros(len(arrivals), np.int64) if went is None else np.asarray(went, np.int64))

    def __len__(self) -> int:
        return len(self.came)

    def level(self) -> Int64:
        """How many more pods there are after each bucket than at the beginning."""
        return np.cumsum(self.came - self.went)


@dataclass(frozen=True, slots=True)
class Way:
    """A way of telling what comes: `period` in buckets, and `percent` of the most that was needed then; or what was exceeded in
    so many percent (`exceeded`) of the time around it; or, where `period` is 0, `flat`, the same at all times."""

    period: int = 0
    percent: int = 100
    exceeded: int = 0
    flat: int = 0


def plan_room(arrivals: Sequence[int] | Int64, promise: Promise, *, ahead: int) -> Int64:
    """Room in pods for each of the next `ahead` buckets. `arrivals` by bucket, the newest last; shape (ahead,)."""
    seen = Traffic.of(arrivals)
    return room_ahead(seen, promise, choose_way(seen, promise), ahead=ahead)


def room_ahead(seen: Traffic, promise: Promise, way: Way, *, ahead: int) -> Int64:
    """As `plan_room`, told in this way."""
    if promise.within_seconds >= promise.lead_seconds or not len(seen):
        return np.zeros(ahead, np.int64)
    if way.period == 0:
        return np.full(ahead, way.flat, np.int64)
    needed = np.concatenate([_needed(seen, promise), np.zeros(ahead, np.int64)])
    if way.exceeded:
        return _exceeded(needed, promise, way.period, (way.exceeded,))[0][len(seen) :]
    return _foreseen(needed, promise, way.period, way.percent)[len(seen) :]


def choose_way(seen: Traffic, promise: Promise) -> Way:
    """The way that would have kept the promise on the past with the least room; the same at all times where none would."""
    smallest = _flat(seen, promise)
    found, needed = [(PPM, Way(flat=smallest))], _needed(seen, promise)
    wanted = promise.share_ppm + (PPM - promise.share_ppm) // _CYCLE_MARGIN
    for period in (_HOUR // promise.bucket_seconds, _DAY // promise.bucket_seconds):
        start = period * _CYCLES
        if len(seen) < start + period:  # the past has to have one whole cycle after those that are looked back on
            continue
        for ways in _ways(needed, promise, period):  # of each kind the one with the least room comes first
            for way, room in ways:
                if kept_ppm(seen, room, promise, start=start) >= wanted:
                    found.append((int(room[start:].sum()) * PPM // max(smallest * (len(seen) - start), 1), way))
                    break
    return min(found, key=lambda each: each[0])[1]


def _ways(needed: Int64, promise: Promise, period: int) -> Iterator[Iterator[tuple[Way, Int64]]]:
    yield ((Way(period, percent), _foreseen(needed, promise, period, percent)) for percent in _FACTORS)
    if period * promise.bucket_seconds == _DAY:
        rooms = _exceeded(needed, promise, period, _EXCEEDED)
        yield ((Way(period, exceeded=percent), room) for percent, room in zip(_EXCEEDED, rooms, strict=True))


def kept_ppm(seen: Traffic, room: Int64, promise: Promise, *, start: int = 0) -> int:
    """Millionths of the pods from bucket `start` on that found room at once; all where none came.

    What there is room for at a time is what was there and was kept one lead earlier, or at any time since which nodes stay.
    """
    level = seen.level()
    taken = level - seen.came + seen.went  # before the bucket
    there = _highest(_earlier(level, promise.lead) + room, promise.keep)
    served = np.clip(there - taken, 0, seen.came)[start:]
    came = int(seen.came[start:].sum())
    return PPM if not came else int(served.sum()) * PPM // came


def smallest_flat(seen: Traffic, promise: Promise, *, start: int = 0, share_ppm: int | None = None) -> int:
    """The least room that, kept at all times, keeps the promise on these arrivals."""
    wanted = promise.share_ppm if share_ppm is None else share_ppm
    low, high = 0, int(_needed(seen, promise).max(initial=0))
    while low < high:
        middle = (low + high) // 2
        if kept_ppm(seen, np.full(len(seen), middle, np.int64), promise, start=start) >= wanted:
            high = middle
        else:
            low = middle + 1
    return low


def _flat(seen: Traffic, promise: Promise) -> int:
    return smallest_flat(seen, promise, share_ppm=promise.share_ppm + (PPM - promise.share_ppm) // _FLAT_MARGIN)


def _needed(seen: Traffic, promise: Promise) -> Int64:
    """The room with which, kept at all times, all pods of each bucket would have found some."""
    level = seen.level()
    there = _highest(_earlier(level, promise.lead), promise.keep)
    return np.asarray(np.maximum(level + seen.went - there, 0), np.int64)


def _earlier(values: Int64, by: int) -> Int64:
    """What each was `by` buckets ago; 0 before the beginning."""
    found = np.zeros(len(values), np.int64)
    found[by:] = values[: max(len(values) - by, 0)]
    return found


def _highest(values: Int64, back: int) -> Int64:
    """The highest of each and the `back` before it."""
    found = values.copy()
    for shift in range(1, min(back, len(values) - 1) + 1):
        found[shift:] = np.maximum(found[shift:], values[:-shift])
    return found


def _foreseen(needed: Int64, promise: Promise, period: int, percent: int) -> Int64:
    """For each bucket the most that was needed at its time in the last cycles, or a lead around it, times the factor.

    Of a bucket only what is at least a lead older is read, since a node has to be asked for so much earlier.
    """
    around = needed.copy()
    for shift in range(1, promise.lead + 1):
        around[shift:] = np.maximum(around[shift:], needed[:-shift])
        around[:-shift] = np.maximum(around[:-shift], needed[shift:])
    most = np.zeros(len(needed), np.int64)
    for cycle in range(1, _CYCLES + 1):
        back = cycle * period
        if back < len(needed):
            most[back:] = np.maximum(most[back:], around[: len(needed) - back])
    return -(-most * percent // 100)


def _exceeded(needed: Int64, promise: Promise, period: int, percents: Sequence[int]) -> list[Int64]:
    """For each bucket, and each of the percentages: what was exceeded in so much of the time, half an hour around it in the
    last cycles. The same for ten minutes, as more would be learnt from chance."""
    around, block = _AROUND // promise.bucket_seconds, max(_BLOCK // promise.bucket_seconds, 1)
    blocks = -(-len(needed) // block)
    before = np.zeros(_CYCLES * period + around, np.int64)
    padded = np.concatenate([before, needed, np.zeros(around + block, np.int64)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * around + block)
    starts = _CYCLES * period + block * np.arange(blocks)
    samples = np.concatenate([windows[starts - cycle * period] for cycle in range(1, _CYCLES + 1)], axis=1)
    samples.sort(axis=1)
    size = samples.shape[1]
    return [np.repeat(samples[:, -(size * percent // 100) - 1], block)[: len(needed)] for percent in percents]
