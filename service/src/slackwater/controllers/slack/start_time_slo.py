"""How much room a promise needs: "so many of a class's new pods start within T seconds", from the pods that came and went.

    room = plan_room(arrivals, promise, ahead=60)   # pods that should find room, for each of the next buckets

A pod starts at once where there is room kept for it, else it waits for a node. Room that was taken is there again a lead
later: what a node takes to start, and a loop. So room for what arrives within one lead, less what goes in that time, is
enough; and since nodes stay a while when they are not needed any more, less what there was more of a short while ago. None is
needed where T is a lead or longer.

What goes can be told in part: where more pods run than did on average in the last hour, some of the difference will be gone a
lead later. How much of it is read from the past by least squares; so much less room is kept, as they leave theirs.

Deliberately absent: how what will be needed is told from the past (`ways`), how rarely it may be exceeded (`pace`), from where
arrivals are known, and turning pods into placeholders.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.controllers.slack.rule import PPM
from slackwater.model.columns import Int64

#: What runs is compared with what ran on average in so many seconds.
USUAL_SECONDS: Final = 3600


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


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ArrivalHistory:
    """What was seen, as it is reckoned with; shapes (n,).

    `above`: how many more pods there were after each bucket than on average in the last hour. Of them `gone_percent` are gone a
    lead later. `needed`: the room that, kept at all times less that share of `above`, would have been enough for each bucket.
    """

    seen: Traffic
    promise: Promise
    above: Int64
    gone_percent: int
    needed: Int64

    @classmethod
    def of(cls, seen: Traffic, promise: Promise) -> "ArrivalHistory":
        above = np.maximum(above_usual(seen, promise.bucket_seconds), 0)
        gone = _gone_percent(above, promise.lead)
        needed = _needed(seen, promise, above * gone // 100)
        return cls(seen=seen, promise=promise, above=above, gone_percent=gone, needed=needed)

    def room(self, wanted: Int64) -> Int64:
        """What is kept of what is wanted."""
        return np.asarray(np.maximum(wanted - self.above * self.gone_percent // 100, 0), np.int64)


def above_usual(seen: Traffic, bucket_seconds: int) -> Int64:
    """How many more pods there are after each bucket than on average in the hour up to it; less than nothing where fewer."""
    level, hour = seen.level(), max(USUAL_SECONDS // bucket_seconds, 1)
    ends = np.arange(1, len(level) + 1)
    begins = np.maximum(ends - hour, 0)
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(level)])
    return np.asarray(level - (sums[ends] - sums[begins]) // (ends - begins), np.int64)


def _gone_percent(above: Int64, lead: int) -> int:
    """Whole percent, 0 to 100: one less the slope of `above` on itself a lead before, by least squares through nothing."""
    before, after = above[:-lead].astype(float), above[lead:].astype(float)
    square = float(before @ before)
    return 0 if not square else round(100 * min(max(1 - float(before @ after) / square, 0.0), 1.0))


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


def _needed(seen: Traffic, promise: Promise, less: Int64) -> Int64:
    """The room with which, kept at all times less `less`, all pods of each bucket would have found some. Nobody knows of the
    first buckets: nothing."""
    level = seen.level()
    there = _highest(_earlier(level - less, promise.lead), promise.keep)
    found = np.asarray(np.maximum(level + seen.went - there, 0), np.int64)
    found[: promise.lead] = np.minimum(found[: promise.lead], seen.came[: promise.lead])
    return found


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
