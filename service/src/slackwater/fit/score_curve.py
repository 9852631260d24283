"""Our own score, by the curve of Neon's scheduler plugin, computed with the new pod included (neondatabase/autoscaling, main,
pkg/plugin/framework_methods.go).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from slackwater.fit.scoring import MANY_ROWS, Arithmetic, Room, RoomScore, Value
from slackwater.model.columns import Int64, NodeColumns, Rows
from slackwater.model.resources import CPU, MEMORY, Amounts
from slackwater.snapshot.equivalence_groups import NumberedGroup

#: kube-scheduler takes scores of 0..10 from an extender and multiplies them by weight x 10, without clamping (seen with
#: kube-scheduler 1.36).
MAX_EXTENDER_SCORE: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreCurve:
    """The score of a node by its fullness, the share of Total that is Reserved: `min_usage` at 0, rising to 1 at `peak`,
    falling to `max_usage` at 1."""

    min_usage: float
    max_usage: float
    peak: float

    def at(self, fullness: Value, of: Arithmetic) -> Value:
        """The score at a fullness; above 1 it is that at 1. If the peak is at one end, the slope towards that end is
        missing."""
        fullness = of.smaller(fullness, 1.0)
        rising = falling = None
        if self.peak > 0.0:
            peak = min(self.peak, 1.0)
            rising = self.min_usage + (1.0 - self.min_usage) * (of.smaller(fullness, peak) / peak)
        if self.peak < 1.0:
            falling = self.max_usage + (1.0 - self.max_usage) * ((1.0 - fullness) / (1.0 - max(self.peak, 0.0)))
        if rising is None or falling is None:
            return falling if rising is None else rising
        return of.where(fullness <= self.peak, rising, falling)


def fractions(wanted: Amounts, columns: NodeColumns, rows: Rows, curve: ScoreCurve) -> npt.NDArray[np.float64]:
    """The score of each row, 0..1: the minimum over the resources, scaled by the node's size.

    The size factor is Total / largest Total of all rows. The score is 0 if the pod does not fit, or the node has no Total.
    """
    total = np.take(columns.total, rows, axis=1)
    after = np.take(columns.reserved, rows, axis=1) + wanted.column
    found: npt.NDArray[np.float64] = fractions_of(after, total, columns.total.max(axis=1, initial=0), curve)
    return found


def fractions_of(
    after: Value, total: Value, largest: Sequence[int] | Int64, curve: ScoreCurve, of: Arithmetic = MANY_ROWS
) -> Value:
    """The score of each row, 0..1, from `after`, what would be Reserved with the pod, and `total`: CPU and memory, for one row
    or for many. `largest` is the largest Total of all rows."""
    scores = [
        curve.at(after[resource] / of.larger(total[resource], 1), of) * (total[resource] / max(int(largest[resource]), 1))
        for resource in (CPU, MEMORY)
    ]
    fits = (after[CPU] <= total[CPU]) & (after[MEMORY] <= total[MEMORY])
    return of.where(fits, of.smaller(*scores), 0.0)


def extender_scores(wanted: Amounts, columns: NodeColumns, rows: Rows, curve: ScoreCurve) -> Int64:
    """Scores 0..10 for each row: the fraction to the nearest tenth, and at least 1 if it is above 0.

    An extender could instead spread the rows of a call over all 11 levels by rank. We do not, because that would turn a
    difference of one percent into most of the range, and so override image locality and spread (docs/adr/0002).
    """
    found: Int64 = tenths(fractions(wanted, columns, rows, curve))
    return found


def tenths(score: Value, of: Arithmetic = MANY_ROWS) -> Value:
    """Converts fractions to the scores 0..10 of an extender, as in `extender_scores`."""
    return of.whole(of.where(score > 0, of.larger(of.rounded(score * MAX_EXTENDER_SCORE), 1), 0))


def randomized(scores: Int64, rng: np.random.Generator) -> Int64:
    """Replaces each score s > 0 by a uniform random integer of 1..s; 0 stays 0 (as in Neon's plugin)."""
    return np.where(scores > 0, rng.integers(1, np.maximum(scores, 1), endpoint=True), 0)


def own_score(curve: Callable[[], ScoreCurve], weight: int) -> RoomScore:
    """Makes the function for our own score, as kube-scheduler counts an extender's score: 0..10, times ten, times the weight.

    The score reads requests, which equal Reserved except for pods that grow in place."""

    def own(room: Room, kind: NumberedGroup) -> Value:
        requests, used = kind.kind.requests, room.used
        after = used[CPU] + requests.cpu, used[MEMORY] + requests.memory
        return weight * MAX_EXTENDER_SCORE * tenths(fractions_of(after, room.capacity, room.largest, curve(), room.of), room.of)

    return own
