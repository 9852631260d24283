"""Sizing by start-time SLO: how many pods of a class should find room now, from its arrivals, as placeholders.

    found = size_for_slos(observed, leads, before)                    # before: the outcome of the previous plan
    found.pod_headroom                                           # placeholders like the class's pods

A node that is requested now is there one lead later, so the most that is needed from now until then is kept. The forecaster is
chosen again each hour, and when the lead has changed; how rarely room may be exceeded is computed every ten minutes; what will
go is predicted in each loop from what runs. Each equivalence group gets its share by the newest pods. Deliberately absent: the
arithmetic (`start_time_slo`, `forecasters`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from slackwater.controllers.slack.forecasters import AIM, Forecaster, choose_forecaster, room_ahead
from slackwater.controllers.slack.planning_input import PodHeadroom, like
from slackwater.controllers.slack.policy import PPM
from slackwater.controllers.slack.start_time_slo import ArrivalHistory, StartTimeSLO, Traffic, above_usual
from slackwater.model.columns import Int64
from slackwater.model.start_time_slo import KindShare, Observed

#: Minutes of one step of the computation; the steps of a day.
STEP: Final = 10
_STEPS: Final = 144
#: Assumed before anything is known: half of the pods of an exceeded minute are late, and a tenth of the time is exceeded.
_LATENESS, _EXCEEDED = 0.5, 0.1
_MEMORY_DAYS: Final = 5.0
#: Bounds relative to the pace that spends a whole day's budget evenly: budget left in the evening is no reason to keep no room.
_SLOWEST, _FASTEST = 0.25, 1.5
#: So much of a day's pods is assumed to come after the last one, so that the last minutes do not spend all that is left.
_HOUR_OF_DAY: Final = 1 / 24
#: A day is taken to have at least so many pods: fewer say little.
_FEW: Final = 480.0
_LEAST, _MOST = 0.0001, 0.9


@dataclass(slots=True)
class _Account:
    """The running sums of late pods and exceeded time for one class; `late` and `exceeded` decay.

    `allowed`: late pods for each pod; `day`: pods of a usual day. `late`: late pods; `exceeded`: exceeded time, weighted by
    pods.
    """

    allowed: float
    day: float
    late: float
    exceeded: float

    def rate(self, came: float, late_today: float, to_come: float) -> float:
        lateness = self.late / self.exceeded
        evenly, more = self.allowed / lateness, self.day * _HOUR_OF_DAY
        left = self.allowed * (came + to_come + more) - late_today
        rate = min(max(left / (lateness * (to_come + more)), evenly * _SLOWEST), evenly * _FASTEST)
        return min(max(rate, _LEAST), _MOST)

    def learns(self, pods: float, late: float, rate: float) -> None:
        keeps = max(1 - pods / (self.day * _MEMORY_DAYS), 0.5)
        self.late = self.late * keeps + late
        self.exceeded = self.exceeded * keeps + pods * rate


def rate_now(in_time: Int64, late: Int64, share_ppm: int, *, minute: int) -> float:
    """The share of time, 0 to 1, that room may be exceeded now. `in_time` and `late` are pods by the minute, the newest last,
    all before `minute` of Unix time; shapes (n,). Minutes that fill no whole step do not count."""
    first = -(-(minute - len(late)) // STEP)
    lates, judged = _by_steps(late, first, minute), _by_steps(in_time + late, first, minute)
    day = max(float(judged.sum()) / max(len(judged), 1) * _STEPS, _FEW)
    exceeded = day * _MEMORY_DAYS * _EXCEEDED
    pod_resources = _Account(allowed=AIM * (PPM - share_ppm) / PPM, day=day, late=_LATENESS * exceeded, exceeded=exceeded)
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(judged)]).tolist()
    came = late_today = rate = 0.0
    for step, (pods, some) in enumerate(zip([*judged.tolist(), 0], [*lates.tolist(), 0], strict=True)):
        into = (first + step) % _STEPS
        if not into:
            came = late_today = 0.0
        to_come = sums[step - into] - sums[step - _STEPS] if step >= _STEPS else day * (_STEPS - into) / _STEPS
        rate = pod_resources.rate(came, late_today, to_come)
        pod_resources.learns(pods, some, rate)
        came, late_today = came + pods, late_today + some
    return rate  # of the step that has begun, whose pods are not known yet


def _by_steps(counts: Int64, first: int, minute: int) -> Int64:
    """Sums over whole steps from step number `first` on; shape (steps,)."""
    begin = first * STEP - (minute - len(counts))
    steps = max((len(counts) - begin) // STEP, 0)
    return np.asarray(counts[begin : begin + steps * STEP].reshape(steps, STEP).sum(axis=1), np.int64)


#: A forecaster is used for so many minutes.
_CHOICE_MINUTES: Final = 60
_HOUR: Final = 60
#: A larger number of placeholders for one class is taken for a mistake.
MOST_PLACEHOLDERS: Final = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The forecast for one class, kept from loop to loop.

    `forecaster` was chosen in the minute `chosen`. `ahead` is the room for the minute `drawn` and those after it, which may be
    `exceeded` in such a share of time. When `minute` began, `above` more pods ran than usual; `gone_percent` of them leave
    their room, so `room` is less by that."""

    slo: StartTimeSLO
    forecaster: Forecaster
    exceeded: float
    gone_percent: int
    chosen: int
    drawn: int
    ahead: tuple[int, ...]
    minute: int
    above: int = 0
    room: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SLORoom:
    """The room for one start-time SLO. `problem` says why less is kept than is needed."""

    observed: Observed
    forecast: Forecast
    pod_headroom: tuple[PodHeadroom, ...] = ()
    problem: str | None = None

    @property
    def lead_seconds(self) -> int:
        return self.forecast.slo.lead_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SLOSizing:
    """The rooms of all start-time SLOs, by the classes' names, in their order."""

    rooms: Mapping[str, SLORoom] = field(default_factory=dict)

    @property
    def pod_headroom(self) -> list[PodHeadroom]:
        return [each for room in self.rooms.values() for each in room.pod_headroom]

    @property
    def problems(self) -> list[str]:
        return [room.problem for room in self.rooms.values() if room.problem is not None]


