"""Searches patterns whose pods are valued above the price of their node, for given values of the pods.

That is a bounded knapsack problem with several dimensions for each variant. All variants are searched at once with columns: a
beam search takes the kinds of pods in the order of their value for what they take, and keeps the `width` fillings that promise
most. What is left of a node is valued at the density of the next kind, as in the branch and bound of knapsack problems.
"""

from typing import Final, NamedTuple

import numpy as np

from slackwater.controllers.scaleup.packing.master import Assignment
from slackwater.controllers.scaleup.packing.problem import LEAST_WEIGHT, Floats, PackingProblem, Pattern, weighings
from slackwater.model.columns import Int64, Mask, Rows

#: A search looks at so many kinds, the densest.
MOST_TURNS: Final = 200
#: So many patterns of a variant are used at a time.
_TOP: Final = 3
_UNLIMITED: Final = 2**40
#: From so many pods on, parts of them are tried too.
_SEVERAL: Final = 4


class Beam(NamedTuple):
    """`width`: how many fillings are kept. `choices`: how many numbers of pods of a kind are tried, by `_fewer`. `mixed`: with
    which part of the mean filling each filling begins."""

    width: int
    choices: int
    mixed: float = 0.0


class _Beginning(NamedTuple):
    """How the fillings of some variants begin. `counts`: with which pods, shape (variants, kinds). `densities`: shape
    (variants, kinds). `weights`: of one unit of each line, shape (variants, lines)."""

    variants: Rows
    counts: Int64
    densities: Floats
    weights: Floats


