"""Short ways to say what a scale-down plan is about: nodes of one group, replicas of one workload, and who asks when."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import structs

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.scaledown.plan import plan_scale_down
from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.controllers.scaledown.policy import ScaleDownPolicy
from slackwater.controllers.scaledown.state import ScaleDownPlan, ScaleDownState
from slackwater.model.auxiliary import ControllerKey, Targets
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import NO_OPTIONS, GroupName, GroupOptions, NodeGroup
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.running_pods import RunningPods
from tests.support import installed
from tests.support.builders import a_node, a_pod

NOW = UnixTime(1.8e9)
POOL = GroupName("pool")
WEB = Owner("apps", "ReplicaSet", "web")
WEB_KEY: ControllerKey = ("default", WEB)


def machine(name: str, cpu: str = "4", **more: Any) -> Node:
    """A node with room for many pods."""
    return structs.replace(a_node(name, cpu=cpu, memory="64Gi"), scalars=(("pods", 110),), **more)


def replica(name: str, on: str | None, cpu: str = "1", *, owner: Owner | None = WEB, **more: Any) -> Pod:
    return structs.replace(
        a_pod(name, on=on, cpu=cpu, labels={"app": "web"}), eviction_facts=EvictionFacts(owner=owner), **more
    )


def a_group(
    nodes: Iterable[Node], *, name: GroupName = POOL, smallest: int = 0, options: GroupOptions = NO_OPTIONS, missing: int = 0
) -> NodeGroup:
    """`missing` nodes are asked for and not there yet."""
    return NodeGroup(
        name=name,
        provider="kwok",
        min_size=smallest,
        max_size=100,
        target=len(list(nodes)) + missing,
        instances=(),
        options=options,
    )


def a_group_status(
    group: NodeGroup, *, ready: Iterable[str] = (), unready: Iterable[str] = (), starting: Iterable[str] = ()
) -> NodeGroupStatus:
    return NodeGroupStatus(
        group=group,
        known=True,
        ready=tuple(map(NodeName, ready)),
        unready=tuple(map(NodeName, unready)),
        starting=tuple(map(NodeName, starting)),
        coming=0,
        missing=0,
        lost=(),
        leaving=0,
    )


def a_scene(
    nodes: Sequence[Node],
    pods: Sequence[Pod] = (),
    *,
    budgets: Sequence[DisruptionBudget] = (),
    replicas: Targets | None = None,
    groups: Sequence[NodeGroup] | None = None,
    group_of: Mapping[str, GroupName] | None = None,
    pending: Sequence[Pod] = (),
    **more: Any,
) -> PlanningInput:
    """All nodes in one group, unless told otherwise."""
    snapshot = ClusterSnapshot.build(nodes, [*pods, *pending])
    own = [a_group(nodes)] if groups is None else groups
    members = {node.name: own[0].name for node in nodes} if group_of is None else group_of
    return PlanningInput(
        snapshot=snapshot,
        running_pods=RunningPods(snapshot, pods),
        groups={group.name: group for group in own},
        group_of={NodeName(node): group for node, group in members.items()},
        budgets=tuple(budgets),
        replicas=replicas,
        pending=pending,
        **more,
    )


def planned(
    planning_input: PlanningInput,
    state: ScaleDownState | None = None,
    policy: ScaleDownPolicy | None = None,
    *,
    after: float = 0.0,
    **more: Any,
) -> ScaleDownPlan:
    """`after` seconds from `NOW`."""
    return plan_scale_down(
        state or ScaleDownState(), planning_input, policy or installed.SCALE_DOWN, now=UnixTime(NOW + after), **more
    )


def removable(plan: ScaleDownPlan) -> list[str]:
    return sorted(found.node for found in plan.removable)


def kept(plan: ScaleDownPlan) -> dict[str, str]:
    """Why each other node stays."""
    return {one.node: str(one.unremovable_reason) for one in plan.kept}


def moves(plan: ScaleDownPlan) -> dict[str, str]:
    """Where each pod would live."""
    return {pod.key.name: to for found in plan.removable for pod, to in found.moves}
