"""Plans consolidation on a replica."""

from collections.abc import Callable, Mapping, Sequence

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.consolidation.candidates import NodeFacts
from slackwater.controllers.consolidation.loop import ConsolidationInquiry
from slackwater.controllers.consolidation.outcome import ConsolidationPlan
from slackwater.controllers.consolidation.plan import ConsolidationRules, plan_consolidation
from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.controllers.scaledown.replica_plan import ScaleDownInquiry, planning_input_of
from slackwater.controllers.scaleup.groups import GrowableGroup
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.slack.scale_up import LoopPlans
from slackwater.model.auxiliary import ControllerKey
from slackwater.model.ids import PodUid, Row, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import created_at_of
from slackwater.model.prices import PriceBook
from slackwater.snapshot.snapshot_replica import SnapshotReplica


def propose_consolidation(
    replica: SnapshotReplica,
    inquiry: ConsolidationInquiry,
    scale_down: ScaleDownInquiry,
    found: LoopPlans,
    *,
    scale_up: ScaleUpPolicy,
    prices: PriceBook,
    group_status: Mapping[GroupName, NodeGroupStatus],
    groups: Sequence[GrowableGroup],
    now: UnixTime,
    clock: Callable[[], float],
) -> ConsolidationPlan:
    """Plans a consolidation beside the scale-up and slack plans (`found`). `clock` is read at each step. Leaves the snapshot
    unchanged."""
    began, most = clock(), scale_down.policy.simulation_timeout
    with planning_input_of(replica, scale_down, group_status, found) as planning_input:
        return plan_consolidation(
            scale_down.state,
            planning_input,
            groups,
            ConsolidationRules(policy=inquiry.policy, scale_down=scale_down.policy, scale_up=scale_up),
            prices,
            now=now,
            known=NodeFacts(resting=_resting(planning_input, inquiry.moved), busy=inquiry.busy),
            stop=lambda: 0 < most < clock() - began,
        )


def _resting(planning_input: PlanningInput, moved: Mapping[ControllerKey, UnixTime]) -> frozenset[PodUid]:
    """The pods that their controllers made since one of the controller's pods was moved: any of them may be its successor."""
    if not moved:
        return frozenset()
    rows = map(Row, range(planning_input.snapshot.n_rows))
    pods = (running.pod for row in rows for running in planning_input.running_pods.on(row))
    return frozenset(
        pod.uid
        for pod in pods
        if (owner := pod.eviction_facts.owner) is not None
        and (since := moved.get((pod.key.namespace, owner))) is not None
        and created_at_of(pod.created_at) >= since
    )
