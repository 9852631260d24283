"""Estimates how many new nodes of a bundle of similar groups the demand needs, and which pods these nodes take.

First-fit decreasing over whole equivalence groups: the pods that request the largest share of a node come first, and each goes
to the first new node that takes it. If a limit leaves pods out, the estimate is made again with the more important pods first.
An estimate that is ended for lack of time is valid for the pods that it has placed. Deliberately absent: which estimate is the
best (`expanders`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np

from slackwater.controllers.scaleup.groups import Budget, Resources, counted, resources_of
from slackwater.controllers.scaleup.inter_pod_constraints import AlikePods
from slackwater.controllers.scaleup.new_nodes import NewNodes, TrackedNodes
from slackwater.controllers.scaleup.template_nodes import TemplateNodes
from slackwater.fit.failure import concerning
from slackwater.model.columns import Rows
from slackwater.model.nodegroups import GroupName
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.node_facts import CPU, MEMORY


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Pods of one equivalence group, the most important first. `pods`: their positions in the demand."""

    kind: KindId
    pods: Rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Option:
    """A way to grow: new nodes of a bundle of similar groups, and the pods that they take. The result of an estimate.

    `groups`: the position of each new node's group, shape (nodes,). `kinds`: the equivalence groups of the placed pods, sorted.
    `pods[i]`, a position in the demand, goes to the new node of number `at[i]`, or to row `~at[i]` of the snapshot if `at[i]`
    is negative. `asked`: what the placed pods request. `offered`: what the new nodes have. `left_out`: pods that the bundle may
    take were not placed. `cut`: the estimate was ended for lack of time. `moving`: the option is valid only on the snapshot on
    which it was made.
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
    together: bool = True,
) -> Option:
    """Estimates one bundle of similar groups. Leaves the snapshot as it was.

    `bundle`: positions of groups. `runs`: the pods without a node that a new node of the bundle may take. `priorities`: the
    priority of each pod of the demand, shape (pods of the demand,). `stop` tells whether the estimate has to end now.
    `together`: pods that need one another on one node are placed only where all of them fit.
    """
    fill = partial(_filled, template_nodes, budget, bundle, stop=stop, together=together)
    found = fill(largest_first(template_nodes, bundle[0], runs))
    if found.left_out and not found.cut and len(np.unique(priorities[joined([run.pods for run in runs])])) > 1:
        found = fill(most_important_first(largest_first(template_nodes, bundle[0], runs), priorities))
    return found


def largest_first(template_nodes: TemplateNodes, group: int, runs: Sequence[Run]) -> list[Run]:
    """Sorts the runs by what a pod requests, the most first: its share of an empty node's CPU plus that of its memory. Runs of
    equal shares are in the order of their first pods."""
    has = template_nodes.template(group).node.allocatable

    def key(run: Run) -> tuple[float, int]:
        asked = dict(template_nodes.amounts(run.kind))
        share = sum(asked.get(line, 0) / (amount or 1) for line, amount in ((CPU, has.cpu), (MEMORY, has.memory)))
        return (-share, int(run.pods[0]))

    return sorted(runs, key=key)


def most_important_first(runs: Sequence[Run], priorities: Rows) -> list[Run]:
    """Splits the runs by priority, and sorts the parts by priority, the highest first. Within one priority the order stays."""
    found: list[tuple[int, Run]] = []
    for run in runs:
        of = priorities[run.pods]
        found += [(priority, Run(kind=run.kind, pods=run.pods[of == priority])) for priority in np.unique(of).tolist()]
    return [run for _, run in sorted(found, key=lambda each: -each[0])]


def _filled(
    template_nodes: TemplateNodes,
    budget: Budget,
    bundle: Sequence[int],
    runs: Sequence[Run],
    *,
    stop: Callable[[], bool],
    together: bool,
) -> Option:
    nodes = NewNodes(template_nodes, budget.copy(), bundle)
    moving = any(run.kind in template_nodes.inter_pod_constraints.moving for run in runs)
    if not moving:
        placed, cut = _fill_all(nodes.fill, runs, stop)
    else:
        with template_nodes.snapshot.fork():
            tracked = TrackedNodes(nodes, stop, together=together)
            placed, cut = _fill_alike(tracked, runs, template_nodes.alike, stop)
            cut = cut or tracked.cut
    whole = _whole_groups(template_nodes, nodes)
    groups = np.append(nodes.groups[: nodes.n], whole or []).astype(np.intp)
    if whole is None:  # a limit does not allow all of an all-or-nothing group
        placed, groups = [], groups[:0]
    left_out = sum(len(at) for _, at in placed) < sum(len(run.pods) for run in runs)
    return option_of(template_nodes, bundle, groups, placed, left_out=left_out, cut=cut, moving=moving)


def option_of(
    template_nodes: TemplateNodes,
    bundle: Sequence[int],
    groups: Rows,
    placed: Sequence[tuple[Run, Rows]],
    *,
    left_out: bool,
    cut: bool,
    moving: bool,
) -> Option:
    """The option with new nodes of `groups`, and pods on them. `placed`: the nodes of each run's first pods."""
    return Option(
        bundle=tuple(bundle),
        names=tuple(template_nodes.groups[group].name for group in bundle),
        groups=groups,
        kinds=tuple(sorted({run.kind for run, at in placed if len(at)})),
        pods=joined([run.pods[: len(at)] for run, at in placed]),
        at=joined([at for _, at in placed]),
        asked=_asked(template_nodes, placed),
        offered=_offered(template_nodes, groups),
        left_out=left_out,
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
        for name, amount in resources_of(template_nodes.template(group).node).items():
            total[name] = total.get(name, 0) + amount * count
    return total


def _whole_groups(template_nodes: TemplateNodes, nodes: NewNodes) -> list[int] | None:
    """Opens the further nodes that bring opened all-or-nothing groups to their maximum. Returns the group of each of these
    nodes; None if a limit does not allow them."""
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
    """Places the runs one after another with `fill`. Returns each run with the nodes of its placed pods, and whether `stop`
    ended this early."""
    placed: list[tuple[Run, Rows]] = []
    for run in runs:
        if stop():
            return placed, True
        with concerning(run.kind):
            placed.append((run, fill(run.kind, len(run.pods))))
    return placed, False


def _fill_alike(
    tracked: TrackedNodes, runs: Sequence[Run], alike: AlikePods, stop: Callable[[], bool]
) -> tuple[list[tuple[Run, Rows]], bool]:
    """Places the runs one after another as `_fill_all` does; those next to each other that are alike together."""
    if len({run.kind for run in runs}) < len(runs):
        return _fill_all(tracked.fill, runs, stop)
    placed: list[tuple[Run, Rows]] = []
    for (_, count), same in groupby(runs, key=lambda run: (alike.key(run.kind), len(run.pods))):
        if stop():
            return placed, True
        together = list(same)
        placed += zip(together, tracked.fill_alike([run.kind for run in together], count), strict=False)
    return placed, False


def joined(parts: Sequence[Rows]) -> Rows:
    """The parts in one array, shape (all,)."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.zeros(0, np.intp)
