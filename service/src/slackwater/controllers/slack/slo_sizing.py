"""Sizing by start-time SLO: how many pods of a class should find room now, from the class's arrivals, as placeholders.

    rooms = size_for_slos(observed, leads, before)    # before: the result of the previous plan
    rooms[name].pod_headroom                         # placeholders like the class's pods

A node that is requested now takes pods one lead later, so the largest need from now until then is kept. The forecaster is
chosen again each hour, and when the lead has changed. How often demand may exceed the room is computed again every ten minutes.
The number of pods that will go is predicted in each loop from the number that run. The placeholders are divided among
equivalence groups in proportion to the newest pods. Deliberately absent: the arithmetic (`start_time_slo`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.groups import GrowableGroup
from slackwater.controllers.slack.planning_input import PodHeadroom, like
from slackwater.controllers.slack.policy import SlackPolicy
from slackwater.controllers.slack.start_time_slo import (
    AIM,
    ArrivalHistory,
    Forecaster,
    StartTimeSLO,
    Traffic,
    above_usual,
    choose_forecaster,
    room_ahead,
)
from slackwater.fit.plugins.taint_toleration import tolerated
from slackwater.model.columns import Int64
from slackwater.model.ids import PPM
from slackwater.model.node_taints import repels
from slackwater.model.nodegroups import GroupName
from slackwater.model.pod_constraints import Kind
from slackwater.model.start_time_slo import KindShare, Observed

#: The length of a step of the computation, in minutes; the number of steps in a day.
STEP: Final = 10
_STEPS: Final = 144
#: Assumed before anything was observed: demand exceeds the room a tenth of the time, and then half of the pods are late.
_LATENESS, _EXCEEDED = 0.5, 0.1
_MEMORY_DAYS: Final = 5.0
#: Bounds relative to the rate that spends a day's budget of late pods evenly: a budget left in the evening is no reason to keep
#: no room.
_SLOWEST, _FASTEST = 0.25, 1.5
#: The share of a day's pods that is assumed to come after the day's end, so that its last minutes do not spend all of the
#: budget.
_HOUR_OF_DAY: Final = 1 / 24
#: The least number of pods that a day is assumed to have: fewer pods would say little.
_FEW: Final = 480.0
_LEAST, _MOST = 0.0001, 0.9


@dataclass(slots=True)
class _LateBudget:
    """The running sums of late pods and of the allowed excess for one class. `late` and `exceeded` decay with the pods that
    come.

    `allowed`: the share of pods that may be late. `day`: pods of a usual day. `late`: late pods. `exceeded`: pods times the
    rate at which demand was allowed to exceed the room when they came.
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
    """The share of time, 0 to 1, for which demand may exceed the room in the present step, so that `share_ppm` millionths of a
    day's pods still meet the SLO.

    `in_time` and `late`: the pods that met the SLO and that did not, in each minute, shapes (n,). The newest minute, the last
    entry, is the one before `minute` (Unix time in minutes). Minutes that do not fill a whole step are left out."""
    first = -(-(minute - len(late)) // STEP)
    late_counts, judged = _by_steps(late, first, minute), _by_steps(in_time + late, first, minute)
    day = max(float(judged.sum()) / max(len(judged), 1) * _STEPS, _FEW)
    exceeded = day * _MEMORY_DAYS * _EXCEEDED
    budget = _LateBudget(allowed=AIM * (PPM - share_ppm) / PPM, day=day, late=_LATENESS * exceeded, exceeded=exceeded)
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(judged)]).tolist()
    came = late_today = rate = 0.0
    for step, (pods, some) in enumerate(zip([*judged.tolist(), 0], [*late_counts.tolist(), 0], strict=True)):
        into = (first + step) % _STEPS
        if not into:
            came = late_today = 0.0
        to_come = sums[step - into] - sums[step - _STEPS] if step >= _STEPS else day * (_STEPS - into) / _STEPS
        rate = budget.rate(came, late_today, to_come)
        budget.learns(pods, some, rate)
        came, late_today = came + pods, late_today + some
    return rate  # of the step that has begun, whose pods are not known yet


def _by_steps(counts: Int64, first: int, minute: int) -> Int64:
    """Sums the counts of each whole step, from step number `first` (of Unix time) on; shape (steps,). `counts`: by minute, up
    to the minute before `minute`. A step that has not ended is left out."""
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
    """The forecast for one class, kept from loop to loop. Minutes are of Unix time.

    `forecaster` was chosen in the minute `chosen`. `ahead`: the room in pods for the minute `drawn` and the minutes after it.
    `exceeded`: the share of time for which demand may exceed that room. When `minute` began, `above` more pods ran than usual.
    `gone_percent` of these are expected to go. `room`: the room in pods for the present, less that number."""

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
    """The room for one start-time SLO. `problem`: why less room is kept than is needed; None if enough is kept."""

    observed: Observed
    forecast: Forecast
    pod_headroom: tuple[PodHeadroom, ...] = ()
    problem: str | None = None


