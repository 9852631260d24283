"""Start-time SLO: computes, from past arrivals, the room with which a share of a class's new pods starts within T seconds.

    history = ArrivalHistory.of(traffic, slo)
    forecaster = choose_forecaster(history)
    room = room_ahead(history, forecaster, forecaster.exceeded, ahead=60)    # in pods, for each of the next 60 minutes

A pod starts at once if room is kept for it; else it waits for a node. Room that a pod has taken is replaced one lead later; the
lead is the time that a node takes to start, and a loop. So the room must cover the pods that arrive within one lead, less the
pods that go in that time. Unneeded nodes stay for a while, so room that was kept for more pods a short while ago counts too. No
room is needed if T is one lead or longer.

The pods that go can be predicted in part: if more pods run than on average in the last hour, some of the difference will be
gone one lead later. That share is estimated from the history by least squares, and so much less room is kept.

Forecasters predict how much room will be needed, from the arrival history. For a future bucket a forecaster selects past needs
of room that are like the future one: all of them; those at the same minute of the hour in the last day; or those at the same
time of the day, exactly or within some forty minutes. The room is a quantile of the selected needs: the share `exceeded` of
them is above the room. The share is the same at all times (the newsvendor's critical ratio, with one price for all). The
reason: one more pod of room is used in each minute that needs it. So room is better kept at the time at which it is needed more
often, until all times need it equally often.

Each forecaster is tried on the history; for each bucket it knows only the buckets before. Of the forecasters that would have
met the SLO, the one with the least room is used. `slo_sizing` decides how large the share `exceeded` is. This module does not
read arrivals, and does not turn pods into placeholders.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from typing import Final

import numpy as np

from slackwater.model.columns import Int64
from slackwater.model.ids import PPM

#: Pods are counted in buckets of a minute.
_SECONDS: Final = 60
#: In buckets. The number of running pods is compared with its average over an hour.
_HOUR, _DAY = 60, 1440


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTimeSLO:
    """A start-time SLO: `share_ppm` millionths of the pods start within `within_seconds`. A node takes pods `lead_seconds`
    after the loop that requests it. An unneeded node stays for `keep_seconds`."""

    share_ppm: int
    within_seconds: int
    lead_seconds: int
    keep_seconds: int = 0

    @property
    def lead(self) -> int:
        """The lead in buckets, at least one."""
        return max(-(-self.lead_seconds // _SECONDS), 1)

    @property
    def keep(self) -> int:
        """The time that an unneeded node stays, in whole buckets."""
        return self.keep_seconds // _SECONDS


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
        above = np.maximum(above_usual(seen), 0)
        gone = _gone_percent(above, slo.lead)
        needed = _needed(seen, slo, above * gone // 100)
        return cls(seen=seen, slo=slo, above=above, gone_percent=gone, needed=needed)

    def room(self, wanted: Int64) -> Int64:
        """The room to keep in each bucket: `wanted` less the room that pods are expected to give back by going; shape (n,)."""
        return np.asarray(np.maximum(wanted - self.above * self.gone_percent // 100, 0), np.int64)


def above_usual(seen: Traffic) -> Int64:
    """The number of pods after each bucket less the mean of the hour up to that bucket; shape (n,); may be negative."""
    level = seen.level()
    ends = np.arange(1, len(level) + 1)
    begins = np.maximum(ends - _HOUR, 0)
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


#: In buckets: how far two times of the day may differ to count as about the same; how long a block with one forecast is.
_AROUND, _BLOCK = 40, 10
#: Values of `exceeded` that are tried. The largest, which needs the least room, comes first.
_SHARES: Final = tuple(0.6 * 0.75**step for step in range(21))
#: Extrapolation above the largest known need: a quarter more for each factor e by which the room may be exceeded less often.
_BEYOND: Final = 0.25
#: The room is chosen so that only this part of the allowed late pods is to be expected.
AIM: Final = 0.8
#: A cyclic forecaster is used only if it needs at most so many percent of the constant one's room: a smaller gain may be
#: chance.
_CLEARLY: Final = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecaster:
    """A forecaster: a rule that selects past needs, and how it did on the history. Times are in buckets.

    For a future bucket it selects the needs at the distances of 1, 2, ... `cycles` times `period` before, each together with
    the needs up to `around` buckets from there. If `most` is true, it takes only the largest need at each distance. With a
    `period` of 0 it selects all needs, so its forecast is constant. The buckets of a `block` get one forecast. `exceeded`: the
    share with which it would have met the SLO on the history. `odds`: this share divided by that of the constant forecaster.
    """

    period: int = 0
    cycles: int = 1
    around: int = 0
    most: bool = False
    block: int = 1
    exceeded: float = 1.0
    odds: float = 1.0

    def estimate(self, like: Int64, exceeded: float) -> Int64:
        return np.repeat(_above(like, exceeded), self.block)

    def like(self, needed: Int64, begin: int, end: int) -> Int64:
        """The needs that are selected for each block from bucket `begin` up to `end`, sorted; shape (blocks, needs)."""
        starts = np.arange(begin, end, self.block)
        padded = np.concatenate([needed, np.zeros(self.around + self.block, np.int64)])
        backs = [starts - cycle * self.period for cycle in range(1, self.cycles + 1)]
        windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * self.around + self.block)
        if self.most:
            highest = windows.max(axis=1)
            found = np.stack([highest[back - self.around] for back in backs], axis=1)
        else:
            found = np.concatenate([windows[back - self.around] for back in backs], axis=1)
        found.sort(axis=1)
        return found


def room_ahead(history: ArrivalHistory, forecaster: Forecaster, exceeded: float, *, ahead: int) -> Int64:
    """The room in pods for each of the next `ahead` buckets, shape (ahead,): the share `exceeded` of the selected needs is
    above it. The caller then reduces it if more pods run than usual (`ArrivalHistory.gone_percent`)."""
    if history.slo.within_seconds >= history.slo.lead_seconds or not len(history.seen):
        return np.zeros(ahead, np.int64)
    if not forecaster.period:
        return np.repeat(_above(np.sort(history.needed)[None], exceeded), ahead)
    known = np.concatenate([history.needed, np.zeros(ahead + forecaster.around, np.int64)])
    like = forecaster.like(known, len(history.seen), len(history.seen) + ahead)
    return forecaster.estimate(like, exceeded)[:ahead]


def choose_forecaster(history: ArrivalHistory) -> Forecaster:
    """The forecaster that would have met the SLO on the history with the least room; the constant one if none would have."""
    if not len(history.seen):
        return Forecaster()
    ordered = np.sort(history.needed)[None]
    flat, _ = _tried(history, Forecaster(), ordered, 0)
    level = np.repeat(_above(ordered, flat.exceeded), len(history.seen))
    best, least = flat, 100.0
    for forecaster in _possible(history):
        start = forecaster.cycles * forecaster.period + forecaster.around
        found, room = _tried(history, forecaster, forecaster.like(history.needed, start, len(history.seen)), start)
        cost = 100 * room / max(float(history.room(level)[start:].mean()), 1e-9)
        if cost <= _CLEARLY and cost < least:
            best, least = replace(found, odds=found.exceeded / flat.exceeded), cost
    return best


def _possible(history: ArrivalHistory) -> Iterable[Forecaster]:
    """The cyclic forecasters for which the history has enough cycles, and one more cycle to try them on."""
    lead = history.slo.lead
    for forecaster, least in (
        (Forecaster(period=_HOUR, cycles=24, around=lead, most=True), 12),
        (Forecaster(period=_DAY, cycles=3, around=lead, most=True), 3),
        (Forecaster(period=_DAY, cycles=3, around=_AROUND, block=_BLOCK), 1),
    ):
        cycles = min(forecaster.cycles, (len(history.seen) - forecaster.around) // forecaster.period - 1)
        if cycles >= least:
            yield replace(forecaster, cycles=cycles)


def _tried(history: ArrivalHistory, forecaster: Forecaster, like: Int64, start: int) -> tuple[Forecaster, float]:
    """Finds the largest share `exceeded` with which the forecaster would have met the SLO from bucket `start` on. Returns the
    forecaster with this share, and the mean room in pods that it would have kept; infinite room if no share meets the SLO.
    `like`: the selected needs of each block from `start` on."""
    goal = PPM - AIM * (PPM - history.slo.share_ppm)
    size = len(history.seen) - start
    before: tuple[float, int, float] | None = None
    for share in _SHARES:
        wanted = np.zeros(len(history.seen), np.int64)
        estimate = forecaster.estimate(like, share)[:size] if forecaster.period else np.repeat(_above(like, share), size)
        # The largest need from the bucket until one lead later, since nodes must be requested one lead earlier.
        wanted[start:] = _highest(estimate[::-1], history.slo.lead)[::-1]
        room = history.room(wanted)
        kept, mean = kept_ppm(history.seen, room, history.slo, start=start), float(room[start:].mean())
        if kept < goal:
            before = share, kept, mean
        elif before is None:
            return replace(forecaster, exceeded=share), mean
        else:  # between the two shares, so that a small change of the history changes the result only a little
            last_share, last_kept, last_mean = before
            part = (goal - last_kept) / (kept - last_kept)
            exceeded = exp(log(last_share) * (1 - part) + log(share) * part)
            return replace(forecaster, exceeded=exceeded), last_mean * (1 - part) + mean * part
    return replace(forecaster, exceeded=_SHARES[-1]), float("inf")


def _above(ordered: Int64, share: float) -> Int64:
    """For each row, which is sorted, the interpolated value such that `share` of the row's values is above it; shape
    (rows,)."""
    size = ordered.shape[1]
    at = size * (1 - share)
    if share * size < 1:
        return np.asarray(np.ceil(ordered[:, -1] * (1 + _BEYOND * log(1 / (share * size)))), np.int64)
    low, high = ordered[:, max(int(at) - 1, 0)], ordered[:, min(int(at), size - 1)]
    return np.asarray(np.ceil(low + (high - low) * (at - int(at))), np.int64)
