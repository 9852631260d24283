"""The least that a mix can cost: the linear optimum of its configuration problem, by column generation with exact pricing.

`least_cost` proves its bound itself. For any values of the pods, the demand's value divided by how far any filling of a node
exceeds its price is one (Farley 1990), and HiGHS's branch and bound says what no filling exceeds. Another is the cost of pods
that may be divided. The service's search only proposes fillings. Spread over zones is left out: with it a plan may cost more,
never less.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Self

import highspy
import numpy as np

from slackwater.controllers.scaleup.packing.patterns import Beam, PatternSearch
from slackwater.controllers.scaleup.packing.problem import Floats, PackingProblem
from slackwater.model.columns import Int64, Rows
from tests.bench.simulation.mixes import UNLIMITED, Mix

#: A bound so near to the program's optimum is taken for it.
_NEAR: Final = 1.002
#: The most rounds of exact pricing, and branches of one search.
_ROUNDS: Final = 12
_BRANCHES: Final = 1000
#: How far exact pricing stays at the values that gave the best bound.
_SHARE: Final = 0.5
_BEAM: Final = Beam(64, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastCost:
    """Micros an hour; no plan costs less. `optimum`: of the program, never below `micros`. `nodes`: that it uses."""

    micros: float
    optimum: float
    nodes: float

    @property
    def sharp(self) -> bool:
        return self.micros * _NEAR * (1 + 1e-6) >= self.optimum


def least_cost(mix: Mix, fillings: Iterable[tuple[int, Int64]]) -> LeastCost:
    """`fillings`: a variant and pods of each workload, from plans for the mix; they save rounds."""
    program = _Program(mix)
    for variant, counts in fillings:
        program.add(variant, counts)
    least, found = program.divisible(), program.solve()
    best, share = found, 0.0
    for _ in range(_ROUNDS):
        while program.searched(found):
            found = program.solve()
        asked = found.towards(best, share)
        bound, added = program.exactly(asked)
        least, best = (bound, asked) if bound > least else (least, best)
        if found.cost <= least * _NEAR or not (added or share):
            break
        share = _SHARE if added else 0.0
        found = program.solve()
    return LeastCost(micros=least, optimum=found.cost, nodes=found.nodes)


def divisible_cost(mix: Mix) -> float:
    """A bound that needs no rounds: micros an hour if pods could be divided."""
    return _Program(mix).divisible()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Optimum:
    cost: float
    nodes: float
    values: Floats
    charges: Floats

    def towards(self, other: Self, share: float) -> Self:
        """With values and charges between these and another's: they change less from round to round, so fewer are needed."""
        values, charges = (1 - share) * self.values + share * other.values, (1 - share) * self.charges + share * other.charges
        return replace(self, values=values, charges=charges)


