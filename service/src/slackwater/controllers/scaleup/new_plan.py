"""The plan in the making: the nodes that it adds, and which pod goes where, option by option.

Nodes are numbered in the order in which they were opened. Where pods are judged by other pods' places, the new nodes are also
in the snapshot; their rows are known here.
"""

from collections.abc import Sequence

import numpy as np

from slackwater.controllers.scaleup.groups import GrowableGroup, add_nodes
from slackwater.controllers.scaleup.outcome import ScaleUp
from slackwater.fit.assume import assume_volumes
from slackwater.model.columns import Rows
from slackwater.model.ids import NodeName, Row
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater.model.resources import Amounts
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId


class NewPlan:
    """The plan in the making: nodes to add, and the pods of each.

    Pods are given by their position in the demand, groups by theirs."""

    def __init__(self, snapshot: ClusterSnapshot, groups: Sequence[GrowableGroup], pods: Sequence[Pod]) -> None:
        self._snapshot, self._groups, self._pods = snapshot, groups, pods
        self._group_of: list[int] = []
        self._node_at: dict[int, int] = {}  # by row
        self._row_of: dict[int, int] = {}  # by node
        self._on: dict[int, int] = {}  # the node of a pod
        self._elsewhere: dict[int, NodeName] = {}  # the node of a pod that needs no new one, in the order of placement

    def open(self, groups: Sequence[int], *, system: Amounts, shown: bool) -> int:
        """Adds nodes; the number of the first. `shown`: they are added to the snapshot too."""
        first = len(self._group_of)
        self._group_of += groups
        for group, numbers in _numbered(groups, first).items() if shown else ():
            template = self._groups[group].template
            assert template is not None
            names = [NodeName(f"new:{self._groups[group].name}:{number}") for number in numbers]
            rows = add_nodes(self._snapshot, template, names, system=system)
            self._node_at.update(zip(rows, numbers, strict=True))
            self._row_of.update(zip(numbers, rows, strict=True))
        return first

    def join(self, pods: Rows, nodes: Rows) -> None:
        """Assigns pods to new nodes, by number."""
        self._on.update(zip(pods.tolist(), nodes.tolist(), strict=True))

    def stand(self, pods: Rows, rows: Rows) -> None:
        """Assigns pods to rows of the snapshot, which may be new nodes."""
        for pod, row in zip(pods.tolist(), rows.tolist(), strict=True):
            if row in self._node_at:
                self._on[pod] = self._node_at[row]
            else:
                self._elsewhere[pod] = self._snapshot.facts.nodes[row].name

    def show(self, pods: Rows, kinds: Rows) -> None:
        """Places pods that have been assigned to a node in the snapshot, by equivalence group."""
        rows = np.fromiter((self._row(pod) for pod in pods.tolist()), np.intp, len(pods))
        for kind in np.unique(kinds[pods]).tolist():
            at = rows[kinds[pods] == kind]
            if self._snapshot.of(KindId(kind)).asks.claims:
                for row in at.tolist():
                    assume_volumes(self._snapshot, KindId(kind), Row(row))
                    self._snapshot.place(KindId(kind), row)
            else:
                where, counts = np.unique(at, return_counts=True)
                self._snapshot.place_many(KindId(kind), where, counts)

    def _row(self, pod: int) -> int:
        return self._row_of[self._on[pod]] if pod in self._on else self._snapshot.facts.row_of[self._elsewhere[pod]]

    def schedulable(self) -> list[tuple[Pod, NodeName]]:
        return [(self._pods[pod], name) for pod, name in self._elsewhere.items()]

    def scale_ups(self) -> tuple[ScaleUp, ...]:
        """The scale-ups in the order of the groups; each group's most important nodes first."""
        pods_on: list[list[int]] = [[] for _ in self._group_of]
        for pod in sorted(self._on):
            pods_on[self._on[pod]].append(pod)
        by_group: dict[int, list[list[int]]] = {}
        for number, group in enumerate(self._group_of):
            by_group.setdefault(group, []).append(pods_on[number])
        return tuple(self._scale_up(self._groups[group].name, by_group[group]) for group in sorted(by_group))

    def _scale_up(self, name: GroupName, nodes: list[list[int]]) -> ScaleUp:
        # Pods are in the order of importance, so a node is as important as its first one.
        nodes.sort(key=lambda pods: pods[0] if pods else len(self._pods))
        return ScaleUp(group=name, nodes=tuple(tuple(self._pods[pod] for pod in pods) for pods in nodes))


def _numbered(groups: Sequence[int], first: int) -> dict[int, list[int]]:
    """The numbers of new nodes by their group, where the first has number `first`."""
    found: dict[int, list[int]] = {}
    for number, group in enumerate(groups, first):
        found.setdefault(group, []).append(number)
    return found
