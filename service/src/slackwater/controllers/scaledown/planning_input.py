"""The input of a scale-down plan: the snapshot with the pods on each row, the groups, the budgets, and controllers'
replicas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slackwater.model.controllers import Targets
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import DisruptionBudget, Pod
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.running_pods import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningInput:
    """What a plan reads. Budgets and replicas are None if nothing is known of such objects: rules that need them are skipped or
    judge cautiously.

    `group_of` has the nodes that belong to a group. `arriving`: nodes that pending pods are about to go to, where they count in
    the snapshot already. `prices` are per node of a group, all for the same length of time.
    """

    snapshot: ClusterSnapshot
    standing: Standing
    groups: Mapping[GroupName, NodeGroup]
    group_of: Mapping[NodeName, GroupName]
    budgets: tuple[DisruptionBudget, ...] | None = None
    replicas: Targets | None = None
    arriving: frozenset[NodeName] = frozenset()
    prices: Mapping[GroupName, float] = field(default_factory=dict)
    #: Placeholders with their nodes; they are neither in the snapshot nor in `standing`.
    placeholders: Sequence[Pod] = ()
    #: Pods without a node; those that fit somewhere are in the snapshot already.
    pending: Sequence[Pod] = ()