class _Program:
    """Columns: fillings of nodes. Rows: the workloads, then the nodes of each variant. Of variants with the same room that take
    the same pods, the cheapest without a limit and cheaper ones with one are kept; they are one offer."""

    def __init__(self, mix: Mix) -> None:
        self._mix = mix
        self._demand = np.array([each.count for each in mix.workloads], np.int64)
        self._most = np.minimum(self._demand, [1 if each.apart else 10**6 for each in mix.workloads])
        self._room = np.array([each.most for each in mix.variants], np.int64)
        self._of: dict[int, list[int]] = {}
        offers: dict[tuple[bytes, bytes], list[int]] = {}
        for at in np.argsort(mix.prices, kind="stable").tolist():
            same = offers.setdefault((mix.offered[at].tobytes(), mix.takes[at].tobytes()), [])
            if not same or self._room[same[-1]] < UNLIMITED:
                same.append(at)
            self._of[at] = same
        self._offers = list(offers.values())
        self._columns: set[tuple[int, bytes]] = set()
        self._lp = _highs()
        for demand in self._demand.tolist():
            self._lp.addRow(demand, highspy.kHighsInf, 0, np.zeros(0, np.int32), np.zeros(0))
        for room in self._room.tolist():
            self._lp.addRow(-highspy.kHighsInf, room, 0, np.zeros(0, np.int32), np.zeros(0))
        self._search = PatternSearch(self._problem([same[0] for same in self._offers]))
        for at, counts in self._alone():
            self.add(at, counts)

    def _problem(self, first: list[int]) -> PackingProblem:
        mix = self._mix
        return PackingProblem(
            amounts=mix.asked, demand=self._demand, most=self._most, empty=mix.offered[first], takes=mix.takes[first],
            prices=mix.prices[first], room=self._room[first], limits=np.zeros(0, np.int64),
            limits_taken=np.zeros((0, len(first)), np.int64),
        )  # fmt: skip

    def _alone(self) -> Iterable[tuple[int, Int64]]:
        """Each offer full of one workload: a first program that has a solution."""
        mix = self._mix
        for same in self._offers:
            for kind in np.flatnonzero(mix.takes[same[0]]).tolist():
                asked = mix.asked[kind]
                fit = min(int((mix.offered[same[0]][asked > 0] // asked[asked > 0]).min()), int(self._most[kind]))
                yield same[-1], np.eye(len(self._demand), dtype=np.int64)[kind] * fit

    def add(self, variant: int, counts: Int64) -> bool:
        """Adds the filling to all variants of the offer that are kept. Whether it is new."""
        before, rows = len(self._columns), np.flatnonzero(counts)
        for at in self._of[variant]:
            if (key := (at, counts.tobytes())) not in self._columns:
                self._columns.add(key)
                indices = np.append(rows, len(self._demand) + at).astype(np.int32)
                entries = np.append(counts[rows], 1).astype(np.float64)
                self._lp.addCol(float(self._mix.prices[at]), 0, highspy.kHighsInf, len(indices), indices, entries)
        return len(self._columns) > before

    def solve(self) -> _Optimum:
        self._lp.run()
        solution = self._lp.getSolution()
        duals, count = np.array(solution.row_dual), len(self._demand)
        return _Optimum(
            cost=float(self._lp.getInfo().objective_function_value),
            nodes=float(np.sum(solution.col_value)),
            values=np.maximum(duals[:count], 0.0),
            charges=np.maximum(-duals[count:], 0.0),
        )

    def divisible(self) -> float:
        """What the demand costs if a pod may be divided among nodes, and a node be bought in part: a bound that is sharp where
        pods are small."""
        mix, kept = self._mix, [at for same in self._offers for at in same]
        lp, count, lines = _highs(), len(self._demand), mix.asked.shape[1]
        for demand in self._demand.tolist():
            lp.addRow(demand, highspy.kHighsInf, 0, np.zeros(0, np.int32), np.zeros(0))
        for _ in range(len(kept) * lines):
            lp.addRow(-highspy.kHighsInf, 0, 0, np.zeros(0, np.int32), np.zeros(0))
        for number, at in enumerate(kept):
            rows, has = count + number * lines + np.arange(lines, dtype=np.int32), np.maximum(mix.offered[at], 1)
            lp.addCol(float(mix.prices[at]), 0, float(self._room[at]), lines, rows, -np.ones(lines))
            for kind in np.flatnonzero(mix.takes[at]).tolist():
                entries = np.append(mix.asked[kind] / has, 1.0)
                lp.addCol(0, 0, highspy.kHighsInf, lines + 1, np.append(rows, np.int32(kind)), entries)
        lp.run()
        return float(lp.getInfo().objective_function_value) * (1 - 1e-6)

    def _by_density(self, values: Floats) -> Floats:
        """For each offer a value that no filling exceeds: all of its room at the best value for what a pod takes of it, for
        the weighing of CPU, memory, pods and GPUs for which that is least."""
        mix, first = self._mix, [same[0] for same in self._offers]
        shares = mix.asked[None] / np.maximum(mix.offered[first], 1)[:, None]
        least = np.full(len(first), np.inf)
        for cpu in np.linspace(0, 1, 11):
            taken = shares @ np.array([cpu, 1 - cpu, 0.05, 0.05]) / 1.1
            least = np.minimum(least, np.where(mix.takes[first], values / taken, 0.0).max(axis=1))
        return least

    def _least(self, charges: Floats, times: float) -> Floats:
        costs = self._mix.prices * times + charges
        return np.array([min(costs[at] for at in same) for same in self._offers])

    def searched(self, at: _Optimum) -> bool:
        """Adds what the service's search finds; whether any of it is new."""
        found = self._search.better(at.values, self._demand, self._least(at.charges, _NEAR), _BEAM)
        return sum(self.add(self._offers[each.variant][0], each.counts) for each in found) > 0

    def exactly(self, at: _Optimum) -> tuple[float, bool]:
        """A cost that no plan goes below, by these values, and whether a new filling is valued above its node. What the best
        filling of a variant with a limit is valued above it counts against the cost, for each node that it may have."""
        values_of, wanted, added = self._by_density(at.values), self._least(at.charges, _NEAR), False
        for number in np.flatnonzero(values_of > wanted).tolist():
            same = self._offers[number]
            values_of[number], counts = self._best(same[0], at.values, float(wanted[number]))
            added |= counts is not None and self.add(same[0], counts)
        each = [(one, valued) for same, valued in zip(self._offers, values_of.tolist(), strict=True) for one in same]
        variants, valued = np.array([one for one, _ in each]), np.array([valued for _, valued in each])
        prices, room = self._mix.prices[variants], self._room[variants]
        ratio = float((valued / prices)[room >= UNLIMITED].max(initial=1.0))
        charged = np.where(room < UNLIMITED, np.maximum(valued / ratio - prices, 0.0) * room, 0.0)
        return float(at.values @ self._demand / ratio - charged.sum()), added

    def _best(self, variant: int, values: Floats, wanted: float) -> tuple[float, Int64 | None]:
        """A value that no filling exceeds, and the best filling if it is valued above `wanted`; where none is, `wanted`."""
        kinds: Rows = np.flatnonzero(self._mix.takes[variant] & (values > 0))
        mip = _highs()
        for option, value in (("mip_max_nodes", _BRANCHES), ("objective_bound", -wanted), ("mip_rel_gap", 1e-3)):
            mip.setOptionValue(option, value)
        for at, kind in enumerate(kinds.tolist()):
            mip.addVar(0, float(self._most[kind]))
            mip.changeColCost(at, -values[kind])
            mip.changeColIntegrality(at, highspy.HighsVarType.kInteger)
        for asked, has in zip(self._mix.asked[kinds].T, self._mix.offered[variant].tolist(), strict=True):
            mip.addRow(-highspy.kHighsInf, 1.0, len(kinds), np.arange(len(kinds), dtype=np.int32), asked / max(has, 1))
        mip.run()
        if mip.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            return wanted, None
        bound, solution = -float(mip.getInfo().mip_dual_bound), np.array(mip.getSolution().col_value)
        counts = np.zeros(len(values), np.int64)
        if len(solution) == len(kinds):
            counts[kinds] = np.floor(solution + 1e-6)
        fits = (counts @ self._mix.asked <= self._mix.offered[variant]).all()
        return max(bound, wanted), counts if fits and values @ counts > wanted else None


def _highs() -> highspy.Highs:
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 1)):
        solver.setOptionValue(option, value)
    return solver
