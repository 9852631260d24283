"""The master problem: how many nodes of each known pattern, as a linear program, and what a pod of each kind is worth in it.

HiGHS solves it (https://highs.dev, MIT licence; the extra `solver`). One thread, a fixed seed and no clock: the same problem
gets the same answer at any load. Where limits leave pods without a node, an artificial column takes them at a price above any
node's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from slackwater.controllers.scaleup.packing.problem import PackingProblem, Pattern
from slackwater.model.columns import Int64
from slackwater_protocol.money import MICROS

Floats = npt.NDArray[np.float64]
_NO_ROWS: Final = np.zeros(0, np.int32)
_NO_VALUES: Final = np.zeros(0)
_OPTIONS: Final = {"output_flag": False, "threads": 1, "random_seed": 1}
#: Branch and bound ends within half a percent, and spends nothing on finding patterns early.
_ROUGH: Final = {"mip_rel_gap": 0.005, "mip_heuristic_effort": 0.0}
#: An artificial column costs so many times the dearest node.
_DEARER: Final = 100.0
#: What the solver returns as 2.9999999 is 3.
_NEARLY: Final = 1e-6


def has_solver() -> bool:
    """Is the extra `solver` installed?"""
    return find_spec("highspy") is not None


def _solver() -> Any:
    """The solver's module, loaded when the first plan needs it: it takes 20 MiB."""
    return import_module("highspy")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearPlan:
    """The optimum over the known patterns. `cost` in the price book's currency; `numbers`: nodes of each pattern. `values`: of
    a pod of each kind, shape (kinds,). `charges`: what limits add to the price of a variant's node, shape (variants,)."""

    cost: float
    numbers: Floats
    values: Floats
    charges: Floats


class MasterProblem:
    """The linear program over the patterns that are known so far. Rows: the kinds, then each variant's room, then the common
    limits."""

    def __init__(self, problem: PackingProblem) -> None:
        self._problem = problem
        self.patterns: list[Pattern] = []
        self._known: set[tuple[int, bytes]] = set()
        self._kinds, self._variants = len(problem.demand), len(problem.prices)
        solver = _solver()
        self._lp = solver.Highs()
        self._infinite: float = solver.kHighsInf
        for name, value in _OPTIONS.items():
            self._lp.setOptionValue(name, value)
        for demand in problem.demand.tolist():
            self._lp.addRow(demand, self._infinite, 0, _NO_ROWS, _NO_VALUES)
        #: Limits on bytes would be 2^40 times as large as other rows.
        self._taken = problem.limits_taken / np.maximum(problem.limits_taken.max(axis=1, initial=1), 1)[:, None]
        for most in self._most(problem.room, problem.limits):
            self._lp.addRow(-self._infinite, most, 0, _NO_ROWS, _NO_VALUES)
        dear = _DEARER * float(problem.prices.max()) / MICROS
        for kind in range(self._kinds):
            self._lp.addCol(dear, 0, self._infinite, 1, np.array([kind], np.int32), np.ones(1))

    def add(self, patterns: Sequence[Pattern]) -> int:
        """Adds those patterns that are new. Returns their number."""
        added = 0
        for pattern in patterns:
            key = (pattern.variant, pattern.counts.tobytes())
            if key not in self._known:
                self._known.add(key)
                self._add(pattern)
                added += 1
        return added

    def _add(self, pattern: Pattern) -> None:
        problem, variant = self._problem, pattern.variant
        kinds = np.flatnonzero(pattern.counts)
        limits = np.flatnonzero(self._taken[:, variant])
        rows = np.concatenate([kinds, [self._kinds + variant], self._kinds + self._variants + limits]).astype(np.int32)
        values = np.concatenate([pattern.counts[kinds], [1], self._taken[limits, variant]]).astype(np.float64)
        cost = float(problem.prices[variant]) / MICROS
        self._lp.addCol(cost, 0, self._infinite, len(rows), rows, values)
        self.patterns.append(pattern)

    def bound_rows(self, demand: Int64, room: Int64, limits: Int64) -> None:
        """Sets what is left: pods of each kind, nodes of each variant, and of each common limit."""
        for kind, pods in enumerate(demand.tolist()):
            self._lp.changeRowBounds(kind, pods, self._infinite)
        for row, most in enumerate(self._most(room, limits), self._kinds):
            self._lp.changeRowBounds(row, -self._infinite, most)

    def _most(self, room: Int64, limits: Int64) -> list[float]:
        scale = np.maximum(self._problem.limits_taken.max(axis=1, initial=1), 1)
        return [*room.tolist(), *(limits / scale).tolist()]

    def solve(self) -> LinearPlan:
        self._lp.run()
        solution = self._lp.getSolution()
        duals = np.array(solution.row_dual)
        charges = -duals[self._kinds : self._kinds + self._variants]
        charges = charges - duals[self._kinds + self._variants :] @ self._taken
        return LinearPlan(
            cost=float(self._lp.getInfo().objective_function_value),
            numbers=np.array(solution.col_value)[self._kinds :],
            values=np.maximum(duals[: self._kinds], 0.0),
            charges=np.maximum(charges, 0.0),
        )


def exact(problem: PackingProblem, variant: int, values: Floats, most_nodes: int) -> tuple[float, Pattern | None]:
    """The best pattern of a variant by branch and bound: a value that no pattern exceeds, and the pattern that was found.
    `most_nodes`: the most branches; with fewer than needed, the value is above that of the best pattern."""
    kinds = np.flatnonzero(problem.takes[variant] & (values > 0))
    most = np.minimum(problem.demand, problem.most)[kinds]
    solver = _solver()
    mip = solver.Highs()
    for name, value in {**_OPTIONS, **_ROUGH, "mip_max_nodes": most_nodes}.items():
        mip.setOptionValue(name, value)
    for at, kind in enumerate(kinds.tolist()):
        mip.addVar(0, float(most[at]))
        mip.changeColCost(at, -values[kind])
        mip.changeColIntegrality(at, solver.HighsVarType.kInteger)
    for line in np.flatnonzero(problem.amounts[kinds].any(axis=0)).tolist():
        shares = problem.amounts[kinds, line] / max(int(problem.empty[variant, line]), 1)
        mip.addRow(-solver.kHighsInf, 1.0, len(kinds), np.arange(len(kinds), dtype=np.int32), shares)
    mip.run()
    counts = np.zeros(len(values), np.int64)
    found = np.array(mip.getSolution().col_value)
    bound = -float(mip.getInfo().mip_dual_bound)
    if len(found) != len(kinds):
        return bound, None
    counts[kinds] = np.floor(found + _NEARLY)
    fits = (counts @ problem.amounts <= problem.empty[variant]).all()
    return bound, Pattern(variant=variant, counts=counts) if fits else None
