"""The master problem: how many nodes of each known pattern, as a linear program, and the value of a pod of each kind in it.

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

from slackwater.controllers.scaleup.packing.problem import Floats, Left, PackingProblem, Pattern
from slackwater.model.columns import Int64
from slackwater_protocol.money import MICROS

_NO_ROWS: Final = np.zeros(0, np.int32)
_NO_VALUES: Final = np.zeros(0)
_OPTIONS: Final = {"output_flag": False, "threads": 1, "random_seed": 1}
#: Up to so many pods of a kind on a node are few.
_FEW_COPIES: Final = 3
#: An artificial column costs so many times the dearest node.
_DEARER: Final = 100.0


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


def _scales(problem: PackingProblem) -> Int64:
    """By what each common limit is divided: limits on bytes would be 2^40 times as large as other rows."""
    return np.asarray(problem.limits_taken.max(axis=1, initial=1))


def _scaled(problem: PackingProblem) -> Floats:
    return np.asarray(problem.limits_taken / _scales(problem)[:, None])


class MasterProblem:
    """The linear program over the patterns that are known so far. Rows: the kinds, then each variant's room, then the common
    limits."""

    def __init__(self, problem: PackingProblem) -> None:
        self._problem = problem
        self.patterns: list[Pattern] = []
        self._open: list[bool] = []
        self._known: set[tuple[int, bytes]] = set()
        self._kinds, self._variants = len(problem.demand), len(problem.prices)
        solver = _solver()
        self._lp = solver.Highs()
        self._infinite: float = solver.kHighsInf
        for name, value in _OPTIONS.items():
            self._lp.setOptionValue(name, value)
        for demand in problem.demand.tolist():
            self._lp.addRow(demand, self._infinite, 0, _NO_ROWS, _NO_VALUES)
        self._taken = _scaled(problem)
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
        self._open.append(True)

    def bound_rows(self, left: Left) -> None:
        """Sets what is left. A pattern with more pods of a kind than are left is shut: a part of its node would seem to hold
        them, too cheaply."""
        counts: Int64 = np.array([pattern.counts for pattern in self.patterns]).reshape(-1, self._kinds)
        for at, is_open in enumerate(np.asarray((counts <= left.demand).all(axis=1)).tolist()):
            if is_open != self._open[at]:
                self._lp.changeColBounds(self._kinds + at, 0, self._infinite if is_open else 0)
                self._open[at] = is_open
        for kind, pods in enumerate(left.demand.tolist()):
            self._lp.changeRowBounds(kind, pods, self._infinite)
        for row, most in enumerate(self._most(left.room, left.limits), self._kinds):
            self._lp.changeRowBounds(row, -self._infinite, most)

    def _most(self, room: Int64, limits: Int64) -> list[float]:
        return [*room.tolist(), *(limits / _scales(self._problem)).tolist()]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The optimum if pods, and nodes, could be divided. `cost`: 0 if nothing is known, because limits do not allow all pods.
    `numbers`: nodes of each variant, shape (variants,). `mean`: what a node of each variant holds in the mean, shape (variants,
    kinds). `line_values`: the value of all of a line of a variant's node, shape (variants, lines). `values`: of a pod of each
    kind, shape (kinds,)."""

    cost: float
    numbers: Floats
    mean: Floats
    line_values: Floats
    values: Floats


def assignment(problem: PackingProblem, left: Left) -> Assignment:
    """Solves the assignment program. A node takes no more of its pods of one kind than fit on it; where these are few, so that
    much is left of the node, the program says so too."""
    solver = _solver()
    program = solver.Highs()
    for name, value in _OPTIONS.items():
        program.setOptionValue(name, value)
    n_kinds, n_lines = problem.amounts.shape
    for pods in left.demand.tolist():
        program.addRow(pods, solver.kHighsInf, 0, _NO_ROWS, _NO_VALUES)
    n_variants, taken = len(problem.prices), _scaled(problem)
    for _ in range(n_variants * n_lines):
        program.addRow(-solver.kHighsInf, 0.0, 0, _NO_ROWS, _NO_VALUES)
    for most in (left.limits / _scales(problem)).tolist():
        program.addRow(-solver.kHighsInf, most, 0, _NO_ROWS, _NO_VALUES)
    lines = n_kinds + np.arange(n_variants * n_lines, dtype=np.int32).reshape(n_variants, n_lines)
    taken_by, copies = problem.takes & (left.demand > 0), problem.copies()
    few = np.where(taken_by & (copies <= _FEW_COPIES), 0, -1)
    few[few == 0] = n_kinds + lines.size + len(left.limits) + np.arange(np.count_nonzero(few == 0))
    for _ in range(np.count_nonzero(few >= 0)):
        program.addRow(-solver.kHighsInf, 0.0, 0, _NO_ROWS, _NO_VALUES)
    for variant in range(n_variants):
        limited = np.flatnonzero(taken[:, variant])
        own = few[variant] >= 0
        rows = np.concatenate([lines[variant], n_kinds + lines.size + limited, few[variant, own]]).astype(np.int32)
        values = np.concatenate([-np.ones(n_lines), taken[limited, variant], -copies[variant, own]])
        cost = float(problem.prices[variant]) / MICROS
        program.addCol(cost, 0, float(left.room[variant]), len(rows), rows, values)
        shares = problem.amounts / np.maximum(problem.empty[variant], 1)
        for kind in np.flatnonzero(taken_by[variant]).tolist():
            more = [few[variant, kind]] if own[kind] else []
            rows = np.array([kind, *lines[variant], *more], np.int32)
            program.addCol(0.0, 0, solver.kHighsInf, len(rows), rows, np.array([1.0, *shares[kind], *[1.0] * len(more)]))
    program.run()
    if program.getModelStatus() != solver.HighsModelStatus.kOptimal:
        nothing = np.zeros((n_variants, n_kinds))
        unknown = np.zeros(lines.shape)
        return Assignment(cost=0.0, numbers=nothing[:, 0], mean=nothing, line_values=unknown, values=np.zeros(n_kinds))
    solution = program.getSolution()
    found, values = np.array(solution.col_value), np.array(solution.row_dual)
    is_number = np.zeros(len(found), np.bool_)
    is_number[np.cumsum([0, *(1 + np.count_nonzero(taken_by, axis=1))[:-1]])] = True
    numbers, pods = found[is_number], np.zeros((n_variants, n_kinds))
    pods[taken_by] = found[~is_number]
    return Assignment(
        cost=float(program.getInfo().objective_function_value),
        numbers=numbers,
        mean=pods / np.maximum(numbers, 1)[:, None],
        line_values=np.maximum(-values[n_kinds : n_kinds + lines.size].reshape(lines.shape), 0.0),
        values=np.maximum(values[:n_kinds], 0.0),
    )
