"""Solves the packing problem.

    packing = pack(problem, stop=stop)

A large problem is packed part by part: so many kinds of pods, beside the variants that are cheapest for them
(`part_planner`), and again with what is left. So time and memory grow with the demand, not with its square.

`Packing.bound` is the optimum of the assignment program where the whole problem was one part, otherwise that of
`PackingProblem.least_cost`.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.packing.master import assignment, has_solver
from slackwater.controllers.scaleup.packing.part_planner import FEWEST_STEPS, PartPlanner
from slackwater.controllers.scaleup.packing.patterns import MOST_TURNS
from slackwater.controllers.scaleup.packing.problem import EqualNodes, Left, Packing, PackingProblem, weighings
from slackwater.model.columns import Rows
from slackwater_protocol.money import MICROS

#: The most linear programs of one packing.
MOST_STEPS: Final = 400
#: The most kinds of one part, and its most variants: with many kinds, and with few.
_MOST_KINDS: Final = 1_000
_MOST_VARIANTS: Final = (48, 128)
_FEW_KINDS: Final = 250


def pack(problem: PackingProblem, *, stop: Callable[[], bool], most_steps: int = MOST_STEPS) -> Packing:
    """Packs the demand. `stop` is asked before each step whether to end the search; pods are placed all the same."""
    left, helpless = Left.whole(problem), np.zeros(len(problem.demand), np.bool_)
    found: list[EqualNodes] = []
    bound, steps, cut = problem.least_cost() / MICROS, 0, False
    while len(kinds := np.flatnonzero((left.demand > 0) & ~helpless)):
        kinds = kinds[:: -(-len(kinds) // _MOST_KINDS)]
        variants, all_of_them = _variants(problem, kinds, left)
        if not len(variants):
            helpless[kinds] = True
            continue
        part, whole = problem.part(kinds, variants, left), all_of_them and len(kinds) == len(problem.demand)
        assigned = assignment(part, Left.whole(part)) if has_solver() and (whole or len(kinds) <= MOST_TURNS) else None
        if whole and assigned is not None:
            bound = max(bound, assigned.cost)
        planner = PartPlanner(part, assigned, stop, max(most_steps - steps, min(most_steps, FEWEST_STEPS)))
        plan = planner.plan()
        steps, cut = steps + planner.steps, cut or planner.is_over()
        helpless[kinds] = not plan.nodes
        for pattern, number in plan.nodes:
            some = np.flatnonzero(pattern.counts)
            variant = int(variants[pattern.variant])
            found.append(EqualNodes(variant=variant, kinds=kinds[some], counts=pattern.counts[some], number=number))
        left.demand[kinds], left.room[variants], left.limits = plan.demand, plan.room, plan.limits
    # The bound is a float; below it by a millionth it is one in spite of rounding.
    floor = 0 if left.demand.any() else int(bound * MICROS * (1 - 1e-6))
    return Packing(nodes=tuple(found), bound=floor, steps=steps, cut=cut)


def _variants(problem: PackingProblem, kinds: Rows, left: Left) -> tuple[Rows, bool]:
    """The variants for a part: those that may grow, take some of its pods and are not dominated. Of too many the
    cheapest by each weighing of the lines, then those that are the cheapest for the most pods. Also returns whether these are
    all."""
    variants = np.flatnonzero(left.may_grow(problem) & problem.takes[:, kinds].any(axis=1))
    if not len(variants):
        return variants, True
    variants = variants[problem.part(kinds, variants, left).undominated()]
    most = _MOST_VARIANTS[len(kinds) <= _FEW_KINDS]
    if len(variants) <= most:
        return variants, True
    part = problem.part(kinds, variants, left)
    votes = np.bincount(part.plain_costs().argmin(axis=0), part.demand, len(variants))
    offered = np.maximum(part.empty, 0) / np.maximum(part.empty.max(axis=0), 1) @ weighings(part.empty.shape[1]).T
    votes[(part.prices[:, None] / np.maximum(offered, 1e-12)).argmin(axis=0)] += part.demand.sum()
    return np.sort(variants[np.argsort(-votes, kind="stable")[:most]]), False