NO_SLOS: Final = SLOSizing()


def source_of(name: str) -> str:
    """The name of the class as a source of placeholders, for people."""
    return f"SLO {name}"


def size_for_slos(
    observed: Sequence[Observed], leads: Mapping[str, int], before: SLOSizing, *, unneeded_seconds: float = 0.0
) -> SLOSizing:
    """Sizes the room of each class. `leads`: by class, seconds from the loop that requests a node until it takes pods."""
    rooms = {}
    for each in observed:
        known = before.rooms.get(each.of.name)
        slo = StartTimeSLO(
            share_ppm=each.of.share_ppm,
            within_seconds=int(each.of.within_seconds),
            lead_seconds=leads[each.of.name],
            keep_seconds=int(unneeded_seconds),
        )
        forecast = _foresee(each, slo, None if known is None else known.forecast)
        rooms[each.of.name] = _room(each, forecast)
    return SLOSizing(rooms=rooms)


def _foresee(seen: Observed, slo: StartTimeSLO, before: Forecast | None) -> Forecast:
    if before is not None and before.slo != slo:
        before = None
    now = before if before is not None and before.minute == seen.minute else _of_this_minute(seen, slo, before)
    # What came and went since the minute began is known, so it is counted now.
    gone = max(now.above + seen.moved, 0) * now.gone_percent // 100
    return replace(now, room=max(now.ahead[seen.minute - now.drawn] - gone, 0))


def _of_this_minute(seen: Observed, slo: StartTimeSLO, before: Forecast | None) -> Forecast:
    if before is None or seen.minute - before.chosen >= _CHOICE_MINUTES:
        history = _history(seen, slo)
        drawn = _drawn(seen, history, choose_forecaster(history), chosen=seen.minute)
    elif seen.minute // STEP != before.drawn // STEP:
        drawn = _drawn(seen, _history(seen, slo), before.forecaster, chosen=before.chosen)
    else:
        drawn = before
    hour = Traffic.of(seen.arrivals[-_HOUR:], seen.departures[-_HOUR:])
    above = int(above_usual(hour, slo.bucket_seconds)[-1]) if len(hour) else 0
    return replace(drawn, minute=seen.minute, above=above)


def _history(seen: Observed, slo: StartTimeSLO) -> ArrivalHistory:
    return ArrivalHistory.of(Traffic.of(seen.arrivals, seen.departures), slo)


def _drawn(seen: Observed, history: ArrivalHistory, forecaster: Forecaster, *, chosen: int) -> Forecast:
    exceeded = min(rate_now(seen.in_time, seen.late, history.slo.share_ppm, minute=seen.minute) * forecaster.odds, 1.0)
    lead = history.slo.lead
    room = room_ahead(history, forecaster, exceeded, ahead=STEP + lead)
    # The largest need from each minute until one lead after it.
    ahead = tuple(int(room[minute : minute + lead + 1].max()) for minute in range(STEP))
    return Forecast(
        slo=history.slo,
        forecaster=forecaster,
        exceeded=exceeded,
        gone_percent=history.gone_percent,
        chosen=chosen,
        drawn=seen.minute,
        ahead=ahead,
        minute=seen.minute,
    )


def _room(seen: Observed, forecast: Forecast) -> SLORoom:
    count, problem = forecast.room, None
    if count > MOST_PLACEHOLDERS:
        problem = f"SLO {seen.of.name}: {count} placeholders are needed, want at most {MOST_PLACEHOLDERS}"
        count = MOST_PLACEHOLDERS
    if count and not seen.mix:
        problem = f"SLO {seen.of.name}: no pod of it was seen since the start: nobody knows what they ask for"
    pod_headroom = tuple(
        PodHeadroom(source=source_of(seen.of.name), kind=like(share.kind), labels=share.labels, count=some)
        for share, some in zip(seen.mix, _shared(count, seen.mix), strict=True)
        if some
    )
    return SLORoom(observed=seen, forecast=forecast, pod_headroom=pod_headroom, problem=problem)


def _shared(count: int, mix: Sequence[KindShare]) -> list[int]:
    """The count divided by the shares, by largest remainders, so that the sum is the count; ties go to the first."""
    total = sum(share.count for share in mix)
    if not total:
        return []
    parts = [divmod(count * share.count, total) for share in mix]
    left = count - sum(whole for whole, _ in parts)
    more = set(sorted(range(len(parts)), key=lambda at: -parts[at][1])[:left])
    return [whole + (at in more) for at, (whole, _) in enumerate(parts)]
