"""Solves the packing problem: column generation, then rounding.

    packing = pack(problem, stop=stop)

1. The linear program over known patterns says what a pod of each kind is worth, and the search finds patterns that are worth
   more than their node. Both are repeated until the search finds none (Gilmore and Gomory, 1961).
2. A dive rounds: patterns that the program uses almost wholly are taken, and it is solved again for the pods that are left.
   Several dives with different thresholds are made; the cheapest counts.
3. Every node becomes one of the cheapest variant that holds its pods.

Without the solver, and when the limit on steps is reached, the patterns with the most value for their price are taken one after
another. The limit counts steps, not seconds, so the answer does not depend on the machine's load.

`Packing.bound` is Farley's (1990): the program's optimum, divided by how far any pattern exceeds the price of its node. It
holds although the search is a heuristic.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.packing.master import LinearPlan, MasterProblem, exact, has_solver
from slackwater.controllers.scaleup.packing.patterns import Beam, Floats, PatternSearch
from slackwater.controllers.scaleup.packing.problem import Packing, PackingProblem, Pattern
from slackwater.model.columns import Int64
from slackwater_protocol.money import MICROS

#: The most linear programs of one packing.
MOST_STEPS: Final = 400
#: Beams from the cheapest to the most thorough; the next one is used where the one before finds nothing.
_BEAMS: Final = (Beam(4, 2), Beam(16, 3), Beam(64, 4))
#: The most fillings that a beam judges for one search: kinds x variants x width x choices.
_MOST_WORK: Final = 2_000_000
#: In a dive, a pattern of which the program uses at least this part of a node is rounded up.
_THRESHOLDS: Final = (0.6, 0.75, 0.9)
#: Where no pattern reaches the threshold, this part of those in use is rounded up.
_SOME: Final = 16
#: How much more than its node a pattern must be worth.
_MORE: Final = 1 + 1e-6
#: Up to so many kinds and variants the bound is made sharp by branch and bound, with so many branches for each variant.
_SHARP_KINDS: Final = 64
_SHARP_VARIANTS: Final = 24
_BRANCHES: Final = 100
_SHARP_ROUNDS: Final = 3


def pack(problem: PackingProblem, *, stop: Callable[[], bool], most_steps: int = MOST_STEPS) -> Packing:
    """Packs the demand. `stop` is asked before each step whether to end the search; pods are placed all the same."""
    return _Packer(problem, stop, most_steps).packing()


@dataclass(slots=True, kw_only=True)
class _Left:
    """What a dive has not used yet, and the nodes that it took."""

    demand: Int64
    room: Int64
    limits: Int64
    nodes: list[tuple[Pattern, int]] = field(default_factory=list)

    def most(self, problem: PackingProblem, pattern: Pattern) -> int:
        """How many whole nodes of the pattern pods and limits allow."""
        kinds, taken = pattern.counts > 0, problem.limits_taken[:, pattern.variant]
        allowed = [(self.demand[kinds] // pattern.counts[kinds]).min(), self.room[pattern.variant]]
        allowed += (self.limits[taken > 0] // taken[taken > 0]).tolist()
        return max(int(min(allowed)), 0)

    def take(self, problem: PackingProblem, pattern: Pattern, count: int) -> None:
        self.demand = self.demand - count * pattern.counts
        self.room = self.room.copy()
        self.room[pattern.variant] -= count
        self.limits = self.limits - count * problem.limits_taken[:, pattern.variant]
        self.nodes.append((pattern, count))

    def cut(self, pattern: Pattern) -> Pattern:
        """The pattern without the pods that are placed already."""
        return Pattern(variant=pattern.variant, counts=np.minimum(pattern.counts, self.demand))


class _Packer:
    def __init__(self, problem: PackingProblem, stop: Callable[[], bool], most_steps: int) -> None:
        self._problem, self._stop, self._most_steps = problem, stop, most_steps
        self._search = PatternSearch(problem)
        self._steps = 0
        size = max(len(problem.demand) * len(problem.prices), 1)
        self._beams = [beam for beam in _BEAMS if beam.width * beam.choices * size <= _MOST_WORK] or [_BEAMS[0]]
        self._prices: Floats = problem.prices / MICROS

    def _is_over(self) -> bool:
        return self._steps >= self._most_steps or self._stop()

    def greedy(self) -> _Left:
        """Packs without linear programs: each pod is worth what its largest share of the cheapest node costs."""
        left = self._whole()
        self._fill(left, self._plain_values())
        self._right_size(left)
        return left

    def packing(self) -> Packing:
        """The cheapest of all plans that were tried."""
        cheapest, bound = self.greedy(), self._search.least_cost(self._prices)
        if has_solver():
            master = MasterProblem(self._problem)
            sharper, first = self._bound(master, self._generated(master, self._whole()))
            bound = max(bound, sharper)
            for threshold in _THRESHOLDS:
                if self._is_over():
                    break
                cheapest = min(cheapest, self._dived(master, first, threshold), key=self._cost)
        return self._packing(cheapest, 0.0 if cheapest.demand.any() else bound, cut=self._is_over())

    def _packing(self, left: _Left, bound: float, *, cut: bool) -> Packing:
        # The bound is a float; below it by a millionth it is one in spite of rounding.
        floor = int(bound * MICROS * (1 - 1e-6))
        return Packing(nodes=tuple(left.nodes), bound=floor, steps=self._steps, cut=cut)

    def _cost(self, left: _Left) -> tuple[int, int, int]:
        """For comparing: pods without a node, then money, then nodes."""
        money = sum(int(self._problem.prices[pattern.variant]) * count for pattern, count in left.nodes)
        return int(left.demand.sum()), money, sum(count for _, count in left.nodes)

    def _whole(self) -> _Left:
        return _Left(demand=self._problem.demand, room=self._problem.room, limits=self._problem.limits)

    def _plain_values(self) -> Floats:
        problem = self._problem
        shares = (problem.amounts[None] / np.maximum(problem.empty, 1)[:, None]).max(axis=2)
        costs = np.where(problem.takes, shares * self._prices[:, None], np.inf)
        return np.asarray(costs.min(axis=0))

    def _generated(self, master: MasterProblem, left: _Left) -> LinearPlan:
        """The program's optimum for what is left, with the patterns that the search finds for it."""
        master.bound_rows(left.demand, left.room, left.limits)
        if not master.patterns:
            master.add(self._search.better(self._plain_values(), left.demand, np.zeros(len(self._prices)), self._beams[0]))
        thorough = 0
        while True:
            found = master.solve()
            self._steps += 1
            least = (self._prices + found.charges) * _MORE
            while not self._is_over() and thorough < len(self._beams):
                if master.add(self._search.better(found.values, left.demand, least, self._beams[thorough])):
                    break
                thorough += 1
            else:
                return found

    def _dived(self, master: MasterProblem, first: LinearPlan, threshold: float) -> _Left:
        left, found = self._whole(), first
        while not self._is_over():
            if not self._round(left, found, master.patterns, threshold):
                break
            if not left.demand.any():
                break
            found = self._generated(master, left)
        self._fill(left, np.maximum(found.values, self._plain_values() * 1e-3))
        self._right_size(left)
        return left

    def _round(self, left: _Left, found: LinearPlan, patterns: list[Pattern], threshold: float) -> bool:
        """Takes the patterns that the program uses by at least the threshold; if there is none, some of those it uses most."""
        used = sorted(np.flatnonzero(found.numbers > 1e-6).tolist(), key=lambda at: (-found.numbers[at], at))
        took = False
        for at in used:
            count = min(int(found.numbers[at] + 1 - threshold), left.most(self._problem, patterns[at]))
            if count > 0:
                left.take(self._problem, patterns[at], count)
                took = True
        if took:
            return True
        for at in used[: max(len(used) // _SOME, 1)]:
            pattern = left.cut(patterns[at])
            if pattern.counts.any() and left.most(self._problem, pattern):
                left.take(self._problem, pattern, 1)
                took = True
        return took

    def _fill(self, left: _Left, values: Floats) -> None:
        """Takes the patterns with the most value for their price, until no pod is left or limits allow no further node."""
        problem, ratio = self._problem, 0.0
        while left.demand.any():
            open_ = (left.room > 0) & (left.limits[:, None] >= problem.limits_taken).all(axis=0)
            least = np.where(open_, self._prices * ratio * 0.5, np.inf)
            found = self._search.better(values, left.demand, least, self._beams[min(1, len(self._beams) - 1)])
            if not found and not ratio:
                return
            worth = [float(values @ each.counts) / self._prices[each.variant] for each in found]
            best = max(worth, default=0.0)
            for _, each in sorted(zip(worth, found, strict=True), key=lambda one: -one[0]):
                pattern = left.cut(each)
                if not pattern.counts.any() or float(values @ pattern.counts) < 0.95 * best * self._prices[each.variant]:
                    continue
                count = left.most(problem, pattern)
                if count:
                    left.take(problem, pattern, count)
            ratio = best

    def _right_size(self, left: _Left) -> None:
        """Replaces the variant of every node by the cheapest that holds its pods."""
        problem, nodes = self._problem, left.nodes
        left.nodes = []
        for pattern, count in nodes:
            needed = pattern.counts @ problem.amounts
            fits = (problem.empty >= needed).all(axis=1) & problem.takes[:, pattern.counts > 0].all(axis=1)
            fits &= (left.room >= count) & (left.limits[:, None] >= count * problem.limits_taken).all(axis=0)
            cheaper = np.flatnonzero(fits & (problem.prices < problem.prices[pattern.variant]))
            variant = int(cheaper[problem.prices[cheaper].argmin()]) if len(cheaper) else pattern.variant
            moved = problem.limits_taken[:, variant] - problem.limits_taken[:, pattern.variant]
            left.room[pattern.variant] += count
            left.room[variant] -= count
            left.limits = left.limits - count * moved
            left.nodes.append((Pattern(variant=variant, counts=pattern.counts), count))

    def _bound(self, master: MasterProblem, found: LinearPlan) -> tuple[float, LinearPlan]:
        """A cost that no plan goes below, and the program's optimum with the patterns that were found on the way."""
        bound = 0.0
        for _ in range(_SHARP_ROUNDS):
            if found.cost > self._cost_without_artificial(master, found) + 1e-9:
                return 0.0, found  # limits leave pods out
            ratio, patterns = self._sharp_ratio(found)
            bound = max(bound, found.cost / ratio)
            if self._is_over() or not master.add(patterns):
                break
            found = self._generated(master, self._whole())
        return bound, found

    def _sharp_ratio(self, found: LinearPlan) -> tuple[float, list[Pattern]]:
        """How many times its node's price a pattern may be worth, at least 1; and patterns that are worth more than it."""
        ratios = (self._search.upper_bounds(found.values) - found.charges) / self._prices
        patterns: list[Pattern] = []
        order = np.argsort(-ratios, kind="stable").tolist()
        for variant in order[:_SHARP_VARIANTS] if np.count_nonzero(found.values) <= _SHARP_KINDS else ():
            if self._stop() or ratios[variant] <= _MORE:
                break
            value, pattern = exact(self._problem, variant, found.values, _BRANCHES)
            ratios[variant] = min(ratios[variant], (value - found.charges[variant]) / self._prices[variant])
            patterns += [pattern] if pattern is not None else []
        return max(float(ratios.max(initial=1.0)), 1.0), patterns

    def _cost_without_artificial(self, master: MasterProblem, found: LinearPlan) -> float:
        of = [pattern.variant for pattern in master.patterns]
        return float(self._prices[of] @ found.numbers)
