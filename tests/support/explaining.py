"""Situations as the tests of `explain` say them, and changes made to objects by hand: no forks, cluster states rebuilt."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from msgspec import structs

from slackwater.controllers.scaledown.plan import plan_scale_down
from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.controllers.scaledown.policy import ScaleDownPolicy
from slackwater.controllers.scaledown.state import ScaleDownState
from slackwater.controllers.scaleup.groups import GrowableGroup
from slackwater.controllers.scaleup.pending import Demand
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.explain.explain_input import (
    BudgetsEdit,
    Change,
    ExplainInput,
    GroupEdit,
    NewNode,
    NodeEdit,
    PodEdit,
    PodLeaves,
    PolicyEdit,
)
from slackwater.fit.feasible_nodes import feasible
from slackwater.model.ids import NodeName, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.model.storage import Storage
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.node_facts import HOSTNAME
from slackwater.snapshot.running_pods import RunningPods
from tests.support import installed

NAMESPACES = {"default": {"team": "x"}, "other": {}}
NOW = UnixTime(1e9)
#: How many cases the laws draw: few in CI, 10,000 by `make laws TESTS=tests/laws/explain`.
CASES = int(os.environ.get("SLACKWATER_EXPLAIN_CASES", "20"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSources:
    """A cluster as objects alone."""

    nodes: tuple[Node, ...]
    running_pods: tuple[Pod, ...] = ()
    pending: tuple[Pod, ...] = ()
    storage: Storage = field(default_factory=Storage)
    budgets: tuple[DisruptionBudget, ...] | None = None
    groups: tuple[GrowableGroup, ...] = ()
    #: The group of every node; None: of none.
    pool: GroupName | None = None
    scale_up: ScaleUpPolicy = installed.SCALE_UP
    scale_down: ScaleDownPolicy = installed.SCALE_DOWN

    def snapshot(self) -> ClusterSnapshot:
        known = [pod.kind for pod in (*self.running_pods, *self.pending)]
        return ClusterSnapshot.build(self.nodes, self.running_pods, also=known, namespaces=NAMESPACES, storage=self.storage)

    def explain_input(self) -> ExplainInput:
        snapshot = self.snapshot()
        return ExplainInput(
            snapshot=snapshot,
            running_pods=RunningPods(snapshot, self.running_pods),
            pending={pod.uid: pod for pod in self.pending},
            budgets=self.budgets,
            groups={group.name: group for group in self.groups},
            group_of={} if self.pool is None else {node.name: self.pool for node in self.nodes},
            scale_up=self.scale_up,
            scale_down=self.scale_down,
            now=NOW,
        )

    def after(self, changes: Iterable[Change]) -> "StatusSources":
        """The objects as they would be."""
        reported = self
        for change in changes:
            reported = _changed(reported, change)
        return reported

    def pod(self, uid: PodUid) -> Pod:
        return next(pod for pod in self.pending if pod.uid == uid)

    def fits(self, uid: PodUid) -> bool:
        """Is there a node for the pod, or would a plan add one?"""
        snapshot, pod = self.snapshot(), self.pod(uid)
        if len(feasible(snapshot, snapshot.kind_id(pod.kind, pod.labels)).rows):
            return True
        plan = plan_scale_up(snapshot, Demand(counted=(pod,)), self.groups, policy=self.scale_up, clock=lambda: 0.0)
        return bool(plan.schedulable) or any(scale_up.pods for scale_up in plan.scale_ups)

    def fits_a_node(self, uid: PodUid) -> bool:
        snapshot, pod = self.snapshot(), self.pod(uid)
        return bool(len(feasible(snapshot, snapshot.kind_id(pod.kind, pod.labels)).rows))

    def goes(self, name: NodeName) -> bool:
        """Would a plan that may take this node alone take it?"""
        snapshot = self.snapshot()
        assert self.pool is not None
        planning_input = PlanningInput(
            snapshot=snapshot,
            running_pods=RunningPods(snapshot, self.running_pods),
            groups={group.name: group.group for group in self.groups},
            group_of={name: self.pool},
            members={node.name: self.pool for node in self.nodes},
            budgets=self.budgets,
        )
        plan = plan_scale_down(ScaleDownState(), planning_input, self.scale_down, now=NOW)
        return name in {found.node for found in plan.removable}


def _changed(reported: StatusSources, change: Change) -> StatusSources:  # noqa: PLR0911  # one case for each change
    match change:
        case PodEdit(pod=subject, edit=edit_pod):
            return replace(
                reported,
                pending=tuple(edit_pod(pod) if pod.uid == subject.uid else pod for pod in reported.pending),
                running_pods=tuple(edit_pod(pod) if pod.uid == subject.uid else pod for pod in reported.running_pods),
            )
        case PodLeaves(pod=subject):
            return replace(reported, running_pods=tuple(pod for pod in reported.running_pods if pod.uid != subject.uid))
        case NodeEdit(node=name, edit=edit_node):
            return replace(reported, nodes=tuple(edit_node(node) if node.name == name else node for node in reported.nodes))
        case NewNode(group=group_name):
            template = next(group for group in reported.groups if group.name == group_name).template
            assert template is not None
            new = structs.replace(template.node, name=NodeName("new"), labels={**template.node.labels, HOSTNAME: "new"})
            return replace(reported, nodes=(*reported.nodes, new))
        case GroupEdit(group=group_name, edit=edit_group):
            return replace(
                reported, groups=tuple(edit_group(group) if group.name == group_name else group for group in reported.groups)
            )
        case BudgetsEdit(edit=edit_budget):
            edited = (edit_budget(each) for each in reported.budgets or ())
            return replace(reported, budgets=tuple(each for each in edited if each is not None))
        case PolicyEdit(scale_up=edit_growth, scale_down=edit_shrink):
            return replace(reported, scale_up=edit_growth(reported.scale_up), scale_down=edit_shrink(reported.scale_down))
