"""Turns the demand into a packing problem, and its solution into an option that the plan takes.

Only equivalence groups whose pods affect no others are packed: a pattern cannot say where other pods are. Groups that grow all
or not at all are left to the estimates.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.estimate import Option, Run, joined, option_of
from slackwater.controllers.scaleup.groups import Budget
from slackwater.controllers.scaleup.option_queue import SparedEstimates
from slackwater.controllers.scaleup.packing.problem import Packing, PackingProblem
from slackwater.controllers.scaleup.packing.solve import pack
from slackwater.controllers.scaleup.template_nodes import TemplateNodes
from slackwater.model.columns import Int64, Rows
from slackwater.model.reasons import Reason

#: No node takes more pods of one equivalence group.
_MANY: Final = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedOption:
    """An option with what is known of its cost. `left_out`: limits left pods without a node."""

    option: Option
    packing: Packing
    left_out: bool


def packed_option(
    template_nodes: TemplateNodes,
    spared: SparedEstimates,
    budget: Budget,
    *,
    among: Sequence[int],
    runs: Sequence[Run],
    prices: Sequence[int],
    stop: Callable[[], bool],
) -> PackedOption | None:
    """Packs the pods of `runs` onto new nodes of the groups `among`; None if no pod can be packed. `prices`: micros an hour of
    a node of each group, shape (groups,)."""
    groups = [at for at in among if budget.room(at) and not template_nodes.all_or_nothing(at)]
    constraints = template_nodes.inter_pod_constraints
    ok = np.uint8(Reason.OK)
    packed = [run for run in runs if constraints.is_independent(run.kind)]
    packed = [run for run in packed if (template_nodes.codes[run.kind][groups] == ok).any()]
    if not groups or not packed:
        return None
    limits, taken = budget.limits()
    members: dict[object, list[int]] = {}
    for at in groups:
        members.setdefault((spared.key(at), prices[at], taken[:, at].tobytes()), []).append(at)
    variants = list(members.values())
    first = [each[0] for each in variants]
    amounts = _amounts(template_nodes, packed)
    lines = np.flatnonzero(amounts.any(axis=0))
    problem = PackingProblem(
        amounts=amounts[:, lines],
        demand=np.array([len(run.pods) for run in packed], np.int64),
        most=np.array([1 if constraints.is_alone(run.kind) else _MANY for run in packed], np.int64),
        empty=np.ascontiguousarray(template_nodes.empty[lines][:, first].T),
        takes=np.array([template_nodes.codes[run.kind][first] == ok for run in packed]).T,
        prices=np.array([max(prices[at], 1) for at in first], np.int64),
        room=np.array([sum(map(budget.left, each)) for each in variants], np.int64),
        limits=limits,
        limits_taken=taken[:, first],
    )
    packing = pack(problem, stop=stop)
    return _option(template_nodes, budget, packed, variants, packing)


def _amounts(template_nodes: TemplateNodes, runs: Sequence[Run]) -> Int64:
    amounts = np.zeros((len(runs), len(template_nodes.empty)), np.int64)
    for at, run in enumerate(runs):
        for line, amount in template_nodes.amounts(run.kind):
            amounts[at, line] = amount
    return amounts


def _option(
    template_nodes: TemplateNodes, budget: Budget, runs: Sequence[Run], variants: Sequence[Sequence[int]], packing: Packing
) -> PackedOption:
    """The option of a packing. Each node is of the group of its variant that is smallest then; each run's pods go to the nodes
    in the order of importance."""
    budget = budget.copy()
    groups: list[int] = []
    at: list[list[Rows]] = [[] for _ in runs]
    for each in packing.nodes:
        nodes = np.arange(len(groups), len(groups) + each.number)
        for _ in range(each.number):
            smallest = min(filter(budget.room, variants[each.variant]), key=lambda group: (budget.sizes[group], group))
            budget.take(smallest, 1)
            groups.append(smallest)
        for kind, pods in zip(each.kinds.tolist(), each.counts.tolist(), strict=True):
            at[kind].append(np.repeat(nodes, pods))
    placed = [(run, joined(nodes)) for run, nodes in zip(runs, at, strict=True)]
    left_out = any(len(nodes) < len(run.pods) for run, nodes in placed)
    option = option_of(
        template_nodes,
        sorted(set(groups)),
        np.array(groups, np.intp),
        placed,
        left_out=left_out,
        cut=packing.cut,
        moving=False,
    )
    return PackedOption(option=option, packing=packing, left_out=left_out)
