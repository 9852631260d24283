"""The budget of late pods: how rarely room may be exceeded. Each day allows some late pods, spread over what is left of the
day.

    pace = left / (lateness x pods still to come today)
    left = allowed x pods of the day - late today

`lateness` is how many pods were late for each unit of exceeded time: an average over some five days' pods, and one half before
anything was seen. It contains what is unknown of the cluster: with half-empty nodes pods are in time with less room, and other
pods that take freed room make them late. The pods still to come today are assumed to be as many as came yesterday from this
time on.

Deciding again and again by what is left of a budget is close to the best that can be done with a plan, whatever has happened
since it was made (Jasin and Kumar, "A Re-Solving Heuristic with Bounded Revenue Loss", Mathematics of Operations Research 37,
2012). A correction that only sums errors oscillates: too little room after good hours, and too much after bad ones. Days
begin at midnight UTC. All of it is computed from the counts by the minute, so it outlives a restart with them.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.controllers.slack.forecasters import AIM
from slackwater.controllers.slack.rule import PPM
from slackwater.model.columns import Int64

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
    """The running sums. `allowed`: late pods for each pod; `day`: pods of a usual day. `late`: late pods; `exceeded`: exceeded
    time, weighted by pods; both decay."""

    allowed: float
    day: float
    late: float
    exceeded: float

    def pace(self, came: float, late_today: float, to_come: float) -> float:
        lateness = self.late / self.exceeded
        evenly, more = self.allowed / lateness, self.day * _HOUR_OF_DAY
        left = self.allowed * (came + to_come + more) - late_today
        pace = min(max(left / (lateness * (to_come + more)), evenly * _SLOWEST), evenly * _FASTEST)
        return min(max(pace, _LEAST), _MOST)

    def learns(self, pods: float, late: float, pace: float) -> None:
        keeps = max(1 - pods / (self.day * _MEMORY_DAYS), 0.5)
        self.late = self.late * keeps + late
        self.exceeded = self.exceeded * keeps + pods * pace


def pace_now(in_time: Int64, late: Int64, share_ppm: int, *, minute: int) -> float:
    """The share of time, 0 to 1, that room may be exceeded now. `in_time` and `late` are pods by the minute, the newest last,
    all before `minute` of Unix time; shapes (n,). Minutes that fill no whole step do not count."""
    first = -(-(minute - len(late)) // STEP)
    lates, judged = _by_steps(late, first, minute), _by_steps(in_time + late, first, minute)
    day = max(float(judged.sum()) / max(len(judged), 1) * _STEPS, _FEW)
    exceeded = day * _MEMORY_DAYS * _EXCEEDED
    pod_resources = _Account(allowed=AIM * (PPM - share_ppm) / PPM, day=day, late=_LATENESS * exceeded, exceeded=exceeded)
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(judged)]).tolist()
    came = late_today = pace = 0.0
    for step, (pods, some) in enumerate(zip([*judged.tolist(), 0], [*lates.tolist(), 0], strict=True)):
        into = (first + step) % _STEPS
        if not into:
            came = late_today = 0.0
        to_come = sums[step - into] - sums[step - _STEPS] if step >= _STEPS else day * (_STEPS - into) / _STEPS
        pace = pod_resources.pace(came, late_today, to_come)
        pod_resources.learns(pods, some, pace)
        came, late_today = came + pods, late_today + some
    return pace  # of the step that has begun, whose pods are not known yet


def _by_steps(counts: Int64, first: int, minute: int) -> Int64:
    """Sums over whole steps from step number `first` on; shape (steps,)."""
    begin = first * STEP - (minute - len(counts))
    steps = max((len(counts) - begin) // STEP, 0)
    return np.asarray(counts[begin : begin + steps * STEP].reshape(steps, STEP).sum(axis=1), np.int64)
