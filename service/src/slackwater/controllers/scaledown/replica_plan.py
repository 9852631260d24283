"""Plans scale-down on a replica: turns the status of node groups and the scale-up plan into the input of
`controllers.scaledown`.

While scale-down is planned, the pods for which the scale-up plan found room on existing nodes are placed there. Pods for which
it found no such room may get that of nodes being drained: these drains are rolled back before new nodes are requested.

- `propose_scale_down`: the plan.
- `put_kept_room`: places leaving pods at their destinations, so that a plan counts that room as used.
- `find_destinations`: finds where leaving pods fit now, by the whole fit.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.scaledown.drains.running_drains import drains_to_give_up, without_removal_marks
from slackwater.controllers.scaledown.plan import plan_scale_down
from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.controllers.scaledown.policy import ScaleDownPolicy
from slackwater.controllers.scaledown.state import ScaleDownPlan, ScaleDownState
from slackwater.controllers.scaleup.outcome import ScaleUpPlan
from slackwater.controllers.slack.scale_up import LoopPlans, SlackPlan
from slackwater.fit.assumed_claims import assume_free_devices, release_devices
from slackwater.fit.binpacking import NOWHERE, Hints, place_pods
from slackwater.fit.steps import MOST_STEPS, PlanSteps
from slackwater.model.auxiliary import Targets
from slackwater.model.columns import Rows
from slackwater.model.events import Destination
from slackwater.model.ids import NodeName, PodUid, Row, UnixTime
from slackwater.model.nodegroups import GroupName, Membership
from slackwater.model.objects import Pod
from slackwater.model.reasons import UnremovableReason
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.snapshot_replica import SnapshotReplica
from slackwater_protocol.names import TO_BE_DELETED_TAINT


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDownInquiry:
    """The input of a scale-down plan. `revocable`: nodes whose drain can still be rolled back, with the time it began.
    `replicas`: the wanted number of pods of each controller."""

    state: ScaleDownState
    policy: ScaleDownPolicy
    revocable: Mapping[NodeName, UnixTime] = field(default_factory=dict)
    replicas: Targets = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDownProposal:
    """The scale-down plan. `given_up`: nodes whose drain is to be rolled back, because pods need their room; those of the
    scale-up plan (`Plans.given_up`) are not repeated. `reasons`: the number of unremovable nodes by reason. `seconds`: the
    duration of planning. `consolidates`: a consolidation is planned next."""

    plan: ScaleDownPlan
    given_up: tuple[NodeName, ...]
    reasons: Mapping[UnremovableReason, int]
    seconds: float
    consolidates: bool = False


def drains_to_roll_back(replica: SnapshotReplica, inquiry: ScaleDownInquiry, scale_up: ScaleUpPlan) -> tuple[NodeName, ...]:
    """The nodes whose drain is to be rolled back, for pods that the scale-up plan could not place on existing nodes."""
    homeless = [pod for planned in scale_up.scale_ups for pod in planned.pods]
    homeless += [pod for unhelpable in scale_up.unhelpable for pod in unhelpable.pods]
    if not homeless or not inquiry.revocable:
        return ()
    with (
        replica.yielding_below(inquiry.policy.blocked_by.expendable_pods_priority_cutoff) as counted,
        settled(replica.snapshot, scale_up),
    ):
        planning_input = PlanningInput(snapshot=replica.snapshot, running_pods=counted, groups={}, group_of={})
        return drains_to_give_up(planning_input, inquiry.revocable, homeless)


@contextmanager
def with_drains_rolled_back(replica: SnapshotReplica, names: tuple[NodeName, ...]) -> Iterator[None]:
    """A trial in which the drains of these nodes are rolled back, and no room is kept for them; it ends with the context."""
    kept_room = replica.kept_room
    replica.kept_room = tuple(kept for kept in kept_room if kept.of not in names)
    try:
        with replica.snapshot.fork():
            for name in names:
                if name in replica.nodes:
                    replica.snapshot.put_node(replica.row_of(name), without_removal_marks(replica.nodes[name]))
            yield
    finally:
        replica.kept_room = kept_room


def propose_scale_down(
    replica: SnapshotReplica,
    inquiry: ScaleDownInquiry,
    group_status: Mapping[GroupName, NodeGroupStatus],
    found: LoopPlans,
    given_up: tuple[NodeName, ...],
    *,
    now: UnixTime,
    clock: Callable[[], float],
) -> ScaleDownProposal:
    """Plans scale-down, given the scale-up and slack plans (`found`). `given_up`: nodes whose drain those plans roll back.
    `clock` is read at each step. Leaves the snapshot unchanged."""
    began, state = clock(), with_kept_hints(inquiry.state, replica)
    for name in given_up:
        state = state.ended(name)

    def is_late() -> bool:
        spent, most = clock() - began, inquiry.policy.simulation_timeout
        return 0 < most < spent

    with planning_input_of(replica, inquiry, group_status, found) as planning_input:
        steps = PlanSteps(replica.snapshot, most=MOST_STEPS, is_late=is_late)
        plan = plan_scale_down(state, planning_input, inquiry.policy, now=now, stop=steps.over)
    homeless = plan.homeless
    more = homeless is not None and homeless.node in inquiry.revocable and homeless.node not in given_up
    return ScaleDownProposal(
        plan=plan,
        given_up=(homeless.node,) if homeless is not None and more else (),
        reasons=plan.reasons,
        seconds=clock() - began,
    )


@contextmanager
def planning_input_of(
    replica: SnapshotReplica,
    inquiry: ScaleDownInquiry,
    group_status: Mapping[GroupName, NodeGroupStatus],
    found: LoopPlans,
) -> Iterator[PlanningInput]:
    """The input of a plan that removes nodes, in a trial where pending pods have the room that the scale-up plan (`found`) gave
    them; it ends with the context."""
    known = {name: each for name, each in group_status.items() if each.answered}
    starting = {name for each in known.values() for name in each.starting}
    membership = Membership(each.group for each in known.values())
    members = ((name, membership.group_of(node)) for name, node in replica.nodes.items() if name not in starting)
    kept = {} if found.slack is None else found.slack.state.kept_nodes
    snapshot, cutoff = replica.snapshot, inquiry.policy.blocked_by.expendable_pods_priority_cutoff
    with replica.yielding_below(cutoff) as counted, settled(snapshot, found.plan) as arriving:
        yield PlanningInput(
            snapshot=snapshot,
            running_pods=counted,
            groups={name: each.group for name, each in known.items()},
            group_of={name: group for name, group in members if group is not None},
            budgets=replica.budgets,
            replicas=inquiry.replicas,
            arriving=arriving,
            pending=tuple(replica.pending.values()),
            placeholders=running_there(snapshot, found.slack),
            kept_for_slack={name: each.nodes for name, each in kept.items()},
            kept_when_empty=frozenset(name for name, each in kept.items() if each.empty_too),
        )


def running_there(snapshot: ClusterSnapshot, slack: SlackPlan | None) -> tuple[Pod, ...]:
    """The placeholders on existing nodes. Those planned on upcoming nodes are no reason to keep an existing node."""
    if slack is None:
        return ()
    found = slack.state.placeholders
    return tuple(each.pod for each in found if each.place is not None and snapshot.facts.live_row(each.place) is not None)


@contextmanager
def settled(snapshot: ClusterSnapshot, scale_up: ScaleUpPlan) -> Iterator[frozenset[NodeName]]:
    """A trial in which schedulable pods are placed on the existing nodes that the scale-up plan found for them; yields these
    nodes. Pending pods use room in scale-down plans only by this trial.
    """
    arriving = set()
    with snapshot.fork():
        for pod, name in scale_up.schedulable:
            row = snapshot.facts.live_row(name)
            if row is not None:
                kind = snapshot.kind_id(pod.kind, pod.labels)
                assume_free_devices(snapshot, kind, row)
                snapshot.place(kind, row)
                arriving.add(name)
        yield frozenset(arriving)


def without_candidates(state: ScaleDownState) -> ScaleDownState:
    """The state without candidates, for a cluster that is unhealthy as a whole."""
    return replace(state, candidate_set={}, unreached={})


def put_kept_room(replica: SnapshotReplica, but: Collection[PodUid] = ()) -> None:
    """Places each leaving pod, except `but`, at its destination, in the trial of the caller. The pods must have been learned.

    Room that is released is left free for a pending pod of the same group: that is the replacement.
    """
    released = {kept.pod.group for kept in replica.kept_room if kept.released}
    waiting = Counter(group for pod in (replica.pending.values() if released else ()) if (group := pod.group) in released)
    snapshot = replica.snapshot
    for kept in replica.kept_room:
        group, row = kept.pod.group, snapshot.facts.live_row(kept.to)
        if kept.pod.uid in but or row is None:
            continue
        if kept.released and waiting[group]:
            waiting[group] -= 1
            continue
        kind = snapshot.kind_id(kept.pod.renewed_kind, kept.pod.renewed_labels)
        assume_free_devices(snapshot, kind, row)
        snapshot.place(kind, row)


def find_destinations(replica: SnapshotReplica, uids: Sequence[PodUid], cutoff: int) -> list[Destination]:
    """Where each pod fits, beside the others and beside the room that is kept for other leaving pods: at its kept destination
    if it still fits there. Pods with a priority below `cutoff` do not block others. No pod goes to a draining node."""
    pods = [pod for uid in uids if (pod := replica.find(uid)) is not None and pod.node in replica.nodes]
    hints = {kept.pod.uid: kept.to for kept in replica.kept_room}
    replica.learn([*pods, *(kept.pod for kept in replica.kept_room)], more=True)
    found = []
    with replica.yielding_below(cutoff):
        put_kept_room(replica, uids)
        facts = replica.snapshot.facts
        live: list[int] = np.flatnonzero(facts.live[: facts.n_rows]).tolist()
        draining = {row for row in live if any(taint.key == TO_BE_DELETED_TAINT for taint in facts.nodes[row].taints)}
        rows: Rows = np.array([row for row in live if row not in draining], np.intp)
        for pod in sorted(pods, key=lambda pod: (-pod.priority, pod.key)):
            hint = facts.row_of.get(hints[pod.uid], NOWHERE) if pod.uid in hints else NOWHERE
            found.append(_moved(replica, pod, rows, hint))
    return found


def _moved(replica: SnapshotReplica, pod: Pod, rows: Rows, hint: int) -> Destination:
    """Takes the pod off its node and places it on one of `rows`, `hint` first."""
    assert pod.node is not None
    snapshot, row = replica.snapshot, replica.row_of(pod.node)
    kind: KindId = next(running_pod.kind for running_pod in replica.on(row) if running_pod.pod.uid == pod.uid)
    snapshot.remove(kind, row, 1)
    release_devices(snapshot, kind, row, [pod.uid])
    renewed: Rows = np.array([snapshot.kind_id(pod.renewed_kind, pod.renewed_labels)], np.intp)
    placed = place_pods(snapshot, renewed, rows=rows[rows != row], hints=Hints(pods=np.array([hint], np.intp)))
    if placed.rows[0] != NOWHERE:
        return Destination(pod.uid, snapshot.facts.nodes[Row(int(placed.rows[0]))].name)
    why = ", ".join(f"{count} {reason.text}" for left in placed.left for reason, count in left.reasons[:3])
    return Destination(pod.uid, None, why)


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationQuestion:
    """Asks the replica where pods fit; see `find_destinations`. Implements `runtime.planner.messages.PlannerQuestion`."""

    pods: tuple[PodUid, ...]
    cutoff: int

    def answer(self, replica: SnapshotReplica) -> bytes:
        return json.dumps(find_destinations(replica, self.pods, self.cutoff)).encode()


def with_kept_hints(state: ScaleDownState, replica: SnapshotReplica) -> ScaleDownState:
    """The state with the kept destinations as hints, so that the plan places leaving pods where their room is kept."""
    hints = {node: dict(found) for node, found in state.pod_destination_hints.items()}
    for kept in replica.kept_room:
        hints.setdefault(kept.of, {})[kept.pod.uid] = kept.to
    return replace(state, pod_destination_hints=hints) if replica.kept_room else state
