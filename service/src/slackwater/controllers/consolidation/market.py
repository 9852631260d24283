"""What room for pods costs at today's prices: for choosing which nodes to replace, before anything is tried.

The value of a pod is its dual value in the assignment program of all pods on new nodes. Without the solver it is what the
amounts that it takes cost on new nodes of the variants that take it: as in `PackingProblem.least_cost`, a node offers each
weighing of its lines at its price, and the weighing counts for which the demand costs the most. In: all pods by equivalence
group, and the template nodes of the groups. Out: values in micros an hour.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.packing.master import assignment, has_solver
from slackwater.controllers.scaleup.packing.problem import Floats, Left, PackingProblem, weighings
from slackwater.controllers.scaleup.template_nodes import IS_MOVING, TemplateNodes
from slackwater.model.columns import Int64, Mask
from slackwater.snapshot.equivalence_groups import KindId
from slackwater_protocol.money import MICROS

#: No node takes more pods of one equivalence group.
_MANY: Final = 2**40
#: For the assignment program: the most kinds times variants.
_MOST_PAIRS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """`values`: of a pod of each kind, micros an hour, by the kind's position; `weights`: of one unit of each line of the
    template nodes, in the mean of all pods. `bound`: no set of new nodes for all pods costs less, in micros an hour."""

    values: Floats
    weights: Floats
    bound: int


def market_of(template_nodes: TemplateNodes, kinds: Sequence[KindId], demand: Int64, prices: Sequence[int]) -> Market:
    """The values of pods of these kinds, of which there are `demand`. `prices`: micros an hour of a new node of each group."""
    n_lines = len(template_nodes.empty)
    amounts = np.zeros((len(kinds), n_lines), np.int64)
    for at, kind in enumerate(kinds):
        for line, amount in template_nodes.amounts(kind):
            amounts[at, line] = amount
    lines = np.flatnonzero(amounts.any(axis=0))
    problem = _problem(template_nodes, kinds, demand, prices, amounts)
    values, weights = np.zeros(len(kinds)), np.zeros(n_lines)
    if not len(lines) or not len(problem.prices):
        return Market(values=values, weights=weights, bound=0)
    weighed = _weights(problem)
    values = (weighed * problem.amounts).sum(axis=1)
    asked, all_of_them = demand[:, None] * problem.amounts, float(demand @ values)
    bound, known = _bound(problem)
    if min(prices) <= 0:  # they count as 1, and no set has more nodes than pods
        bound = max(bound - int(demand.sum()), 0)
    if known is not None:
        values = np.where(demand > 0, known, values)
    weights[lines] = (weighed * asked).sum(axis=0) / np.maximum(asked.sum(axis=0), 1) * (demand @ values) / max(all_of_them, 1)
    return Market(values=values, weights=weights, bound=bound)


def _problem(
    template_nodes: TemplateNodes, kinds: Sequence[KindId], demand: Int64, prices: Sequence[int], amounts: Int64
) -> PackingProblem:
    """The demand on new nodes without limits; groups with equal nodes are one variant."""
    lines = np.flatnonzero(amounts.any(axis=0))
    takes = np.array([IS_MOVING[template_nodes.codes[kind]] for kind in kinds], np.bool_).reshape(len(kinds), len(prices)).T
    empty = np.ascontiguousarray(template_nodes.empty[lines].T)
    known: dict[tuple[bytes, bytes], int] = {}
    for at in sorted(range(len(prices)), key=lambda at: (prices[at], at)):
        if takes[at].any():
            known.setdefault((empty[at].tobytes(), takes[at].tobytes()), at)
    first = sorted(known.values())
    alone = [template_nodes.inter_pod_constraints.is_alone(kind) for kind in kinds]
    return PackingProblem(
        amounts=amounts[:, lines],
        demand=demand,
        most=np.where(alone, 1, _MANY).astype(np.int64),
        empty=empty[first],
        takes=takes[first],
        prices=np.array([max(prices[at], 1) for at in first], np.int64),
        room=np.full(len(first), _MANY, np.int64),
        limits=np.zeros(0, np.int64),
        limits_taken=np.zeros((0, len(first)), np.int64),
    )


def _weights(problem: PackingProblem) -> Floats:
    """What a unit of each line costs a pod of each kind, shape (kinds, lines); 0 for kinds that no variant takes."""
    directions = weighings(problem.empty.shape[1]) / np.maximum(problem.empty.max(axis=0), 1)
    offered = np.maximum(problem.empty, 0) @ directions.T
    costs = problem.prices[:, None] / np.maximum(offered, 1e-12)
    found = np.zeros(problem.amounts.shape)
    by_takers: dict[bytes, list[int]] = {}
    for kind, takers in enumerate(problem.takes.T):
        by_takers.setdefault(takers.tobytes(), []).append(kind)
    for same in by_takers.values():
        takers = problem.takes[:, same[0]]
        if takers.any():
            cheapest = costs[takers].min(axis=0)
            asked = problem.demand[same] @ problem.amounts[same]
            best = int((cheapest * (directions @ asked)).argmax())
            found[same] = cheapest[best] * directions[best]
    return found


def _bound(problem: PackingProblem) -> tuple[int, Floats | None]:
    """No set of new nodes for the demand costs less, in micros an hour; 0 if some pods fit on none. And the values of pods of
    which it is the sum, if they are known."""
    able: Mask = np.asarray(problem.takes.any(axis=0))
    if not able[problem.demand > 0].all():
        return 0, None
    kinds, variants = np.flatnonzero(problem.demand > 0), problem.undominated()
    least, values = problem.least_cost() / MICROS, None
    part = problem.part(kinds, variants, Left.whole(problem))
    if has_solver() and len(kinds) * len(variants) <= _MOST_PAIRS:
        assigned = assignment(part, Left.whole(part))
        if assigned.cost > 0:
            values = np.zeros(len(problem.demand))
            values[kinds] = assigned.values * MICROS
        least = max(least, assigned.cost)
    return int(least * MICROS * (1 - 1e-6)), values
