"""The input of a scale-down plan, and the placeholders of slack as pods that have to move.

- `PlanningInput`: the snapshot with the pods on each row, the groups, the budgets, and controllers' replicas.
- `PlaceholderPods`: the pods of each row, to which placeholders are added.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from slackwater.fit.binpacking import NOWHERE, Hints, place_pods
from slackwater.fit.drainability import DrainPolicy, RuleFacts
from slackwater.fit.remaining_pdb_tracker import Disruptions
from slackwater.model.auxiliary import Targets
from slackwater.model.columns import Rows
from slackwater.model.ids import NodeName, Row, UnixTime
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import DisruptionBudget, Pod
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.running_pods import NotedPods, PodsByRow, RunningPod


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningInput:
    """What a plan reads. `budgets` and `replicas`: None if no such objects are known yet; rules that need them are then skipped
    or assume the worst.

    `group_of`: the group of each node that belongs to one. `arriving`: the nodes on which pending pods were placed in the
    snapshot.
    """

    snapshot: ClusterSnapshot
    running_pods: NotedPods
    groups: Mapping[GroupName, NodeGroup]
    group_of: Mapping[NodeName, GroupName]
    #: The group of each node, if `group_of` leaves out nodes that count for their group's minimum.
    members: Mapping[NodeName, GroupName] | None = None
    budgets: tuple[DisruptionBudget, ...] | None = None
    replicas: Targets | None = None
    arriving: frozenset[NodeName] = frozenset()
    #: Placeholders with their nodes; they are neither in the snapshot nor in `running_pods`.
    placeholders: Sequence[Pod] = ()
    #: The number of working nodes that each group keeps for slack; see `controllers.slack.state`. Except for the groups
    #: `kept_when_empty`, nodes without pods and placeholders are not kept.
    kept_for_slack: Mapping[GroupName, int] = field(default_factory=dict)
    kept_when_empty: frozenset[GroupName] = frozenset()
    #: Pods without a node; those that fit somewhere are in the snapshot already.
    pending: Sequence[Pod] = ()

    def rule_facts(self, policy: DrainPolicy, now: UnixTime) -> RuleFacts:
        """What the rules read by which pods may leave their nodes."""
        disruptions = None if self.budgets is None else Disruptions(self.budgets)
        return RuleFacts(now=now, policy=policy, disruptions=disruptions, replicas=self.replicas)

    def keeps_for_slack(self, group: GroupName, *, ready: bool, working: int, in_use: bool) -> bool:
        """Does the group keep a node for slack? `working`: its ready nodes that are left, with this one. `in_use`: the node has
        pods or placeholders."""
        if not ready or working > self.kept_for_slack.get(group, 0):
            return False
        return in_use or group in self.kept_when_empty


class PlaceholderPods:
    """The pods of each row, and the placeholders that `put` has placed there. Like pods, placeholders have to move.

    Placeholders have no effect on which nodes may be tried, nor on a removal score: a node is not in use because it has slack,
    and moving a placeholder disturbs no pod. But a node is removed only if its placeholders fit elsewhere. Pods of nodes under
    removal and evicted pods are placed before placeholders. A placeholder for which no room is left then is not placed, since
    no removal makes that worse.
    """

    def __init__(self, running_pods: PodsByRow) -> None:
        self._running_pods = running_pods
        self._put: dict[int, list[RunningPod]] = {}

    def on(self, row: Row) -> list[RunningPod]:
        return [*self._running_pods.on(row), *self._put.get(row, ())]

    def holds_slack(self, row: Row) -> bool:
        """Has the row a placeholder?"""
        return row in self._put

    def put(self, snapshot: ClusterSnapshot, pods: Sequence[Pod], rows: Rows) -> None:
        """Places each placeholder on its former node if it fits there, else on the first of `rows` that takes it."""
        if not pods:
            return
        row_of, nowhere = snapshot.facts.row_of, NodeName("")
        kinds = snapshot.number(pods)
        order = np.argsort(kinds, kind="stable")
        hints = np.fromiter((row_of.get(pod.node or nowhere, NOWHERE) for pod in pods), np.intp, len(pods))
        open_rows = rows[snapshot.facts.live[rows]]
        found = place_pods(snapshot, kinds[order], rows=open_rows, hints=Hints(pods=hints[order])).rows
        for at, row in zip(order.tolist(), found.tolist(), strict=True):
            if row != NOWHERE:
                self._put.setdefault(row, []).append(RunningPod(pods[at], KindId(int(kinds[at]))))
