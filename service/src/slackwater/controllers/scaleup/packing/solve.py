"""Solves the packing problem: several plans are made, and the cheapest counts.

    packing = pack(problem, stop=stop)

- Column generation, then rounding. A linear program over known patterns says what a pod of each kind is worth, and the search
  finds patterns that are worth more than their node, until it finds none (Gilmore and Gomory, 1961). A dive rounds: patterns
  that the program uses almost wholly are taken, and it is solved again for the pods that are left.
- Pod by pod (`balance`): the better way for many different pods.
- Greedily: the patterns with the most value for their price are taken one after another; the only way without the solver.

At the end every node becomes one of the cheapest variant that holds its pods. The limit counts steps, not seconds, so the
answer does not depend on the machine's load. `Packing.bound` is the assignment program's optimum, without the solver the
bound of `PatternSearch.least_cost`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.packing.balance import balanced, single_variant
from slackwater.controllers.scaleup.packing.master import Floats, LinearPlan, MasterProblem, assignment, has_solver
from slackwater.controllers.scaleup.packing.patterns import MOST_TURNS, Beam, PatternSearch
from slackwater.controllers.scaleup.packing.problem import Packing, PackingProblem, Pattern
from slackwater.model.columns import Int64
from slackwater_protocol.money import MICROS

#: The most linear programs of one packing.
MOST_STEPS: Final = 400
#: Beams from the cheapest to the most thorough; the next one is used where the one before finds nothing.
_BEAMS: Final = (Beam(4, 2), Beam(4, 2, 0.9), Beam(16, 4), Beam(16, 4, 0.5), Beam(64, 6))
#: The most fillings that a beam judges for one search: kinds x variants x width x choices.
_MOST_WORK: Final = 2_000_000
#: The most kinds that all searches of one packing look at, but at least so many steps.
_MOST_TURNS_OF_ALL: Final = 12_000
_FEWEST_STEPS: Final = 24
#: Up to so many pods are also packed one by one.
_MOST_PODS: Final = 5_000
_BALANCED_ROUNDS: Final = 4
#: In a dive, a pattern of which the program uses at least this part of a node is rounded up.
_THRESHOLDS: Final = (0.6, 0.75, 0.9)
#: Where no pattern reaches the threshold, this part of those in use is rounded up.
_SOME: Final = 16
#: How much more than its node a pattern must be worth.
_MORE: Final = 1 + 1e-6


def pack(problem: PackingProblem, *, stop: Callable[[], bool], most_steps: int = MOST_STEPS) -> Packing:
    """Packs the demand. `stop` is asked before each step whether to end the search; pods are placed all the same."""
    some, kept = problem.without_dominated()
    found = _Packer(some, stop, most_steps).packing()
    nodes = [(Pattern(variant=int(kept[pattern.variant]), counts=pattern.counts), count) for pattern, count in found.nodes]
    return replace(found, nodes=tuple(nodes))


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
        self._problem, self._stop = problem, stop
        self._assigned = assignment(problem, problem.demand, problem.room, problem.limits) if has_solver() else None
        self._search = PatternSearch(problem, self._assigned)
        self._steps = 0
        turns = min(len(problem.demand), MOST_TURNS)
        self._most_steps = min(most_steps, max(_MOST_TURNS_OF_ALL // turns, _FEWEST_STEPS))
        size = turns * len(problem.prices)
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
        problem, few = self._problem, len(self._problem.demand) <= MOST_TURNS
        plans = [self._balanced()] if not few or problem.demand.sum() <= _MOST_PODS else []
        plans += [self.greedy()] if few else []
        bound = self._search.least_cost(self._prices)
        if self._assigned is not None:
            bound = max(bound, self._assigned.cost)
            if few:
                master = MasterProblem(problem)
                first = self._generated(master, self._whole(), self._most_steps // 2)
                for threshold in _THRESHOLDS:
                    plans += [] if self._is_over() else [self._dived(master, first, threshold)]
        cheapest = min(plans, key=self._cost)
        return self._packing(cheapest, 0.0 if cheapest.demand.any() else bound, cut=self._is_over())

    def _balanced(self) -> _Left:
        """Packs pod by pod, each where it keeps a node balanced, onto as many nodes as the amounts need; and again for those
        that are left."""
        left = self._whole()
        for _ in range(_BALANCED_ROUNDS):
            if has_solver():
                numbers = assignment(self._problem, left.demand, left.room, left.limits).numbers
                self._steps += 1
            else:
                numbers = single_variant(self._problem, left.demand, self._prices)
            found = balanced(self._problem, left.demand, numbers, left.room)
            for pattern in found:
                if left.most(self._problem, pattern):
                    left.take(self._problem, pattern, 1)
            if not found or not left.demand.any():
                break
        self._fill(left, self._plain_values())
        self._right_size(left)
        return left

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

    def _generated(self, master: MasterProblem, left: _Left, most_steps: int = MOST_STEPS) -> LinearPlan:
        """The program's optimum for what is left, with the patterns that the search finds for it in so many steps."""
        most_steps = min(self._steps + most_steps, self._most_steps)
        master.bound_rows(left.demand, left.room, left.limits)
        if not master.patterns:
            master.add(self._search.better(self._plain_values(), left.demand, np.zeros(len(self._prices)), self._beams[0]))
        thorough = 0
        while True:
            found = master.solve()
            self._steps += 1
            least = (self._prices + found.charges) * _MORE
            while self._steps < most_steps and not self._stop() and thorough < len(self._beams):
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
            found = self._search.better(values, left.demand, least, self._beams[0])
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
