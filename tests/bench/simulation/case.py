"""One line of the table: what was done, how long it took each round, and what came out, with Cluster Autoscaler's beside it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.bench.options import BenchFailed
from tests.bench.report import Goal, Measurement

_THEIRS: Final = "Cluster Autoscaler's code"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`count` is what came out: nodes used, pods left over, or nodes that can go."""

    seconds: float
    count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`run` does it once. `their_seconds` and `their_count` were measured elsewhere, with the same input (see the notes).

    `counted` says what. Ours must be `want`, or, where that is None, at most theirs.
    """

    name: str
    run: Callable[[], Outcome]
    counted: str = ""
    want: int | None = None
    goal_seconds: float | None = None
    their_seconds: float | None = None
    their_count: int | None = None
    found: list[Outcome] = field(default_factory=list)

    def once(self) -> None:
        """Runs it and checks what came out. Raises BenchFailed."""
        outcome = self.run()
        self.found.append(outcome)
        if self.want is not None and outcome.count != self.want:
            raise BenchFailed(f"simulate: {self.name}: {outcome.count} {self.counted}, want {self.want}")
        if self.want is None and self.their_count is not None and (outcome.count or 0) > self.their_count:
            raise BenchFailed(f"simulate: {self.name}: {outcome.count} {self.counted}, want at most {self.their_count}")

    def measurements(self) -> Iterator[Measurement]:
        goal = None if self.goal_seconds is None else Goal(at_most=self.goal_seconds)
        seconds = tuple(outcome.seconds for outcome in self.found)
        yield Measurement(subject=self.name, quantity="time", unit="s", samples=seconds, goal=goal)
        counts = tuple(float(outcome.count) for outcome in self.found if outcome.count is not None)
        if counts:
            yield self._measured("count", "", *counts)
        if self.their_seconds is not None:
            yield self._measured(_THEIRS, "s", self.their_seconds)
        if self.their_count is not None:
            yield self._measured(f"{_THEIRS}: count", "", self.their_count)

    def _measured(self, quantity: str, unit: str, *samples: float) -> Measurement:
        return Measurement(subject=self.name, quantity=quantity, unit=unit, samples=samples)