class PatternSearch:
    """The search for patterns of one problem. `assigned`: the optimum if pods could be divided, as far as it is known. A beam
    alone finds no filling with a few pods of each of many kinds, as are needed where several lines run out at once."""

    def __init__(self, problem: PackingProblem, assigned: Assignment | None = None) -> None:
        self._problem = problem
        self._mean = np.zeros(problem.takes.shape) if assigned is None else assigned.mean
        has = np.maximum(problem.empty, 1)
        shares = problem.amounts[None] / has[:, None]
        weighed = np.repeat(weighings(problem.amounts.shape[1])[:, None], len(has), axis=1)
        if assigned is not None:
            values = assigned.line_values
            known = values + LEAST_WEIGHT * values.sum(axis=1, keepdims=True) + LEAST_WEIGHT
            weighed = np.concatenate([weighed, (known / known.sum(axis=1, keepdims=True))[None]])
        #: What a pod takes of a new node under each weighing of the lines, shape (weighings, variants, kinds).
        self._shares: Floats = np.einsum("vkl,dvl->dvk", shares, weighed)
        self._weights: Floats = weighed / has

    def _densities(self, values: Floats) -> Floats:
        return np.where(self._problem.takes[None], values / self._shares, 0.0)

    def better(self, values: Floats, demand: Int64, least: Floats, beam: Beam) -> list[Pattern]:
        """The patterns found that are valued above `least`, shape (variants,). None holds more pods of a kind than
        `demand`, shape (kinds,)."""
        demanded: Floats = np.where(demand > 0, values, 0.0)
        densities = self._densities(demanded)
        highest = densities.max(axis=2)
        variants = np.flatnonzero(highest.min(axis=0) > least)
        if not len(variants):
            return []
        best = highest[:, variants].argmin(axis=0)
        begun = np.minimum((self._mean[variants] * beam.mixed).astype(np.int64), np.minimum(demand, self._problem.most))
        value, counts = self._filled(
            _Beginning(
                variants=variants, counts=begun, densities=densities[best, variants], weights=self._weights[best, variants]
            ),
            demanded,
            demand,
            beam,
        )
        used = zip(*np.nonzero(value > least[variants][:, None]), strict=True)
        return [Pattern(variant=int(variants[at]), counts=counts[at, one]) for at, one in used]

    def _filled(self, begin: _Beginning, values: Floats, demand: Int64, beam: Beam) -> tuple[Floats, Int64]:
        """The `_TOP` best fillings that the beam search keeps: their values, shape (variants, top), and pods of each kind,
        shape (variants, top, kinds)."""
        problem, begun, densities, weights = self._problem, begin.counts, begin.densities, begin.weights
        n = len(begin.variants)
        turns = min(int((densities > 0).sum(axis=1).max()), MOST_TURNS)
        order = np.argsort(-densities, axis=1, kind="stable")[:, :turns]
        density = np.take_along_axis(densities, order, 1)
        following = np.concatenate([density[:, 1:], np.zeros((n, 1))], axis=1)
        free: Int64 = (problem.empty[begin.variants] - begun @ problem.amounts)[:, None]
        value: Floats = (begun @ values)[:, None]
        most = np.minimum(demand, problem.most) - begun
        each = np.arange(n)[:, None]
        #: For each turn, the filling before, and how many pods were added to it.
        steps: list[tuple[Rows, Int64]] = []
        for turn, kinds in enumerate(order.T):
            amounts = problem.amounts[kinds]
            fit = _fitting(free, amounts, np.where(density[:, turn] > 0, most[each[:, 0], kinds], 0))
            fewer = _fewer(fit, beam.choices)
            none: Mask = fewer > fit[:, :, None]
            tried = np.maximum(fit[:, :, None] - fewer, 0)
            valued = value[:, :, None] + values[kinds][:, None, None] * tried
            room: Floats = np.einsum("vwl,vl->vw", free, weights)[:, :, None]
            room = room - tried * np.einsum("vl,vl->v", amounts, weights)[:, None, None]
            promise = np.where(none, -1.0, valued + following[:, turn][:, None, None] * room).reshape(n, -1)
            kept = _largest(promise, beam.width)
            of = kept // beam.choices
            added: Int64 = np.take_along_axis(tried.reshape(n, -1), kept, 1)
            value = np.take_along_axis(np.where(none, -1.0, valued).reshape(n, -1), kept, 1)
            free = free[each, of] - added[:, :, None] * amounts[:, None]
            steps.append((of, added))
        top = np.argsort(-value, axis=1, kind="stable")[:, :_TOP]
        counts = np.repeat(begun[:, None], top.shape[1], axis=1)
        at = top
        for kinds, (of, added) in zip(order.T[::-1], reversed(steps), strict=True):
            counts[each, np.arange(top.shape[1])[None], kinds[:, None]] += np.take_along_axis(added, at, 1)
            at = np.take_along_axis(of, at, 1)
        return np.take_along_axis(value, top, 1), counts


def _fewer(fit: Int64, choices: int) -> Int64:
    """By how many pods fewer than fit each filling is tried, shape (variants, width, choices): none, one, half of them, all, a
    quarter, three quarters. What would be tried twice is `_UNLIMITED`."""
    several = np.where(fit < _SEVERAL, _UNLIMITED, fit)
    each = (0 * fit, 0 * fit + 1, several // 2, np.where(fit > 1, fit, _UNLIMITED), several // 4, several - several // 4)
    return np.stack(each[:choices], axis=2)


def _fitting(free: Int64, amounts: Int64, most: Int64) -> Int64:
    """How many pods fit at most; shape (variants, width)."""
    fit = np.broadcast_to(most[:, None], free.shape[:2])
    for line in range(amounts.shape[1]):
        amount = amounts[:, None, line]
        fit = np.minimum(fit, np.where(amount > 0, free[:, :, line] // np.maximum(amount, 1), _UNLIMITED))
    return fit


def _largest(promise: Floats, width: int) -> Int64:
    """The positions of the largest entries of each row, in the order of the positions."""
    if promise.shape[1] <= width:
        return np.broadcast_to(np.arange(promise.shape[1]), promise.shape)
    return np.sort(np.argpartition(-promise, width - 1, axis=1)[:, :width], axis=1)
