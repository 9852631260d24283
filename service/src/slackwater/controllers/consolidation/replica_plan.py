"""Plans consolidation on a replica."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.consolidation.candidates import NodeFacts
from slackwater.controllers.consolidation.loop import ConsolidationInquiry
from slackwater.controllers.consolidation.outcome import ConsolidationPlan
from slackwater.controllers.consolidation.plan import plan_consolidation
from slackwater.controllers.consolidation.policy import ConsolidationRules
from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.controllers.scaledown.replica_plan import ScaleDownInquiry, planning_input_of
from slackwater.controllers.scaleup.groups import GrowableGroup
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.slack.scale_up import LoopPlans
from slackwater.model.ids import PodKey, PodUid, Row, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import created_at_of
from slackwater.model.prices import PriceBook
from slackwater.snapshot.snapshot_replica import SnapshotReplica

#: The API server adds so many random characters to a name that it generates, and shortens what is before them to the other
#: number.
_SUFFIX: Final = 5
_LONGEST_BASE: Final = 58
#: Times in API objects are whole seconds.
_RESOLUTION_SECONDS: Final = 1.0


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
            known=NodeFacts(resting=_resting(planning_input, inquiry), busy=inquiry.busy),
            stop=lambda: 0 < most < clock() - began,
        )


def _resting(planning_input: PlanningInput, inquiry: ConsolidationInquiry) -> frozenset[PodUid]:
    """The pods that their controllers made since one of the controller's pods was moved: any of them may be its successor. Of
    pods that earlier processes moved only the names are known: a successor has the same name, or the same generated part."""
    moved, before = inquiry.moved, inquiry.moved_before
    if not moved and not before:
        return frozenset()
    generated: dict[PodKey, UnixTime] = {}
    for key, at in before.items():
        if (base := _base(key)) is not None:
            generated[base] = min(at, generated.get(base, at))
    rows, found = map(Row, range(planning_input.snapshot.n_rows)), set[PodUid]()
    for pod in (running.pod for row in rows for running in planning_input.running_pods.on(row)):
        if (owner := pod.eviction_facts.owner) is None:
            continue
        base = _base(pod.key)
        times = moved.get((pod.key.namespace, owner)), before.get(pod.key), None if base is None else generated.get(base)
        since = min((at for at in times if at is not None), default=None)
        if since is not None and created_at_of(pod.created_at) >= since - _RESOLUTION_SECONDS:
            found.add(pod.uid)
    return frozenset(found)


def _base(key: PodKey) -> PodKey | None:
    """The part of a pod's name to which the API server added a random suffix; None if its name does not look like that."""
    base = key.name[:-_SUFFIX]
    return PodKey(key.namespace, base) if base.endswith("-") or len(base) == _LONGEST_BASE else None
