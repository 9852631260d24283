"""Adds up the lines of a log: the figures of each side, what the sides' differences cost, decisions by action, and how far the
model was from what happened.
"""

from array import array
from dataclasses import dataclass, field
from typing import Final, Literal

from slackwater.app.counterfactual.durations import quantile
from slackwater.app.counterfactual.lines import (
    AnyLine,
    Began,
    Decision,
    ModelCheck,
    NodeCame,
    NodeWent,
    Sample,
    Side,
    Waits,
)
from slackwater.app.report.partings import Partings
from slackwater.app.report.totals import SideTotals
from slackwater.app.report.window import Window

Checked = Literal["pendingP95", "evictions", "emptyNodes"]
_CHECKED: Final[tuple[Checked, ...]] = ("pendingP95", "evictions", "emptyNodes")


@dataclass(slots=True)
class Errors:
    """The errors of one figure of the model: `worst` has the error, the time, and what was modelled and real."""

    every: "array[float]" = field(default_factory=lambda: array("d"))
    worst: tuple[float, float, float, float] = (-1.0, 0.0, 0.0, 0.0)

    def add(self, at: float, modelled: float, real: float) -> None:
        error = abs(modelled - real) / max(real, 1.0)
        self.every.append(error)
        self.worst = max(self.worst, (error, at, modelled, real))


@dataclass(slots=True)
class Sums:
    """The sums of what is written from `began` on, within the window. `actions`: decisions, nodes and pods by side, who
    decided, and action."""

    began: Began
    window: Window
    sides: dict[Side, SideTotals] = field(init=False)
    partings: Partings = field(default_factory=Partings)
    actions: dict[tuple[Side, str, str], list[int]] = field(default_factory=dict)
    errors: dict[Checked, Errors] = field(default_factory=lambda: {of: Errors() for of in _CHECKED})

    def __post_init__(self) -> None:
        self.sides = {side: SideTotals(side) for side in self.began.sides}
        self.partings.begin(self.began.at, alone=len(self.sides) == 1)

    def goes_on_with(self, line: Began) -> bool:
        """Can what is written from this line on be added to what was before?"""
        return (line.sides, line.currency) == (self.began.sides, self.began.currency)

    def take(self, line: AnyLine) -> None:
        begins_again = isinstance(line, Began) and not line.goes_on
        within = self.window.take(line.at, begins_again=begins_again)
        counted = self.window.counted
        match line:
            case Began():
                self.began = line
                if begins_again:
                    self._begin_again()
            case Sample():
                if within:
                    self.partings.freeze()
                if line.side in self.sides:
                    self.sides[line.side].take(line, counted, within=within, part=self.window.breaks)
            case NodeCame():
                self.partings.came(line, counted)
            case NodeWent():
                self.partings.went(line, counted)
            case _:
                if within:
                    self._count(line)

    def finish(self) -> None:
        """Adds what lasts until the last line."""
        self.partings.finish(self.window.counted)
        for side in self.sides.values():
            side.until(self.window.counted)

    def _begin_again(self) -> None:
        self.finish()
        self.partings.begin(self.began.at, alone=len(self.sides) == 1)
        for side in self.sides.values():
            side.forget_sample()

    def _count(self, line: Decision | Waits | ModelCheck) -> None:
        match line:
            case Decision():
                counts = self.actions.setdefault((line.side, line.by, line.action), [0, 0, 0])
                for at, more in enumerate((1, line.nodes, line.pods)):
                    counts[at] += more
            case Waits():
                if line.side in self.sides:
                    self.sides[line.side].wait(line)
            case ModelCheck():
                waits = (quantile(buckets, 0.95) or 0.0 for buckets in (line.modelled_waits, line.real_waits))
                self.errors["pendingP95"].add(line.at, *waits)
                self.errors["evictions"].add(line.at, line.modelled_evictions, line.real_evictions)
                self.errors["emptyNodes"].add(line.at, line.modelled_empty_nodes, line.real_empty_nodes)
