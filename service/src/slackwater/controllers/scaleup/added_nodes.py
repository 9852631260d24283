"""The nodes that a plan adds, and the pods of each, while the plan is being made."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from slackwater.controllers.scaleup.groups import GrowableGroup, add_nodes
from slackwater.controllers.scaleup.outcome import ScaleUp
from slackwater.fit.binpacking import place_planned, runs
from slackwater.fit.failure import concerning
from slackwater.model.columns import Rows
from slackwater.model.ids import NodeName
from slackwater.model.objects import Pod
from slackwater.model.resources import Amounts
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot


@dataclass(slots=True, kw_only=True)
class AddedNodes:
    """The nodes to add, and the pods of each.

    Pods are given by their position in the demand, groups by their position in `groups`, new nodes by the number of their
    opening."""

    snapshot: ClusterSnapshot
    groups: Sequence[GrowableGroup]
    pods: Sequence[Pod]
    group_of: list[int] = field(default_factory=list)
    node_at: dict[int, int] = field(default_factory=dict)  # by row
    row_of: dict[int, int] = field(default_factory=dict)  # by node
    on: dict[int, int] = field(default_factory=dict)  # the node of a pod
    #: The node of a pod that needs no new one, in the order of placement.
    elsewhere: dict[int, NodeName] = field(default_factory=dict)

    def open(self, groups: Sequence[int], *, system: Amounts, shown: bool) -> int:
        """Adds a new node for each entry of `groups`. Returns the number of the first. `shown`: adds the nodes to the snapshot
        too."""
        first = len(self.group_of)
        self.group_of += groups
        numbers_of: dict[int, list[int]] = {}
        for number, group in enumerate(groups, first):
            numbers_of.setdefault(group, []).append(number)
        for group, numbers in numbers_of.items() if shown else ():
            template = self.groups[group].template
            assert template is not None
            names = [NodeName(f"new:{self.groups[group].name}:{number}") for number in numbers]
            with concerning(self.groups[group].name):
                rows = add_nodes(self.snapshot, template, names, system=system)
            self.node_at.update(zip(rows, numbers, strict=True))
            self.row_of.update(zip(numbers, rows, strict=True))
        return first

    def assign(self, pods: Rows, at: Rows, first: int = 0) -> None:
        """Assigns each of `pods` to the new node of number `first + at`; if `at` is negative, to row `~at` of the snapshot,
        which may be that of a new node."""
        for pod, where in zip(pods.tolist(), at.tolist(), strict=True):
            node = first + where if where >= 0 else self.node_at.get(~where)
            if node is not None:
                self.on[pod] = node
            else:
                self.elsewhere[pod] = self.snapshot.facts.nodes[~where].name

    def show(self, pods: Rows, kinds: Rows) -> None:
        """Places these pods, which have been assigned to a node, in the snapshot. `pods`: in the order in which they were
        planned, since the devices and volumes that a pod gets depend on the pods before it. `kinds`: the equivalence group of
        each pod of the demand."""
        known = self.snapshot.facts.row_of
        for kind, run in runs(kinds, pods):
            rows = [self.row_of[self.on[pod]] if pod in self.on else known[self.elsewhere[pod]] for pod in run.tolist()]
            with concerning(kind):
                place_planned(self.snapshot, kind, np.array(rows, np.intp))

    def scale_ups(self) -> tuple[ScaleUp, ...]:
        """The scale-ups in the order of the groups; each group's most important nodes first."""
        pods_on: list[list[int]] = [[] for _ in self.group_of]
        for pod in sorted(self.on):
            pods_on[self.on[pod]].append(pod)
        by_group: dict[int, list[list[int]]] = {}
        for number, group in enumerate(self.group_of):
            by_group.setdefault(group, []).append(pods_on[number])
        for nodes in by_group.values():  # pods are in the order of importance, so a node is as important as its first one
            nodes.sort(key=lambda pods: pods[0] if pods else len(self.pods))
        return tuple(
            ScaleUp(group=self.groups[group].name, nodes=tuple(tuple(self.pods[pod] for pod in pods) for pods in nodes))
            for group, nodes in sorted(by_group.items())
        )
