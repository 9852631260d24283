"""Scores by the curve of Neon's scheduler plugin, computed with the new pod included (neondatabase/autoscaling, main,
pkg/plugin/framework_methods.go)."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from slackwater.model.columns import Int64, NodeColumns, Rows, vertical
from slackwater.model.resources import CPU, MEMORY, Amounts

#: kube-scheduler takes scores of 0..10 from an extender and multiplies them by weight x 10, without clamping (seen with
#: kube-scheduler 1.36).
MAX_EXTENDER_SCORE: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreCurve:
    """The score of a node by its fullness, the share of Total that is Reserved: `min_usage` at 0, rising to 1 at `peak`,
    falling to `max_usage` at 1."""

    min_usage: float = 0.5
    max_usage: float = 0.0
    peak: float = 0.8


def fractions(wanted: Amounts, columns: NodeColumns, rows: Rows, curve: ScoreCurve) -> npt.NDArray[np.float64]:
    """The score of each row, 0..1: the minimum over the resources, scaled by the node's size.

    The size factor is Total / largest Total of all rows. The score is 0 if the pod does not fit, or the node has no Total.
    """
    total = np.take(columns.total, rows, axis=1)
    after = np.take(columns.reserved, rows, axis=1) + vertical(wanted)
    return fractions_of(after, total, columns.total.max(axis=1, initial=0), curve)


def fractions_of(after: Int64, total: Int64, largest: Int64, curve: ScoreCurve) -> npt.NDArray[np.float64]:
    """The score of each row, 0..1, from `after`, what would be Reserved with the pod, and `total`, both of shape (resources,
    rows). `largest` is the largest Total of all rows, shape (resources,)."""
    fullness, scores = _points(curve)
    score = np.interp(after / np.maximum(total, 1), fullness, scores) * (total / np.maximum(largest, 1)[:, None])
    fits = after <= total
    # Line by line: numpy needs twice the time to reduce over so short an axis.
    return np.where(fits[CPU] & fits[MEMORY], np.minimum(score[CPU], score[MEMORY]), 0.0)


@lru_cache(maxsize=8)
def _points(curve: ScoreCurve) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The curve's corners: their fullness and their score. If the peak is at one end, the slope towards that end is missing."""
    if curve.peak <= 0.0:
        corners = [(0.0, 1.0), (1.0, curve.max_usage)]
    elif curve.peak >= 1.0:
        corners = [(0.0, curve.min_usage), (1.0, 1.0)]
    else:
        corners = [(0.0, curve.min_usage), (curve.peak, 1.0), (1.0, curve.max_usage)]
    return np.array([fullness for fullness, _ in corners]), np.array([score for _, score in corners])


def percent_scores(wanted: Amounts, columns: NodeColumns, rows: Rows, curve: ScoreCurve) -> Int64:
    """The scores 0..100 that Neon's plugin itself answers, truncated."""
    return np.asarray(100 * fractions(wanted, columns, rows, curve), np.int64)


def extender_scores(wanted: Amounts, columns: NodeColumns, rows: Rows, curve: ScoreCurve) -> Int64:
    """Scores 0..10 for each row: the fraction to the nearest tenth, and at least 1 if it is above 0.

    An extender could instead spread the rows of a call over all 11 levels by rank. We do not, because that would turn a
    difference of one percent into most of the range, and so override image locality and spread (docs/adr/0002).
    """
    return tenths(fractions(wanted, columns, rows, curve))


def tenths(score: npt.NDArray[np.float64]) -> Int64:
    """Converts fractions to the scores 0..10 of an extender, as in `extender_scores`."""
    return np.where(score > 0, np.maximum(np.rint(score * MAX_EXTENDER_SCORE), 1), 0).astype(np.int64)


def randomized(scores: Int64, rng: np.random.Generator) -> Int64:
    """Replaces each score s > 0 by a uniform random integer of 1..s; 0 stays 0 (as in Neon's plugin)."""
    return np.where(scores > 0, rng.integers(1, np.maximum(scores, 1), endpoint=True), 0)
