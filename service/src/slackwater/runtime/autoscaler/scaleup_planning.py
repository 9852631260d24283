"""Plans scale-up on a replica: turns the status of node groups and the cluster's nodes into the groups of
`controllers.scaleup`.

Kept between loops: the nodes that pods were found to fit on (hints), the last known node of each group, and the state of slack.
Deliberately absent: the rules of planning.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.scaleup.attaching import attaching
from slackwater.controllers.scaleup.groups import GrowableGroup, SkipKind, SkipReason
from slackwater.controllers.scaleup.outcome import PassedOver
from slackwater.controllers.scaleup.pending import Demand, which_count
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.scaleup.template import template_of
from slackwater.controllers.slack.pod_headroom import specimens
from slackwater.controllers.slack.rule import PPM, SlackPolicy
from slackwater.controllers.slack.slo_sizing import NO_PROMISES, promised
from slackwater.controllers.slack.state import SlackState
from slackwater.fit.filter.taint_toleration import tolerated
from slackwater.model.equivalence import Kind
from slackwater.model.ids import NodeName, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node, Pod
from slackwater.model.promises import Observed
from slackwater.runtime.autoscaler.headroom import Asking, asking_now
from slackwater.runtime.autoscaler.planning import Inquiry, ScaleUpRules
from slackwater.runtime.autoscaler.slack_planning import Planned, SlackInquiry, plan_with_slack
from slackwater.runtime.autoscaler.tenancy import RunningPodRequests
from slackwater.snapshot.replica import SnapshotReplica


def leads_of(
    observed: Sequence[Observed],
    groups: Sequence[GrowableGroup],
    starts: Mapping[GroupName, Sequence[float]],
    policy: SlackPolicy,
) -> dict[str, int]:
    """The lead time of each pod class in whole seconds: the start time of a node plus the time that a plan takes."""
    return {each.of.name: ceil(_start_seconds(each, groups, starts, policy) + policy.loop_seconds) for each in observed}


def _start_seconds(
    seen: Observed, groups: Sequence[GrowableGroup], starts: Mapping[GroupName, Sequence[float]], policy: SlackPolicy
) -> float:
    kinds = [share.kind for share in seen.mix]
    ours = [group.name for group in groups if any(_takes(group, kind) for kind in kinds)]
    known = [_at_share(starts[name], seen.of.share_ppm) for name in ours if starts.get(name)]
    return max(known, default=policy.node_start_seconds)


def _at_share(seconds: Sequence[float], share_ppm: int) -> float:
    """The smallest of the durations that at least `share_ppm` millionths of them do not exceed."""
    return sorted(seconds)[-(-len(seconds) * share_ppm // PPM) - 1]


def _takes(group: GrowableGroup, kind: Kind) -> bool:
    """Could a new node of the group take such a pod, by labels, taints and room? The plan checks the other constraints."""
    if group.template is None:
        return False
    node = group.template.node
    hard = [taint for taint in node.taints if taint.effect in {"NoSchedule", "NoExecute"}]
    return (
        kind.requests.within(node.allocatable)
        and all(node.labels.get(key) == value for key, value in kind.node_selector)
        and all(tolerated(taint, kind.tolerations) for taint in hard)
    )


class ReplicaScaleUpPlanner:
    """Implements `runtime.autoscaler.planning.ScaleUpPlanner`: makes the scale-up and slack plans of each inquiry."""

    def __init__(self) -> None:
        self._slack_state = SlackState()
        self._promised = NO_PROMISES
        self._hints: Mapping[PodUid, NodeName] = {}
        self._templates: dict[GroupName, Node] = {}

    def __call__(self, replica: SnapshotReplica, inquiry: Inquiry) -> Planned:
        policy, slack = inquiry.rules.policy, inquiry.rules.slack
        demand = _demand(replica, inquiry.now, inquiry.rules)
        groups = [self._group(replica, group_status, inquiry, policy) for group_status in inquiry.group_status.values()]
        standing = [pod for group in groups if group.template is not None for pod in group.template.standing]
        asking = Asking() if slack is None else self._asking(replica, inquiry, slack, groups)
        replica.learn([*standing, *specimens(asking.pod_headroom)])
        snapshot = replica.snapshot
        # Expendable pods do not block other pods, because kube-scheduler preempts them.
        with replica.without_below(policy.pending.priority_cutoff) as counted:
            for group_status in inquiry.group_status.values():
                _leave_out(replica, group_status)
            if slack is None:
                plan = plan_scale_up(snapshot, demand, groups, policy=policy, clock=time.monotonic, hints=self._hints)
                found = Planned(plan=plan)
            else:
                found = plan_with_slack(
                    snapshot,
                    demand,
                    groups,
                    policy=policy,
                    clock=time.monotonic,
                    slack=SlackInquiry(policy=slack, now=inquiry.now, asking=asking, state=self._slack_state),
                    pod_requests=RunningPodRequests(counted),
                    hints=self._hints,
                )
        self._slack_state = SlackState() if found.slack is None else found.slack.state
        self._hints = {pod.uid: name for pod, name in found.plan.schedulable}
        return found

    def _asking(
        self, replica: SnapshotReplica, inquiry: Inquiry, slack: SlackPolicy, groups: Sequence[GrowableGroup]
    ) -> Asking:
        starts = {name: group_status.starts for name, group_status in inquiry.group_status.items()}
        leads = leads_of(inquiry.observed, groups, starts, slack)
        self._promised = promised(inquiry.observed, leads, self._promised, unneeded_seconds=slack.unneeded_seconds)
        return asking_now(replica, inquiry.headroom_requests).with_promises(self._promised)

    def _group(
        self, replica: SnapshotReplica, group_status: NodeGroupStatus, inquiry: Inquiry, policy: ScaleUpPolicy
    ) -> GrowableGroup:
        known = self._templates.get(group_status.name)
        found = growable_group(
            replica,
            group_status,
            inquiry.barred.get(group_status.name),
            daemons=inquiry.daemons,
            policy=policy,
            known=known,
        )
        if found.template is not None and any(name in replica.nodes for name in group_status.ready):
            self._templates[group_status.name] = found.template.node
        return found


def _demand(replica: SnapshotReplica, now: UnixTime, rules: ScaleUpRules) -> Demand:
    """The pending pods to plan for. Passes over pods that our own filter refuses on every node, because no new node helps."""
    strict_for = rules.strict_for
    hopeless = [
        PassedOver(pod=pod, why=f"refused on every node: no request for {pod.kind.missing_request}")
        for pod in replica.pending.values()
        if pod.kind.missing_request is not None and pod.kind.scheduler_name == strict_for
    ]
    passed = {found.pod.uid for found in hopeless}
    pods = (pod for pod in replica.pending.values() if pod.uid not in passed)
    pending = rules.policy.pending
    preemptible = replica.lowest_priority(pending.priority_cutoff)
    demand = which_count(pods, rules=pending, now=now, reserved=replica.promised, preemptible=preemptible)
    return replace(demand, passed_over=(*hopeless, *demand.passed_over)) if hopeless else demand


def growable_group(
    replica: SnapshotReplica,
    group_status: NodeGroupStatus,
    why_not: str | None,
    *,
    daemons: Sequence[Pod],
    policy: ScaleUpPolicy,
    known: Node | None = None,
) -> GrowableGroup:
    """The input of scale-up for one group, with a template node. `why_not`: why the group may not grow, by its status; None if
    it may. `known`: the last known node of the group, used if the provider gives no template."""
    group = group_status.group
    if group.template is None and known is not None:
        group = replace(group, template=known)
    template = template_of(
        group,
        [replica.nodes[name] for name in group_status.ready if name in replica.nodes],
        pods_on=lambda name: (running_pod.pod for running_pod in replica.on(replica.row_of(name))),
        daemons=daemons,
        system=policy.system,
        taints=policy.taints,
    )
    csi_nodes = replica.snapshot.volumes.objects.csi_nodes or {}
    said = (None if group.template is None else group.template.csi) or (None if known is None else known.csi)
    template = attaching(template, [csi_nodes[name] for name in group_status.ready if name in csi_nodes], said=said)
    return GrowableGroup(
        group=group_status.group,
        template=template,
        upcoming=group_status.upcoming,
        skip_reason=skip_reason_of(group_status, why_not),
    )


def _leave_out(replica: SnapshotReplica, group_status: NodeGroupStatus) -> None:
    """Closes the group's nodes that have registered but not started, because they count as upcoming nodes already."""
    for name in group_status.starting:
        if name in replica.nodes:
            replica.snapshot.close(replica.row_of(name))


def skip_reason_of(group_status: NodeGroupStatus, why: str | None) -> SkipReason | None:
    """The skip reason for `why`, the text of the group's status; None for None."""
    if why is None:
        return None
    kind: SkipKind = "not-ready"
    if group_status.off:
        kind = "switched-off"
    elif group_status.backoff is not None and why.startswith("backing off"):
        kind = "backoff"
    elif group_status.group.target >= group_status.group.max_size:
        kind = "limit"
    return SkipReason(kind=kind, text=why)
