"""What a plan reads: the snapshot with who stands where, the groups, the budgets, and what controllers still want."""

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
    """Budgets and replicas are None where nothing is known of such objects: what needs them is skipped, or is careful.

    `group_of` names the nodes that belong to a group. `arriving`: nodes that pending pods are about to go to, and count on
    already in the snapshot. `prices` are of one node of a group for any length of time, the same for all.
    """

    snapshot: ClusterSnapshot
    standing: Standing
    groups: Mapping[GroupName, NodeGroup]
    group_of: Mapping[NodeName, GroupName]
    budgets: tuple[DisruptionBudget, ...] | None = None
    replicas: Targets | None = None
    arriving: frozenset[NodeName] = frozenset()
    prices: Mapping[GroupName, float] = field(default_factory=dict)
    #: Placeholders with the nodes where they stand: not in the snapshot, nor in `standing`.
    placeholders: Sequence[Pod] = ()
    #: Pods without a node; those that fit somewhere stand in the snapshot already.
    pending: Sequence[Pod] = ()
