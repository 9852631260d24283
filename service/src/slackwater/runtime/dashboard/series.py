"""Keeps the last hour, day and week of the overview's figures in memory, for its charts and `GET /series`.

    series.take(at, {"pending": 12, "binds": 3})        # each second, or as often as the caller likes

The hour has a point for each step of 15 s, the day one for each 5 min, the week one for each hour: 696 points of each figure,
whatever the size of the cluster. Each figure has one way to combine the values within a step: mean, largest, last or sum. A
step without a call of `take` has the value None, and so has a figure by "last" that is not known. Prometheus is the place for
longer times and other figures. Deliberately absent: reading the cluster state (`observer`) or a clock.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from slackwater.model.ids import DAY_SECONDS, UnixTime
from slackwater.model.json_answer import JsonAnswer

HOUR_STEP_SECONDS: Final = 15
DAY_STEP_SECONDS: Final = 300
WEEK_STEP_SECONDS: Final = 3600
_HOUR_STEPS: Final = 3600 // HOUR_STEP_SECONDS
_DAY_STEPS: Final = DAY_SECONDS // DAY_STEP_SECONDS
_WEEK_STEPS: Final = 7 * DAY_SECONDS // WEEK_STEP_SECONDS
#: The most values that are kept of each figure.
STEPS: Final = _HOUR_STEPS + _DAY_STEPS + _WEEK_STEPS

#: How the values within a step are combined.
Fold = Literal["mean", "largest", "last", "sum"]
#: The figures. `cpuPermille` and `memoryPermille` are the reserved thousandths of the nodes' Total, those with "Used" the used
#: ones; `costMicros` is millionths of the configured currency an hour. Figures with "sum" count what happened within a step.
FIGURES: Final[dict[str, Fold]] = {
    "cpuPermille": "mean",
    "memoryPermille": "mean",
    "pending": "largest",
    "oldestPendingSeconds": "largest",
    "nodes": "last",
    "nodesAdded": "sum",
    "nodesRemoved": "sum",
    "failures": "sum",
    "binds": "sum",
    "evictions": "sum",
    "costMicros": "last",
    "cpuUsedPermille": "last",
    "memoryUsedPermille": "last",
}


class Points(JsonAnswer, frozen=True, kw_only=True):
    """Figures of equally long steps, the newest last."""

    step_seconds: int
    end: Annotated[int, Meta(description="Unix time at which the last step ended.")]
    points: Annotated[
        dict[str, list[int | None]],
        Meta(
            description="By figure. cpuPermille and memoryPermille: the reserved share of the nodes' Total, mean of the step; "
            "pending and oldestPendingSeconds: the largest; nodes: the last; nodesAdded, nodesRemoved, failures, binds, "
            "evictions and decisions.<kind>: how many within the step. costMicros: what the nodes of all groups cost an hour, "
            "the last, in millionths of the prices' currency; null without prices, and where no autoscaler loop runs, as on a "
            "standby. cpuUsedPermille and memoryUsedPermille: what nodes use of their Total, the last; null without "
            "kube.nodeUse. Null for every figure: the service did not run."
        ),
    ]


class SeriesAnswer(JsonAnswer, frozen=True, kw_only=True):
    """The figures of the last hour, day and week, kept in memory since the start."""

    hour: Points
    day: Points
    week: Points


@dataclass(slots=True)
class _Step:
    """The present step, with its values combined so far; of a mean, their sum. `taken` counts the calls of `take`."""

    number: int
    taken: int = 0
    values: dict[str, int | None] = field(default_factory=dict)


class Ring:
    """The values of each figure in the last `steps` steps of `step_seconds` each."""

    def __init__(self, folds: Mapping[str, Fold], *, step_seconds: int, steps: int) -> None:
        self._folds = folds
        self._seconds = step_seconds
        self._points: dict[str, deque[int | None]] = {name: deque(maxlen=steps) for name in folds}
        self._steps = steps
        self._step: _Step | None = None

    def take(self, at: UnixTime, values: Mapping[str, int | None]) -> bool:
        """Adds the values at Unix time `at`. True if a step begins with that."""
        number = int(at // self._seconds)
        # If the clock was set back, the values are added to the present step.
        before = self._step
        begins = before is None or number > before.number
        if before is not None and begins:
            self._close(before, number)
        self._step = step = _Step(number) if before is None or begins else before
        self._add(step, values)
        return begins

    def _add(self, step: _Step, values: Mapping[str, int | None]) -> None:
        step.taken += 1
        for name, fold in self._folds.items():
            if fold == "last":
                step.values[name] = values.get(name)
                continue
            value, before = values.get(name) or 0, step.values.get(name) or 0
            step.values[name] = max(before, value) if fold == "largest" else before + value

    def _close(self, step: _Step, upcoming: int) -> None:
        missed = min(upcoming - step.number - 1, self._steps)
        for name, fold in self._folds.items():
            value = step.values[name]
            self._points[name].append(round(value / step.taken) if fold == "mean" and value is not None else value)
            self._points[name].extend([None] * missed)

    def answer(self) -> Points:
        """The ended steps, the oldest first."""
        end = 0 if self._step is None else self._step.number * self._seconds
        return Points(step_seconds=self._seconds, end=end, points={name: list(found) for name, found in self._points.items()})


class Series:
    """The figures of the last hour, day and week. `kinds` are kinds of decisions, each a figure `decisions.<kind>`."""

    def __init__(self, kinds: Sequence[str] = ()) -> None:
        folds: dict[str, Fold] = {**FIGURES, **{f"decisions.{kind}": "sum" for kind in kinds}}
        self._hour = Ring(folds, step_seconds=HOUR_STEP_SECONDS, steps=_HOUR_STEPS)
        self._day = Ring(folds, step_seconds=DAY_STEP_SECONDS, steps=_DAY_STEPS)
        self._week = Ring(folds, step_seconds=WEEK_STEP_SECONDS, steps=_WEEK_STEPS)
        self._encoded: bytes | None = None

    def take(self, at: UnixTime, values: Mapping[str, int | None]) -> None:
        """Adds the figures at Unix time `at`. Figures with "sum" count what happened since the previous call."""
        for ring in (self._hour, self._day, self._week):
            if ring.take(at, values):
                self._encoded = None

    def answer(self) -> SeriesAnswer:
        return SeriesAnswer(hour=self._hour.answer(), day=self._day.answer(), week=self._week.answer())

    def encoded(self) -> bytes:
        """The answer as JSON, built again only when a step has ended."""
        if self._encoded is None:
            self._encoded = msgspec.json.encode(self.answer())
        return self._encoded
