"""Keeps the last hour and the last day of the overview's figures in memory, for sparklines and `GET /series`.

    series.take(at, {"pending": 12, "binds": 3})        # each second, or as often as the caller likes

The hour has a point for each step of 15 s, the day one for each step of 5 min; both are bounded. Each figure has one way to
combine the values within a step: mean, largest, last or sum. A step without a call of `take` has the value None. Prometheus is
the place for longer times and other figures. Deliberately absent: reading the cluster state (`observer`) or a clock.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from msgspec import Meta

from slackwater.model.ids import UnixTime
from slackwater.model.json_answer import JsonAnswer

HOUR_STEP_SECONDS: Final = 15
DAY_STEP_SECONDS: Final = 300
_HOUR_STEPS: Final = 3600 // HOUR_STEP_SECONDS
_DAY_STEPS: Final = 86400 // DAY_STEP_SECONDS

#: How the values within a step are combined.
Fold = Literal["mean", "largest", "last", "sum"]
#: The figures. `cpuPermille` and `memoryPermille` are the reserved thousandths of the nodes' Total. Figures with "sum" count
#: what happened within a step.
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
}


class Points(JsonAnswer, frozen=True, kw_only=True):
    """Figures of equally long steps, the newest last."""

    step_seconds: int
    end: Annotated[int, Meta(description="Unix time at which the last step ended.")]
    points: Annotated[
        dict[str, list[int | None]],
        Meta(
            description="By figure. cpuPermille and memoryPermille: the reserved share of the nodes' Total, mean of the step; "
            "pending and oldestPendingSeconds: the largest; nodes: the last; nodesAdded, nodesRemoved, failures, binds and "
            "decisions.<kind>: how many within the step. Null: the service did not run."
        ),
    ]


class SeriesAnswer(JsonAnswer, frozen=True, kw_only=True):
    """The figures of the last hour and the last day, kept in memory since the start."""

    hour: Points
    day: Points


@dataclass(slots=True)
class _Step:
    """The present step, with its values combined so far; of a mean, their sum. `taken` counts the calls of `take`."""

    number: int
    taken: int = 0
    values: dict[str, int] = field(default_factory=dict)


class Ring:
    """The values of each figure in the last `steps` steps of `step_seconds` each."""

    def __init__(self, folds: Mapping[str, Fold], *, step_seconds: int, steps: int) -> None:
        self._folds = folds
        self._seconds = step_seconds
        self._points: dict[str, deque[int | None]] = {name: deque(maxlen=steps) for name in folds}
        self._steps = steps
        self._step: _Step | None = None

    def take(self, at: UnixTime, values: Mapping[str, int]) -> None:
        number = int(at // self._seconds)
        if self._step is None:
            self._step = _Step(number)
        elif number > self._step.number:  # if the clock was set back, the values are added to the present step
            self._close(self._step, number)
            self._step = _Step(number)
        self._add(self._step, values)

    def _add(self, step: _Step, values: Mapping[str, int]) -> None:
        step.taken += 1
        for name, fold in self._folds.items():
            value, before = values.get(name, 0), step.values.get(name)
            if before is None or fold == "last":
                step.values[name] = value
            else:
                step.values[name] = max(before, value) if fold == "largest" else before + value

    def _close(self, step: _Step, upcoming: int) -> None:
        missed = min(upcoming - step.number - 1, self._steps)
        for name, fold in self._folds.items():
            value = step.values[name]
            self._points[name].append(round(value / step.taken) if fold == "mean" else value)
            self._points[name].extend([None] * missed)

    def answer(self) -> Points:
        """The ended steps, the oldest first."""
        end = 0 if self._step is None else self._step.number * self._seconds
        return Points(step_seconds=self._seconds, end=end, points={name: list(found) for name, found in self._points.items()})


class Series:
    """The figures of the last hour and of the last day. `kinds` are kinds of decisions, each a figure `decisions.<kind>`."""

    def __init__(self, kinds: Sequence[str] = ()) -> None:
        folds: dict[str, Fold] = {**FIGURES, **{f"decisions.{kind}": "sum" for kind in kinds}}
        self._hour = Ring(folds, step_seconds=HOUR_STEP_SECONDS, steps=_HOUR_STEPS)
        self._day = Ring(folds, step_seconds=DAY_STEP_SECONDS, steps=_DAY_STEPS)

    def take(self, at: UnixTime, values: Mapping[str, int]) -> None:
        """Adds the figures at Unix time `at`. Figures with "sum" count what happened since the previous call."""
        self._hour.take(at, values)
        self._day.take(at, values)

    def answer(self) -> SeriesAnswer:
        return SeriesAnswer(hour=self._hour.answer(), day=self._day.answer())
