"""Makes a plan for one packing problem: several ways are tried, and the cheapest plan counts.

- Column generation, then rounding. A linear program over known patterns values a pod of each kind, and the search finds
  patterns that are valued above the price of their node, until it finds none (Gilmore and Gomory, 1961). A dive rounds:
  patterns that the program uses almost wholly are taken, and it is solved again for the pods that are left.
- Pod by pod, or evenly (`balance`): the better way for many different pods, and for many pods that are alike. The linear
  program begins with these patterns.
- Greedily: the patterns with the most value for their price are taken one after another; the only way without the solver.

At the end nodes become cheaper ones (`cheaper_nodes`). The limit counts steps, not seconds, so the answer does not depend on
the machine's load.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.packing.balance import RULES, Rule, balanced, evenly, single_variant
from slackwater.controllers.scaleup.packing.cheaper_nodes import improve
from slackwater.controllers.scaleup.packing.master import Assignment, LinearPlan, MasterProblem, has_solver
from slackwater.controllers.scaleup.packing.patterns import MOST_TURNS, Beam, PatternSearch
from slackwater.controllers.scaleup.packing.problem import Floats, Left, PackingProblem, Pattern
from slackwater_protocol.money import MICROS

#: Beams from the cheapest to the most thorough; the next one is used where the one before finds nothing.
_BEAMS: Final = (Beam(4, 2), Beam(4, 2, 0.9), Beam(16, 4), Beam(16, 4, 0.5), Beam(64, 6))
#: The most fillings that a beam judges for one search: kinds x variants x width x choices.
_MOST_WORK: Final = 2_000_000
#: For so many variants a turn of a search takes twice as long as for one.
_VARIANTS_OF_A_TURN: Final = 60
#: The most kinds that all searches of one packing look at, but at least so many steps.
_MOST_TURNS_OF_ALL: Final = 12_000
FEWEST_STEPS: Final = 24
#: Up to so many pods are packed one by one in several ways, and greedily.
_MOST_PODS: Final = 5_000
#: Of more pods, a plan that costs so little more than the linear program is not improved further.
_NEAR: Final = 1.01
_BALANCED_ROUNDS: Final = 16
#: In a dive, a pattern of which the program uses at least this part of a node is rounded up.
_THRESHOLDS: Final = (0.6, 0.75, 0.9)
#: Where no pattern reaches the threshold, this part of those in use is rounded up.
_SOME: Final = 16
#: How far above the price of its node a pattern must be valued.
_MORE: Final = 1 + 1e-6


class PartPlanner:
    """Plans one problem once, in at most `most_steps` steps; `stop` is asked before each step. `assigned`: the optimum if pods
    could be divided; None if it is not known."""

    def __init__(self, problem: PackingProblem, assigned: Assignment | None, stop: Callable[[], bool], most_steps: int) -> None:
        self._problem, self._assigned, self._stop = problem, assigned, stop
        self._search = PatternSearch(problem, assigned)
        self.steps = 0
        self._few = len(problem.demand) <= MOST_TURNS
        turns = min(len(problem.demand), MOST_TURNS)
        size = turns * len(problem.prices)
        # A turn costs as much for 60 variants as its calls cost without any.
        weight = turns + size // _VARIANTS_OF_A_TURN
        self._most_steps = min(most_steps, max(_MOST_TURNS_OF_ALL // weight, FEWEST_STEPS))
        self._beams = [beam for beam in _BEAMS if beam.width * beam.choices * size <= _MOST_WORK] or [_BEAMS[0]]
        self._prices: Floats = problem.prices / MICROS

    def is_over(self) -> bool:
        """Has a limit ended the search for a cheaper plan?"""
        return self.steps >= self._most_steps or self._stop()

    def _greedy(self) -> Left:
        """Packs without linear programs: the value of a pod is the least that its largest share of a node costs."""
        return self._finished(Left.whole(self._problem), self._plain_values())

    def plan(self) -> Left:
        """The cheapest of all plans that were tried."""
        problem, assigned, plans = self._problem, self._assigned, list[Left]()
        many = problem.demand.sum() > _MOST_PODS
        if not (self._few and many):
            plans.append(self._balanced(single_variant(problem, Left.whole(problem))))
            plans += [] if assigned is None else [self._balanced(assigned.numbers)]
        if self._few:
            plans += [] if assigned is None else [self._evenly(assigned, rule) for rule in RULES]
            plans += [self._greedy()] if not (many and plans) else []
        if self._few and has_solver():
            master = MasterProblem(problem)
            for plan in plans:
                master.add([pattern for pattern, _ in plan.nodes])
            first = self._generated(master, Left.whole(problem), self._most_steps // 2)
            for threshold in _THRESHOLDS:
                lacking, money, _ = min(map(self._cost, plans))
                near = many and not lacking and money <= _NEAR * first.cost * MICROS
                plans += [] if near or self.is_over() else [self._dived(master, first, threshold)]
        return min(plans, key=self._cost)

    def _evenly(self, assigned: Assignment, rule: Rule) -> Left:
        left = Left.whole(self._problem)
        for pattern in evenly(self._problem, left, assigned.numbers, assigned.mean, rule):
            if left.most(self._problem, pattern):
                left.take(self._problem, pattern, 1)
        return self._finished(left, self._plain_values())

    def _finished(self, left: Left, values: Floats) -> Left:
        """Fills up what is left by these values of the pods, and then lowers the cost where a simple exchange does."""
        self._fill(left, values)
        improve(self._problem, left, self._plain_values())
        return left

    def _balanced(self, numbers: Floats) -> Left:
        """Packs pod by pod, each where it keeps a node balanced: first onto about so many nodes of each variant, then those
        that are left onto nodes of one variant after another. Some of many kinds may be left over."""
        left = Left.whole(self._problem)
        for _ in range(_BALANCED_ROUNDS):
            found = balanced(self._problem, left, numbers)
            for pattern in found:
                if left.most(self._problem, pattern):
                    left.take(self._problem, pattern, 1)
            if not found or not left.demand.any():
                break
            numbers = single_variant(self._problem, left)
        if self._few or not left.nodes:
            self._fill(left, self._plain_values())
        improve(self._problem, left, self._plain_values())
        return left

    def _cost(self, left: Left) -> tuple[int, int, int]:
        """For comparing: pods without a node, then money, then nodes."""
        money = sum(int(self._problem.prices[pattern.variant]) * count for pattern, count in left.nodes)
        return int(left.demand.sum()), money, sum(count for _, count in left.nodes)

    def _plain_values(self) -> Floats:
        return np.asarray(self._problem.plain_costs().min(axis=0) / MICROS)

    def _generated(self, master: MasterProblem, left: Left, most_steps: int | None = None) -> LinearPlan:
        """The program's optimum for what is left, with the patterns that the search finds for it in so many steps."""
        most_steps = self._most_steps if most_steps is None else min(self.steps + most_steps, self._most_steps)
        master.bound_rows(left)
        if not master.patterns:
            master.add(self._search.better(self._plain_values(), left.demand, np.zeros(len(self._prices)), self._beams[0]))
        thorough = 0
        while True:
            found = master.solve()
            self.steps += 1
            least = (self._prices + found.charges) * _MORE
            while self.steps < most_steps and not self._stop() and thorough < len(self._beams):
                if master.add(self._search.better(found.values, left.demand, least, self._beams[thorough])):
                    break
                thorough += 1
            else:
                return found

    def _dived(self, master: MasterProblem, first: LinearPlan, threshold: float) -> Left:
        left, found = Left.whole(self._problem), first
        while not self.is_over():
            if not self._round(left, found, master.patterns, threshold):
                break
            if not left.demand.any():
                break
            # The program shuts what no longer fits what is left.
            cut = [left.cut(master.patterns[at]) for at in np.flatnonzero(found.numbers > 1e-6)]
            master.add([each for each in cut if each.counts.any()])
            found = self._generated(master, left)
        return self._finished(left, np.maximum(found.values, self._plain_values() * 1e-3))

    def _round(self, left: Left, found: LinearPlan, patterns: list[Pattern], threshold: float) -> bool:
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

    def _fill(self, left: Left, values: Floats) -> None:
        """Takes the patterns with the most value for their price, until no pod is left or limits allow no further node."""
        problem, ratio = self._problem, 0.0
        while left.demand.any():
            least = np.where(left.may_grow(problem), self._prices * ratio * 0.5, np.inf)
            found = self._search.better(values, left.demand, least, self._beams[0])
            if not found and not ratio:
                return
            ratios = [float(values @ each.counts) / self._prices[each.variant] for each in found]
            best = max(ratios, default=0.0)
            for _, each in sorted(zip(ratios, found, strict=True), key=lambda one: -one[0]):
                pattern = left.cut(each)
                if not pattern.counts.any() or float(values @ pattern.counts) < 0.95 * best * self._prices[each.variant]:
                    continue
                count = left.most(problem, pattern)
                if count:
                    left.take(problem, pattern, count)
            ratio = best
