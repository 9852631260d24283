"""Forecasters: predict how much room will be needed, from the arrival history.

    forecaster = choose_forecaster(history)
    forecaster.ahead(history, exceeded, ahead=60)    # the room for each of the next 60 buckets

For a future bucket a forecaster selects past needs of room that are like the future one: all of them; those at the same minute
of the hour in the last day; or those at the same time of the day, exactly or within some forty minutes. The room is a quantile
of the selected needs: the share `exceeded` of them is above the room. The share is the same at all times (the newsvendor's
critical ratio, with one price for all). The reason: one more pod of room is used in each minute that needs it. So room is
better kept at the time at which it is needed more often, until all times need it equally often.

Each forecaster is tried on the history; for each bucket it knows only the buckets before. Of the forecasters that would have
met the SLO, the one with the least room is used. `slo_sizing` decides how large the share `exceeded` is.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import exp, log
from typing import Final

import numpy as np

from slackwater.controllers.slack.policy import PPM
from slackwater.controllers.slack.start_time_slo import ArrivalHistory, StartTimeSLO, Traffic, kept_ppm
from slackwater.model.columns import Int64

_HOUR, _DAY = 3600, 86_400
#: In seconds: how far two times of the day may differ to count as about the same; how long a block with one forecast is.
_AROUND, _BLOCK = 2400, 600
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
class _Trial:
    """The result of one value of `exceeded` on the history. `kept_ppm`: the millionths of pods that would have found room at
    once. `room`: the mean room that would have been kept, in pods."""

    share: float
    kept_ppm: int
    room: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecaster:
    """A forecaster: a rule that selects past needs, and how it did on the history. Times are in buckets.

    It selects the needs one to `cycles` times `period` before, and those up to `around` buckets from there: only the largest of
    them with `most`, else each. `period` 0: it selects all needs, so its forecast is constant. The buckets of a `block` get one
    forecast. `exceeded`: the share with which it would have met the SLO on the history. `odds`: this share divided by that of
    the constant forecaster.
    """

    period: int = 0
    cycles: int = 1
    around: int = 0
    most: bool = False
    block: int = 1
    exceeded: float = 1.0
    odds: float = 1.0

    def ahead(self, history: ArrivalHistory, exceeded: float, *, ahead: int) -> Int64:
        """The room in pods for each of the next `ahead` buckets, such that the share `exceeded` of the selected needs is above
        it; shape (ahead,)."""
        if not self.period:
            return np.repeat(_above(np.sort(history.needed)[None], exceeded), ahead)
        known = np.concatenate([history.needed, np.zeros(ahead + self.around, np.int64)])
        return self.estimate(self.like(known, len(history.seen), len(history.seen) + ahead), exceeded)[:ahead]

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


def plan_room(arrivals: Iterable[int] | Int64, slo: StartTimeSLO, *, ahead: int) -> Int64:
    """The room in pods for each of the next `ahead` buckets, by the arrivals alone. `arrivals`: the number of pods in each
    bucket, the newest last."""
    history = ArrivalHistory.of(Traffic.of(np.asarray(arrivals, np.int64)), slo)
    forecaster = choose_forecaster(history)
    return room_ahead(history, forecaster, forecaster.exceeded, ahead=ahead)


def room_ahead(history: ArrivalHistory, forecaster: Forecaster, exceeded: float, *, ahead: int) -> Int64:
    """The room in pods for each of the next `ahead` buckets, shape (ahead,). The caller then reduces it if more pods run than
    usual (`ArrivalHistory.gone_percent`)."""
    if history.slo.within_seconds >= history.slo.lead_seconds or not len(history.seen):
        return np.zeros(ahead, np.int64)
    return forecaster.ahead(history, exceeded, ahead=ahead)


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
    bucket, lead = history.slo.bucket_seconds, history.slo.lead
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
    """Finds the largest share `exceeded` with which the forecaster would have met the SLO from bucket `start` on. Returns the
    forecaster with this share, and the mean room in pods that it would have kept; infinite room if no share meets the SLO.
    `like`: the selected needs of each block from `start` on."""
    goal = PPM - AIM * (PPM - history.slo.share_ppm)
    size = len(history.seen) - start
    before: _Trial | None = None
    for share in _SHARES:
        wanted = np.zeros(len(history.seen), np.int64)
        estimate = forecaster.estimate(like, share)[:size] if forecaster.period else np.repeat(_above(like, share), size)
        wanted[start:] = _most_within(estimate, history.slo.lead)
        room = history.room(wanted)
        trial = _Trial(
            share=share, kept_ppm=kept_ppm(history.seen, room, history.slo, start=start), room=float(room[start:].mean())
        )
        if trial.kept_ppm >= goal:
            return _between(forecaster, before, trial, goal)
        before = trial
    return replace(forecaster, exceeded=_SHARES[-1]), float("inf")


def _between(forecaster: Forecaster, before: _Trial | None, found: _Trial, goal: float) -> tuple[Forecaster, float]:
    """Interpolates between the last trial that missed the goal and the first that reached it, so that the result does not jump
    from one share to the next. Returns the same as `_tried`."""
    if before is None:
        return replace(forecaster, exceeded=found.share), found.room
    part = (goal - before.kept_ppm) / (found.kept_ppm - before.kept_ppm)
    exceeded = exp(log(before.share) * (1 - part) + log(found.share) * part)
    return replace(forecaster, exceeded=exceeded), before.room * (1 - part) + found.room * part


def _above(ordered: Int64, share: float) -> Int64:
    """For each row, which is sorted, the interpolated value such that `share` of the row's values is above it; shape
    (rows,)."""
    size = ordered.shape[1]
    at = size * (1 - share)
    if share * size < 1:
        return np.asarray(np.ceil(ordered[:, -1] * (1 + _BEYOND * log(1 / (share * size)))), np.int64)
    low, high = ordered[:, max(int(at) - 1, 0)], ordered[:, min(int(at), size - 1)]
    return np.asarray(np.ceil(low + (high - low) * (at - int(at))), np.int64)


def _most_within(values: Int64, lead: int) -> Int64:
    """For each bucket, the largest value from the bucket until one lead later, since nodes must be requested one lead
    earlier."""
    found = values.copy()
    for shift in range(1, min(lead, len(values) - 1) + 1):
        found[:-shift] = np.maximum(found[:-shift], values[shift:])
    return found
