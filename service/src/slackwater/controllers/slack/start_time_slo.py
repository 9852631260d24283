"""Start-time SLO: computes, from past arrivals, the room with which a share of a class's new pods starts within T seconds.

    room = plan_room(arrivals, slo, ahead=60)   # in `forecasters`: the room in pods for each of the next 60 buckets

A pod starts at once if room is kept for it; else it waits for a node. Room that a pod has taken is replaced one lead later; the
lead is the time that a node takes to start, and a loop. So the room must cover the pods that arrive within one lead, less the
pods that go in that time. Unneeded nodes stay for a while, so room that was kept for more pods a short while ago counts too. No
room is needed if T is one lead or longer.

The pods that go can be predicted in part: if more pods run than on average in the last hour, some of the difference will be
gone one lead later. That share is estimated from the history by least squares, and so much less room is kept.

Forecasts are in `forecasters`; how often demand may exceed the room is decided in `slo_sizing`. This module does not read
arrivals, and does not turn pods into placeholders.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.controllers.slack.policy import PPM
from slackwater.model.columns import Int64

#: The number of running pods is compared with its average over so many seconds.
USUAL_SECONDS: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTimeSLO:
    """A start-time SLO: `share_ppm` millionths of the pods start within `within_seconds`. A node takes pods `lead_seconds`
    after the loop that requests it. An unneeded node stays for `keep_seconds`. Pods are counted in buckets of
    `bucket_seconds`."""

    share_ppm: int
    within_seconds: int
    lead_seconds: int
    keep_seconds: int = 0
    bucket_seconds: int = 60

    @property
    def lead(self) -> int:
        """The lead in buckets, at least one."""
        return max(-(-self.lead_seconds // self.bucket_seconds), 1)

    @property
    def keep(self) -> int:
        """The time that an unneeded node stays, in whole buckets."""
        return self.keep_seconds // self.bucket_seconds


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Pods that came and pods that went, by bucket, the newest last; shapes (n,)."""

    came: Int64
    went: Int64

    @classmethod
    def of(cls, came: Sequence[int] | Int64, went: Sequence[int] | Int64 | None = None) -> "Traffic":
        """Makes the traffic of counts by bucket. `went` None: no pod goes."""
        arrivals = np.asarray(came, np.int64)
        return cls(arrivals, np.zeros(len(arrivals), np.int64) if went is None else np.asarray(went, np.int64))

    def __len__(self) -> int:
        return len(self.came)

    def level(self) -> Int64:
        """The number of pods after each bucket, less that before the first bucket; shape (n,)."""
        return np.cumsum(self.came - self.went)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ArrivalHistory:
    """The arrivals of a pod class by time bucket, and series derived from them; all of shape (n,).

    `above`: the number of pods after the bucket less the mean of the last hour, at least 0. `gone_percent`: the percentage of
    `above` that is gone one lead later. `needed`: the smallest room, in pods, with which no pod of the bucket would have
    waited, if so much room is kept at all times, less `gone_percent` of `above`.
    """

    seen: Traffic
    slo: StartTimeSLO
    above: Int64
    gone_percent: int
    needed: Int64

    @classmethod
    def of(cls, seen: Traffic, slo: StartTimeSLO) -> "ArrivalHistory":
        above = np.maximum(above_usual(seen, slo.bucket_seconds), 0)
        gone = _gone_percent(above, slo.lead)
        needed = _needed(seen, slo, above * gone // 100)
        return cls(seen=seen, slo=slo, above=above, gone_percent=gone, needed=needed)

    def room(self, wanted: Int64) -> Int64:
        """The room to keep in each bucket: `wanted` less the room that pods are expected to give back by going; shape (n,)."""
        return np.asarray(np.maximum(wanted - self.above * self.gone_percent // 100, 0), np.int64)


def above_usual(seen: Traffic, bucket_seconds: int) -> Int64:
    """The number of pods after each bucket less the mean of the hour up to that bucket; shape (n,); may be negative."""
    level, hour = seen.level(), max(USUAL_SECONDS // bucket_seconds, 1)
    ends = np.arange(1, len(level) + 1)
    begins = np.maximum(ends - hour, 0)
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(level)])
    return np.asarray(level - (sums[ends] - sums[begins]) // (ends - begins), np.int64)


def _gone_percent(above: Int64, lead: int) -> int:
    """The percentage, 0 to 100, of `above` that is gone one lead later: 100 less the slope, in percent, of `above` on `above`
    one lead before, by least squares through the origin."""
    before, after = above[:-lead].astype(float), above[lead:].astype(float)
    square = float(before @ before)
    return 0 if not square else round(100 * min(max(1 - float(before @ after) / square, 0.0), 1.0))


def kept_ppm(seen: Traffic, room: Int64, slo: StartTimeSLO, *, start: int = 0) -> int:
    """The millionths of the pods from bucket `start` on that would have found room at once; all if none came. `room`: the room
    that is kept in each bucket, in pods.

    The places at a time are the sum of what was used and what was kept one lead earlier, or at an earlier time from which nodes
    still stay.
    """
    level = seen.level()
    taken = level - seen.came + seen.went  # before the bucket
    there = _highest(_earlier(level, slo.lead) + room, slo.keep)
    served = np.clip(there - taken, 0, seen.came)[start:]
    came = int(seen.came[start:].sum())
    return PPM if not came else int(served.sum()) * PPM // came


def _needed(seen: Traffic, slo: StartTimeSLO, less: Int64) -> Int64:
    """For each bucket, the room, in pods, with which all its pods would have started at once, if so much room less `less` had
    been kept at all times. For the first buckets, before which nothing is known, it is at most the number of arrivals."""
    level = seen.level()
    there = _highest(_earlier(level - less, slo.lead), slo.keep)
    found = np.asarray(np.maximum(level + seen.went - there, 0), np.int64)
    found[: slo.lead] = np.minimum(found[: slo.lead], seen.came[: slo.lead])
    return found


def _earlier(values: Int64, by: int) -> Int64:
    """For each bucket, the value `by` buckets earlier; 0 before the first one."""
    found = np.zeros(len(values), np.int64)
    found[by:] = values[: max(len(values) - by, 0)]
    return found


def _highest(values: Int64, back: int) -> Int64:
    """For each bucket, the highest of its value and the `back` values before."""
    found = values.copy()
    for shift in range(1, min(back, len(values) - 1) + 1):
        found[shift:] = np.maximum(found[shift:], values[:-shift])
    return found
