"""The plan of removals on a replica: the node group registry's node groups' status and what the plan of growth left, as a
planning input of `controllers.scaledown`.

Pods that the plan of growth saw to fit stand on their nodes meanwhile. Those that it could not place may have the room on nodes
that are being removed: such removals are to be given up, before any new node is asked for.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.scaledown.give_up import kept_after_all, room_in_leaving
from slackwater.controllers.scaledown.outcome import ScaleDownPlan
from slackwater.controllers.scaledown.plan import plan_scale_down
from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.controllers.scaledown.policy import ScaleDownPolicy
from slackwater.controllers.scaledown.state import ScaleDownState
from slackwater.controllers.scaleup.outcome import ScaleUpPlan
from slackwater.model.controllers import Targets
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName, Membership
from slackwater.model.objects import Pod
from slackwater.model.unremovable_reasons import UnremovableReason
from slackwater.runtime.autoscaler.slack_planning import Planned, SlackPlan
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.replica import SnapshotReplica


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDownInquiry:
    """What is to be planned. `revocable` are nodes whose removal can still be given up, and when it began. `replicas`: how many
    pods controllers want; those of other kinds are not among them."""

    state: ScaleDownState
    policy: ScaleDownPolicy
    timeout_seconds: float
    revocable: Mapping[NodeName, UnixTime] = field(default_factory=dict)
    replicas: Targets = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDownProposal:
    """`given_up`: further nodes whose removal is to be given up, since pods need their room. `reasons`: how many nodes stay for
    each. `seconds`: how long planning took."""

    plan: ScaleDownPlan
    given_up: tuple[NodeName, ...]
    reasons: Mapping[UnremovableReason, int]
    seconds: float


def room_needed_again(replica: SnapshotReplica, inquiry: ScaleDownInquiry, scale_up: ScaleUpPlan) -> tuple[NodeName, ...]:
    """Nodes whose removal is to be given up for pods that the plan of growth found no place for on nodes that are there."""
    homeless = [pod for planned in scale_up.scale_ups for pod in planned.pods]
    homeless += [pod for unhelpable in scale_up.unhelpable for pod in unhelpable.pods]
    if not homeless or not inquiry.revocable:
        return ()
    with replica.without_below(inquiry.policy.rules.priority_cutoff) as counted, settled(replica.snapshot, scale_up):
        planning_input = PlanningInput(snapshot=replica.snapshot, standing=counted, groups={}, group_of={})
        return room_in_leaving(planning_input, inquiry.revocable, homeless)


@contextmanager
def staying(replica: SnapshotReplica, names: tuple[NodeName, ...]) -> Iterator[None]:
    """The snapshot as it will be once the removals of these nodes are given up."""
    with replica.snapshot.fork():
        for name in names:
            if name in replica.nodes:
                replica.snapshot.put_node(replica.row_of(name), kept_after_all(replica.nodes[name]))
        yield


def propose_scale_down(
    replica: SnapshotReplica,
    inquiry: ScaleDownInquiry,
    group_status: Mapping[GroupName, NodeGroupStatus],
    found: Planned,
    given_up: tuple[NodeName, ...],
    *,
    now: UnixTime,
) -> ScaleDownProposal:
    """The snapshot is as before afterwards."""
    began, state = time.monotonic(), inquiry.state
    for name in given_up:
        state = state.ended(name)

    def over() -> bool:
        return inquiry.timeout_seconds > 0 and time.monotonic() - began > inquiry.timeout_seconds

    known = {name: each for name, each in group_status.items() if each.known}
    starting = {name for each in known.values() for name in each.starting}
    membership = Membership(each.group for each in known.values())
    members = ((name, membership.group_of(node)) for name, node in replica.nodes.items() if name not in starting)
    snapshot, cutoff = replica.snapshot, inquiry.policy.rules.priority_cutoff
    with replica.without_below(cutoff) as counted, settled(snapshot, found.plan) as arriving:
        planning_input = PlanningInput(
            snapshot=snapshot,
            standing=counted,
            groups={name: each.group for name, each in known.items()},
            group_of={name: group for name, group in members if group is not None},
            budgets=replica.budgets,
            replicas=inquiry.replicas,
            arriving=arriving,
            pending=tuple(replica.pending.values()),
            placeholders=standing_there(snapshot, found.slack),
        )
        plan = plan_scale_down(state, planning_input, inquiry.policy, now=now, stop=over)
    homeless = plan.homeless
    more = homeless is not None and homeless.node in inquiry.revocable and homeless.node not in given_up
    return ScaleDownProposal(
        plan=plan,
        given_up=(homeless.node,) if homeless is not None and more else (),
        reasons=plan.reasons,
        seconds=time.monotonic() - began,
    )


def standing_there(snapshot: ClusterSnapshot, slack: SlackPlan | None) -> tuple[Pod, ...]:
    """Placeholders on nodes that exist: for those on their way no node has to stay."""
    if slack is None:
        return ()
    found = slack.state.placeholders
    return tuple(each.pod for each in found if each.place is not None and snapshot.facts.live_row(each.place) is not None)


@contextmanager
def settled(snapshot: ClusterSnapshot, scale_up: ScaleUpPlan) -> Iterator[frozenset[NodeName]]:
    """A trial with the pods that fit where the plan of growth saw them; given are their nodes, those that exist.

    Whoever plans removals, in the loop or on a file, has pending pods counted here alone.
    """
    arriving = set()
    with snapshot.fork():
        for pod, name in scale_up.schedulable:
            row = snapshot.facts.live_row(name)
            if row is not None:
                snapshot.place(snapshot.kind_id(pod.kind, pod.labels), row)
                arriving.add(name)
        yield frozenset(arriving)


def without_candidates(state: ScaleDownState) -> ScaleDownState:
    """Something is wrong with the cluster as a whole: nobody is a candidate until it is well again."""
    return replace(state, candidate_set={}, unreached={})