def size_for_slos(
    observed: Sequence[Observed], leads: Mapping[str, int], before: Mapping[str, SLORoom], *, unneeded_seconds: float = 0.0
) -> dict[str, SLORoom]:
    """Computes the room for each class, by the class's name and in the order of the classes. `leads`: for each class, the
    seconds from the loop that requests a node until the node takes pods. `before`: the result of the previous loop."""
    rooms = {}
    for each in observed:
        known = before.get(each.of.name)
        slo = StartTimeSLO(
            share_ppm=each.of.share_ppm,
            within_seconds=int(each.of.within),
            lead_seconds=leads[each.of.name],
            keep_seconds=int(unneeded_seconds),
        )
        forecast = _updated_forecast(each, slo, None if known is None else known.forecast)
        rooms[each.of.name] = _room(each, forecast)
    return rooms


def _updated_forecast(seen: Observed, slo: StartTimeSLO, before: Forecast | None) -> Forecast:
    if before is not None and before.slo != slo:
        before = None
    now = before if before is not None and before.minute == seen.minute else _of_this_minute(seen, slo, before)
    # `above` is as of the beginning of the minute; `moved` adds the pods that came and went since.
    gone = max(now.above + seen.moved, 0) * now.gone_percent // 100
    return replace(now, room=max(now.ahead[seen.minute - now.drawn] - gone, 0))


def _of_this_minute(seen: Observed, slo: StartTimeSLO, before: Forecast | None) -> Forecast:
    if before is None or seen.minute - before.chosen >= _CHOICE_MINUTES:
        history = _history(seen, slo)
        drawn = _forecast_by(seen, history, choose_forecaster(history), chosen=seen.minute)
    elif seen.minute // STEP != before.drawn // STEP:
        drawn = _forecast_by(seen, _history(seen, slo), before.forecaster, chosen=before.chosen)
    else:
        drawn = before
    hour = Traffic.of(seen.arrivals[-_HOUR:], seen.departures[-_HOUR:])
    above = int(above_usual(hour)[-1]) if len(hour) else 0
    return replace(drawn, minute=seen.minute, above=above)


def _history(seen: Observed, slo: StartTimeSLO) -> ArrivalHistory:
    return ArrivalHistory.of(Traffic.of(seen.arrivals, seen.departures), slo)


def _forecast_by(seen: Observed, history: ArrivalHistory, forecaster: Forecaster, *, chosen: int) -> Forecast:
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
        PodHeadroom(source=f"SLO {seen.of.name}", kind=like(share.kind), labels=share.labels, count=some)
        for share, some in zip(seen.mix, _shared(count, seen.mix), strict=True)
        if some
    )
    return SLORoom(observed=seen, forecast=forecast, pod_headroom=pod_headroom, problem=problem)


def _shared(count: int, mix: Sequence[KindShare]) -> list[int]:
    """Divides `count` in proportion to the shares, by largest remainders, so that the parts add up to `count`; ties go to the
    first."""
    total = sum(share.count for share in mix)
    if not total:
        return []
    parts = [divmod(count * share.count, total) for share in mix]
    left = count - sum(whole for whole, _ in parts)
    more = set(sorted(range(len(parts)), key=lambda at: -parts[at][1])[:left])
    return [whole + (at in more) for at, (whole, _) in enumerate(parts)]


def leads_of(
    observed: Sequence[Observed],
    groups: Sequence[GrowableGroup],
    starts: Mapping[GroupName, Sequence[float]],
    policy: SlackPolicy,
    *,
    comparing: bool = False,
) -> dict[str, int]:
    """The lead time of each pod class in whole seconds: the time from when a node is needed until it takes pods.

    It is the longest start time of the groups whose nodes fit the class, plus the time until the next plan is made. `starts`:
    the start times in seconds of each group's last nodes. `comparing`: the cluster supports the toleration operators Gt and Lt.
    """

    found = {}
    for seen in observed:
        kinds = [share.kind for share in seen.mix]
        ours = {group.owner for group in groups if any(_takes(group, kind, comparing) for kind in kinds)}
        # Of each group the smallest start time that at least the SLO's share of its last nodes did not exceed.
        of_groups = (sorted(starts[name]) for name in ours if starts.get(name))
        known = [times[-(-len(times) * seen.of.share_ppm // PPM) - 1] for times in of_groups]
        found[seen.of.name] = ceil(max(known, default=policy.node_start_seconds) + policy.scan_interval)
    return found


def _takes(group: GrowableGroup, kind: Kind, comparing: bool) -> bool:
    """Could a new node of the group take a pod of the class, by labels, taints and room? The plan checks the rest."""
    if group.template is None:
        return False
    node = group.template.node
    return (
        kind.requests.within(node.allocatable)
        and all(node.labels.get(key) == value for key, value in kind.node_selector)
        and all(tolerated(taint, kind.tolerations, comparing=comparing) for taint in node.taints if repels(taint))
    )
