"""Estimates: how many new nodes of a bundle of similar groups the demand needs, and which pods they take.

First-fit decreasing over whole equivalence groups: the pods that request the largest share of a node come first, and each goes
to the first new node that takes it. If a limit leaves some out, the estimate is made again with the more important pods first.
An estimate that time cuts short is valid as far as it goes. Deliberately absent: which estimate is the best (`expanders`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slackwater.controllers.scaleup.expanders.scarcity import Resources, resources_of
from slackwater.controllers.scaleup.groups import Budget, counted
from slackwater.controllers.scaleup.new_nodes import NewNodes, TrackedNodes
from slackwater.controllers.scaleup.template_nodes import TemplateNodes
from slackwater.model.columns import Rows
from slackwater.model.nodegroups import GroupName
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.node_facts import CPU, MEMORY


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Pods of one equivalence group, by their position in the demand, the most important first."""

    kind: KindId
    pods: Rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Option:
    """The result of growing a bundle of similar groups.

    `groups` is the group of each new node, shape (nodes,); `kinds` are the equivalence groups of the pods that found a place,
    in order. `pods[i]` of the demand goes to new node `at[i]`; an entry `~row` is an existing row of the snapshot. `asked` is
    what these pods request, `offered` what the new nodes have. `left_out`: further pods would fit but for a limit, or time.
    `cut`: time ended the estimate. `moving`: the option holds only on the snapshot it was made on.
    """

    bundle: tuple[int, ...]
    names: tuple[GroupName, ...]
    groups: Rows
    kinds: tuple[KindId, ...]
    pods: Rows
    at: Rows
    asked: Resources
    offered: Resources
    left_out: bool
    cut: bool
    moving: bool

    @property
    def n_nodes(self) -> int:
        return len(self.groups)

    @property
    def n_pods(self) -> int:
        return len(self.pods)


def estimate(
    template_nodes: TemplateNodes,
    budget: Budget,
    bundle: Sequence[int],
    runs: Sequence[Run],
    *,
    priorities: Rows,
    stop: Callable[[], bool],
) -> Option:
    """Estimates one bundle of similar groups. Leaves the snapshot as it was.

    `runs` are the pods still without a node, of equivalence groups that a new node may take. `priorities` are those of the
    demand, shape (pods of the demand,).
    """
    found = _filled(template_nodes, budget, bundle, largest_first(template_nodes, bundle[0], runs), stop)
    if found.left_out and not found.cut and _differ(priorities[_joined([run.pods for run in runs])]):
        by_priority = most_important_first(largest_first(template_nodes, bundle[0], runs), priorities)
        found = _filled(template_nodes, budget, bundle, by_priority, stop)
    return found


def largest_first(template_nodes: TemplateNodes, group: int, runs: Sequence[Run]) -> list[Run]:
    """The runs by the share of an empty node of the group that a pod requests, CPU and memory added; then by first pod."""
    has = template_nodes.node(group).allocatable

    def key(run: Run) -> tuple[float, int]:
        asked = dict(template_nodes.amounts(run.kind))
        share = sum(asked.get(line, 0) / (amount or 1) for line, amount in ((CPU, has.cpu), (MEMORY, has.memory)))
        return (-share, int(run.pods[0]))

    return sorted(runs, key=key)


def most_important_first(runs: Sequence[Run], priorities: Rows) -> list[Run]:
    """The runs cut where priorities change, higher priorities first; within one priority the order stays."""
    found: list[tuple[int, Run]] = []
    for run in runs:
        of = priorities[run.pods]
        found += [(priority, Run(kind=run.kind, pods=run.pods[of == priority])) for priority in np.unique(of).tolist()]
    return [run for _, run in sorted(found, key=lambda each: -each[0])]


def _filled(
    template_nodes: TemplateNodes, budget: Budget, bundle: Sequence[int], runs: Sequence[Run], stop: Callable[[], bool]
) -> Option:
    nodes = NewNodes(template_nodes, budget.copy(), bundle)
    moving = any(run.kind in template_nodes.inter_pod_constraints.moving for run in runs)
    if not moving:
        placed, cut = _fill_all(nodes.fill, runs, stop)
    else:
        with template_nodes.snapshot.fork():
            tracked = TrackedNodes(nodes, stop)
            placed, cut = _fill_all(tracked.fill, runs, stop)
            cut = cut or tracked.cut
    whole = _whole_groups(template_nodes, nodes)
    groups = np.append(nodes.groups[: nodes.n], whole or []).astype(np.intp)
    if whole is None:  # a limit does not allow all of an all-or-nothing group
        placed, groups = [], groups[:0]
    return Option(
        bundle=tuple(bundle),
        names=tuple(template_nodes.groups[group].name for group in bundle),
        groups=groups,
        kinds=tuple(sorted({run.kind for run, at in placed if len(at)})),
        pods=_joined([run.pods[: len(at)] for run, at in placed]),
        at=_joined([at for _, at in placed]),
        asked=_asked(template_nodes, placed),
        offered=_offered(template_nodes, groups),
        left_out=sum(len(at) for _, at in placed) < sum(len(run.pods) for run in runs),
        cut=cut,
        moving=moving,
    )


def _asked(template_nodes: TemplateNodes, placed: Sequence[tuple[Run, Rows]]) -> Resources:
    names = template_nodes.snapshot.facts.resource
    total = np.zeros(len(names), np.int64)
    for run, at in placed:
        total += template_nodes.snapshot.kinds.requests[: len(names), run.kind] * len(at)
    return dict(zip(names, total.tolist(), strict=True))


def _offered(template_nodes: TemplateNodes, groups: Rows) -> Resources:
    total: dict[str, int] = {}
    for group, count in counted(groups):
        for name, amount in resources_of(template_nodes.node(group)).items():
            total[name] = total.get(name, 0) + amount * count
    return total


def _whole_groups(template_nodes: TemplateNodes, nodes: NewNodes) -> list[int] | None:
    """The further nodes that bring all-or-nothing groups to their maximum; None if a limit does not allow them."""
    further: list[int] = []
    for group in sorted(
        set(filter(template_nodes.all_or_nothing, nodes.bundle)).intersection(nodes.groups[: nodes.n].tolist())
    ):
        lacking = template_nodes.groups[group].group.max_size - nodes.budget.sizes[group]
        if lacking > nodes.budget.room(group):
            return None
        nodes.budget.take(group, lacking)
        further += [group] * lacking
    return further


def _fill_all(
    fill: Callable[[KindId, int], Rows], runs: Sequence[Run], stop: Callable[[], bool]
) -> tuple[list[tuple[Run, Rows]], bool]:
    """The node of each pod placed, run by run, and whether `stop` ended the filling early."""
    placed: list[tuple[Run, Rows]] = []
    for run in runs:
        if stop():
            return placed, True
        placed.append((run, fill(run.kind, len(run.pods))))
    return placed, False


def _differ(values: Rows) -> bool:
    return bool((values != values[:1]).any())


def _joined(parts: Sequence[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.zeros(0, np.intp)
