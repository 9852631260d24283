"""How what will be needed is told from the past: the same at all times, by the minute of the hour, or by the time of the day.

    way = choose_way(past)
    way.ahead(past, exceeded, ahead=60)      # what `exceeded` of the past's needs were above, for each of the next buckets

A way says which of the past's needs a bucket is like: all; those at its minute of the hour in the last day; those at its time
of the day, to the minute or within some forty. Of these the room is the one that so many are above. That share is the same at
all times: a pod more of room serves as many more pods as there are minutes that need it, so as long as it is needed more
often at one time than at another, it is better kept there (the newsvendor's critical ratio, with one price for all).

Each way is tried on the past, of which it then knew only what was before. Of those that would have kept the promise there, the
one that would have taken the least room is used. Deliberately absent: how large the share is in the end (`pace`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import exp, log
from typing import Final

import numpy as np

from slackwater.controllers.slack.rule import PPM
from slackwater.controllers.slack.start_time_slo import ArrivalHistory, Promise, Traffic, kept_ppm
from slackwater.model.columns import Int64

_HOUR, _DAY = 3600, 86_400
#: Needs at about the same time of the day are within so many seconds of it, and told alike for so many.
_AROUND, _BLOCK = 2400, 600
#: Shares that are tried, the largest first: with the least room.
_SHARES: Final = tuple(0.6 * 0.75**step for step in range(21))
#: Above all that was seen nothing is known: a quarter more for each e-fold that it may be exceeded less often.
_BEYOND: Final = 0.25
#: Of what may be late this is aimed at.
AIM: Final = 0.8
#: Another way than the same at all times has to need so much less: it may be chance. In percent.
_CLEARLY: Final = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """A share that was tried, the millionths of pods that it would have kept in time, and the room that it would have taken."""

    share: float
    kept_ppm: int
    room: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecaster:
    """Periods and such in buckets; `period` 0: the same at all times. Needs `around` a time are read, and of these `most` alone
    or each. Buckets of a `block` are told alike. `exceeded`: what would have kept the promise on the past, and its `odds`
    against that of the same at all times."""

    period: int = 0
    cycles: int = 1
    around: int = 0
    most: bool = False
    block: int = 1
    exceeded: float = 1.0
    odds: float = 1.0

    def ahead(self, history: ArrivalHistory, exceeded: float, *, ahead: int) -> Int64:
        """For each of the next buckets; shape (ahead,)."""
        if not self.period:
            return np.repeat(_above(np.sort(history.needed)[None], exceeded), ahead)
        known = np.concatenate([history.needed, np.zeros(ahead + self.around, np.int64)])
        return self.told(self.like(known, len(history.seen), len(history.seen) + ahead), exceeded)[:ahead]

    def told(self, like: Int64, exceeded: float) -> Int64:
        return np.repeat(_above(like, exceeded), self.block)

    def like(self, needed: Int64, begin: int, end: int) -> Int64:
        """The needs that each block from bucket `begin` on is like, in order; shape (blocks, needs)."""
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


def plan_room(arrivals: Iterable[int] | Int64, promise: Promise, *, ahead: int) -> Int64:
    """Room in pods for each of the next `ahead` buckets, by the past alone. `arrivals` by bucket, the newest last."""
    history = ArrivalHistory.of(Traffic.of(np.asarray(arrivals, np.int64)), promise)
    forecaster = choose_forecaster(history)
    return room_ahead(history, forecaster, forecaster.exceeded, ahead=ahead)


def room_ahead(history: ArrivalHistory, forecaster: Forecaster, exceeded: float, *, ahead: int) -> Int64:
    """Room in pods for each of the next buckets, before what is less where more runs than usual
    (`ArrivalHistory.gone_percent`)."""
    if history.promise.within_seconds >= history.promise.lead_seconds or not len(history.seen):
        return np.zeros(ahead, np.int64)
    return forecaster.ahead(history, exceeded, ahead=ahead)


def choose_forecaster(history: ArrivalHistory) -> Forecaster:
    """The way that would have kept the promise on the past with the least room; the same at all times where none would."""
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
    """Those of which the past has enough cycles, and one more to try them on."""
    bucket, lead = history.promise.bucket_seconds, history.promise.lead
    hour, day = _HOUR // bucket, _DAY // bucket
    around, block = _AROUND // bucket, max(_BLOCK // bucket, 1)
    for forecaster, least in (
        (Forecaster(period=hour, cycles=24, around=lead, most=True), 12),
        (Forecaster(period=day, cycles=3, around=lead, most=True), 3),
        (Forecaster(period=day, cycles=3, around=around, block=block), 1),
    ):
        cycles = min(forecaster.cycles, (len(history.seen) - forecaster.around) // forecaster.period - 1)
        if cycles >= least:
            yield replace(forecaster, cycles=cycles)


def _tried(history: ArrivalHistory, forecaster: Forecaster, like: Int64, start: int) -> tuple[Forecaster, float]:
    """With the share that would have kept the promise from `start` on, and the room that it would have taken on average; more
    than any other where none would."""
    goal = PPM - AIM * (PPM - history.promise.share_ppm)
    size = len(history.seen) - start
    before: _Trial | None = None
    for share in _SHARES:
        wanted = np.zeros(len(history.seen), np.int64)
        told = forecaster.told(like, share)[:size] if forecaster.period else np.repeat(_above(like, share), size)
        wanted[start:] = _most_within(told, history.promise.lead)
        room = history.room(wanted)
        trial = _Trial(
            share=share, kept_ppm=kept_ppm(history.seen, room, history.promise, start=start), room=float(room[start:].mean())
        )
        if trial.kept_ppm >= goal:
            return _between(forecaster, before, trial, goal)
        before = trial
    return replace(forecaster, exceeded=_SHARES[-1]), float("inf")


def _between(forecaster: Forecaster, before: _Trial | None, found: _Trial, goal: float) -> tuple[Forecaster, float]:
    """Between the two, so that what is chosen does not leap from one to the other."""
    if before is None:
        return replace(forecaster, exceeded=found.share), found.room
    part = (goal - before.kept_ppm) / (found.kept_ppm - before.kept_ppm)
    exceeded = exp(log(before.share) * (1 - part) + log(found.share) * part)
    return replace(forecaster, exceeded=exceeded), before.room * (1 - part) + found.room * part


def _above(ordered: Int64, share: float) -> Int64:
    """Of each row, which is in order, what this share is above; between two of them in proportion. Shape (rows,)."""
    size = ordered.shape[1]
    at = size * (1 - share)
    if share * size < 1:
        return np.asarray(np.ceil(ordered[:, -1] * (1 + _BEYOND * log(1 / (share * size)))), np.int64)
    low, high = ordered[:, max(int(at) - 1, 0)], ordered[:, min(int(at), size - 1)]
    return np.asarray(np.ceil(low + (high - low) * (at - int(at))), np.int64)


def _most_within(values: Int64, lead: int) -> Int64:
    """The most from each bucket until a lead after it: a node has to be asked for so much earlier."""
    found = values.copy()
    for shift in range(1, min(lead, len(values) - 1) + 1):
        found[:-shift] = np.maximum(found[:-shift], values[shift:])
    return found
