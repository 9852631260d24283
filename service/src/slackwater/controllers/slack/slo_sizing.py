"""Sizing by start-time SLO: how many pods of a class should find room now, from its arrivals, as placeholders.

    found = promised(observed, leads, before)                    # before: the outcome of the previous plan
    found.pod_headroom                                           # placeholders like the class's pods

A node that is requested now is there one lead later, so the most that is needed from now until then is kept. The forecaster is
chosen again each hour, and when the lead has changed; how rarely room may be exceeded is computed every ten minutes; what will
go is predicted in each loop from what runs. Each equivalence group gets its share by the newest pods. Deliberately absent: the
arithmetic (`start_time_slo`, `forecasters`, `late_budget`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from slackwater.controllers.slack.forecasters import Forecaster, choose_forecaster, room_ahead
from slackwater.controllers.slack.late_budget import STEP, pace_now
from slackwater.controllers.slack.pod_headroom import PodHeadroom, like
from slackwater.controllers.slack.start_time_slo import ArrivalHistory, Promise, Traffic, above_usual
from slackwater.model.promises import KindShare, Observed

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

    promise: Promise
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
class PromisedRoom:
    """The room for one start-time SLO. `problem` says why less is kept than is needed."""

    observed: Observed
    forecast: Forecast
    pod_headroom: tuple[PodHeadroom, ...] = ()
    problem: str | None = None

    @property
    def lead_seconds(self) -> int:
        return self.forecast.promise.lead_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised:
    """The rooms of all start-time SLOs, by the classes' names, in their order."""

    rooms: Mapping[str, PromisedRoom] = field(default_factory=dict)

    @property
    def pod_headroom(self) -> list[PodHeadroom]:
        return [each for room in self.rooms.values() for each in room.pod_headroom]

    @property
    def problems(self) -> list[str]:
        return [room.problem for room in self.rooms.values() if room.problem is not None]


NO_PROMISES: Final = Promised()


def source_of(name: str) -> str:
    """The name of the class as a source of placeholders, for people."""
    return f"promise {name}"


def promised(
    observed: Sequence[Observed], leads: Mapping[str, int], before: Promised, *, unneeded_seconds: float = 0.0
) -> Promised:
    """Sizes the room of each class. `leads`: by class, seconds from the loop that requests a node until it takes pods."""
    rooms = {}
    for each in observed:
        known = before.rooms.get(each.of.name)
        promise = Promise(
            share_ppm=each.of.share_ppm,
            within_seconds=int(each.of.within_seconds),
            lead_seconds=leads[each.of.name],
            keep_seconds=int(unneeded_seconds),
        )
        forecast = _foresee(each, promise, None if known is None else known.forecast)
        rooms[each.of.name] = _room(each, forecast)
    return Promised(rooms=rooms)


def _foresee(seen: Observed, promise: Promise, before: Forecast | None) -> Forecast:
    if before is not None and before.promise != promise:
        before = None
    now = before if before is not None and before.minute == seen.minute else _of_this_minute(seen, promise, before)
    # What came and went since the minute began is known, so it is counted now.
    gone = max(now.above + seen.moved, 0) * now.gone_percent // 100
    return replace(now, room=max(now.ahead[seen.minute - now.drawn] - gone, 0))


def _of_this_minute(seen: Observed, promise: Promise, before: Forecast | None) -> Forecast:
    if before is None or seen.minute - before.chosen >= _CHOICE_MINUTES:
        history = _history(seen, promise)
        drawn = _drawn(seen, history, choose_forecaster(history), chosen=seen.minute)
    elif seen.minute // STEP != before.drawn // STEP:
        drawn = _drawn(seen, _history(seen, promise), before.forecaster, chosen=before.chosen)
    else:
        drawn = before
    hour = Traffic.of(seen.arrivals[-_HOUR:], seen.departures[-_HOUR:])
    above = int(above_usual(hour, promise.bucket_seconds)[-1]) if len(hour) else 0
    return replace(drawn, minute=seen.minute, above=above)


def _history(seen: Observed, promise: Promise) -> ArrivalHistory:
    return ArrivalHistory.of(Traffic.of(seen.arrivals, seen.departures), promise)


def _drawn(seen: Observed, history: ArrivalHistory, forecaster: Forecaster, *, chosen: int) -> Forecast:
    exceeded = min(pace_now(seen.in_time, seen.late, history.promise.share_ppm, minute=seen.minute) * forecaster.odds, 1.0)
    lead = history.promise.lead
    room = room_ahead(history, forecaster, exceeded, ahead=STEP + lead)
    # The largest need from each minute until one lead after it.
    ahead = tuple(int(room[minute : minute + lead + 1].max()) for minute in range(STEP))
    return Forecast(
        promise=history.promise,
        forecaster=forecaster,
        exceeded=exceeded,
        gone_percent=history.gone_percent,
        chosen=chosen,
        drawn=seen.minute,
        ahead=ahead,
        minute=seen.minute,
    )


def _room(seen: Observed, forecast: Forecast) -> PromisedRoom:
    count, problem = forecast.room, None
    if count > MOST_PLACEHOLDERS:
        problem = f"promise {seen.of.name}: {count} placeholders are needed, want at most {MOST_PLACEHOLDERS}"
        count = MOST_PLACEHOLDERS
    if count and not seen.mix:
        problem = f"promise {seen.of.name}: no pod of it was seen since the start: nobody knows what they ask for"
    pod_headroom = tuple(
        PodHeadroom(source=source_of(seen.of.name), kind=like(share.kind), labels=share.labels, count=some)
        for share, some in zip(seen.mix, _shared(count, seen.mix), strict=True)
        if some
    )
    return PromisedRoom(observed=seen, forecast=forecast, pod_headroom=pod_headroom, problem=problem)


def _shared(count: int, mix: Sequence[KindShare]) -> list[int]:
    """The count divided by the shares, by largest remainders, so that the sum is the count; ties go to the first."""
    total = sum(share.count for share in mix)
    if not total:
        return []
    parts = [divmod(count * share.count, total) for share in mix]
    left = count - sum(whole for whole, _ in parts)
    more = set(sorted(range(len(parts)), key=lambda at: -parts[at][1])[:left])
    return [whole + (at in more) for at, (whole, _) in enumerate(parts)]
