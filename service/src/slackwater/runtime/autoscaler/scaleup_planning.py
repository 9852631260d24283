"""Plans scale-up on a replica: turns the status of node groups and the cluster's nodes into the groups of
`controllers.scaleup`.

`ReplicaScaleUpPlanner` keeps between loops: the node on which each pod was found to fit (hints), the last template node of each
group, and the state of slack. Deliberately absent: the rules of planning.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Final

from msgspec import structs

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.scaleup.failures import failed_group, failure_of
from slackwater.controllers.scaleup.groups import GrowableGroup, SkipKind, SkipReason, Template
from slackwater.controllers.scaleup.outcome import PlanFailure, SkippedPod
from slackwater.controllers.scaleup.pending import Demand, pending_demand
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.scaleup.template import attaching, template_of
from slackwater.controllers.scaleup.template_devices import awaits_slices, publishing, usual_slices
from slackwater.controllers.slack.headroom_demand import HeadroomDemand, asking_now
from slackwater.controllers.slack.planning_input import example_pods
from slackwater.controllers.slack.policy import PPM, SlackPolicy
from slackwater.controllers.slack.running_pod_requests import RunningPodRequests
from slackwater.controllers.slack.slo_sizing import NO_SLOS, size_for_slos
from slackwater.controllers.slack.state import SlackState
from slackwater.fit.plugins.taint_toleration import tolerated
from slackwater.model.devices import ResourceSlice
from slackwater.model.ids import NodeName, PodUid, UnixTime
from slackwater.model.kubernetes_rules import Rule
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node, Pod
from slackwater.model.pod_constraints import Kind
from slackwater.model.start_time_slo import Observed
from slackwater.runtime.autoscaler.kept_room import put_kept_room
from slackwater.runtime.autoscaler.planning import Inquiry, ScaleUpRules
from slackwater.runtime.autoscaler.slack_planning import LoopPlans, SlackInquiry, plan_with_slack
from slackwater.snapshot.snapshot_replica import SnapshotReplica

#: How many seconds after its creation a ready node without its devices counts as upcoming, because a driver may still publish
#: them.
_PUBLISHED_WITHIN: Final = 900.0
_Slices = Mapping[NodeName, Sequence[ResourceSlice]]


def leads_of(
    observed: Sequence[Observed],
    groups: Sequence[GrowableGroup],
    starts: Mapping[GroupName, Sequence[float]],
    policy: SlackPolicy,
    *,
    comparing: bool = False,
) -> dict[str, int]:
    """The lead time of each pod class in whole seconds: the time from when a node is needed until it takes pods.

    It is the longest start time of the groups whose nodes fit the class, plus the time until the next plan is made. `starts`:
    the start times in seconds of each group's last nodes. `comparing`: the cluster supports the toleration operators Gt and Lt.
    """

    def start_seconds(seen: Observed) -> float:
        kinds = [share.kind for share in seen.mix]
        ours = [group.name for group in groups if any(_takes(group, kind, comparing) for kind in kinds)]
        return _start_seconds(seen, ours, starts, policy)

    return {each.of.name: ceil(start_seconds(each) + policy.scan_interval) for each in observed}


def _start_seconds(
    seen: Observed, ours: Sequence[GroupName], starts: Mapping[GroupName, Sequence[float]], policy: SlackPolicy
) -> float:
    known = [_at_share(starts[name], seen.of.share_ppm) for name in ours if starts.get(name)]
    return max(known, default=policy.node_start_seconds)


def _at_share(seconds: Sequence[float], share_ppm: int) -> float:
    """The percentile `share_ppm` (in millionths) of the durations: the smallest one that at least this share does not
    exceed."""
    return sorted(seconds)[-(-len(seconds) * share_ppm // PPM) - 1]


def _takes(group: GrowableGroup, kind: Kind, comparing: bool) -> bool:
    """Could a new node of the group take a pod of the class, by labels, taints and room? The plan checks the rest."""
    if group.template is None:
        return False
    node = group.template.node
    hard = [taint for taint in node.taints if taint.effect in {"NoSchedule", "NoExecute"}]
    return (
        kind.requests.within(node.allocatable)
        and all(node.labels.get(key) == value for key, value in kind.node_selector)
        and all(tolerated(taint, kind.tolerations, comparing=comparing) for taint in hard)
    )


class ReplicaScaleUpPlanner:
    """Makes the scale-up and slack plans of each inquiry. Implements `runtime.autoscaler.planning.ScaleUpPlanner`. `clock` is
    read at each step of a plan."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slack_state = SlackState()
        self._slos = NO_SLOS
        self._hints: Mapping[PodUid, NodeName] = {}
        self._templates: dict[GroupName, Node] = {}
        #: The devices of bought nodes, which the replica forgets when the nodes go.
        self._bought_slices: _Slices = {}

    def __call__(self, replica: SnapshotReplica, inquiry: Inquiry) -> LoopPlans:
        policy = inquiry.rules.policy
        demand = _demand(replica, inquiry.now, inquiry.rules)
        every = inquiry.group_status.values()
        bought = (_bought_slices(replica, status, self._bought_slices, inquiry.now) for status in every)
        self._bought_slices = {name: slices for found in bought for name, slices in found.items()}
        failures: list[PlanFailure] = []
        groups = [self._group(replica, group_status, inquiry, failures) for group_status in every]
        slack = self._slack(replica, inquiry, groups, failures)
        running_pods = [pod for group in groups if group.template is not None for pod in group.template.running_pods]
        kept = [each.pod for each in replica.kept_room]
        replica.learn([*running_pods, *example_pods(() if slack is None else slack.headroom.pod_headroom), *kept])
        snapshot = replica.snapshot
        # Expendable pods do not keep room from pods that preempt, because kube-scheduler preempts them.
        with replica.yielding_below(policy.pending.expendable_pods_priority_cutoff) as counted:
            for group_status, group in zip(inquiry.group_status.values(), groups, strict=True):
                leave_out(replica, group_status, group, inquiry.now)
            put_kept_room(replica)
            if slack is None:
                plan = plan_scale_up(snapshot, demand, groups, policy=policy, clock=self._clock, hints=self._hints)
                found = LoopPlans(plan=plan)
            else:
                found = plan_with_slack(
                    snapshot,
                    demand,
                    groups,
                    policy=policy,
                    clock=self._clock,
                    slack=slack,
                    pod_requests=RunningPodRequests(counted),
                    hints=self._hints,
                )
        if found.slack is not None:
            self._slack_state = found.slack.state
        elif inquiry.rules.slack is None:
            self._slack_state = SlackState()
        self._hints = {pod.uid: name for pod, name in found.plan.schedulable}
        for failure in failures:
            found = found.without(failure)
        return found

    def _slack(
        self, replica: SnapshotReplica, inquiry: Inquiry, groups: Sequence[GrowableGroup], failures: list[PlanFailure]
    ) -> SlackInquiry | None:
        """What to plan for slack; None if slack is off, or if an error, which is added to `failures`, keeps it from being
        planned."""
        policy = inquiry.rules.slack
        if policy is None:
            return None
        try:
            headroom = self._headroom(replica, inquiry, policy, groups)
        except Exception as error:
            failures.append(failure_of("slack", "headroom", error))
            return None
        return SlackInquiry(policy=policy, now=inquiry.now, headroom=headroom, state=self._slack_state)

    def _headroom(
        self, replica: SnapshotReplica, inquiry: Inquiry, slack: SlackPolicy, groups: Sequence[GrowableGroup]
    ) -> HeadroomDemand:
        starts = {name: group_status.starts for name, group_status in inquiry.group_status.items()}
        comparing = replica.snapshot.follows(Rule.COMPARING_TOLERATIONS)
        leads = leads_of(inquiry.observed, groups, starts, slack, comparing=comparing)
        self._slos = size_for_slos(inquiry.observed, leads, self._slos, unneeded_seconds=slack.unneeded_time)
        return asking_now(replica, inquiry.headroom_requests).with_slos(self._slos)

    def _group(
        self, replica: SnapshotReplica, group_status: NodeGroupStatus, inquiry: Inquiry, failures: list[PlanFailure]
    ) -> GrowableGroup:
        """The input for one group. An error, which is added to `failures`, keeps only this group from growing."""
        known = self._templates.get(group_status.name)
        try:
            found = growable_group(
                replica,
                group_status,
                inquiry.barred.get(group_status.name),
                daemons=inquiry.daemons,
                policy=inquiry.rules.policy,
                now=inquiry.now,
                known=known,
                bought_slices=self._bought_slices,
            )
        except Exception as error:
            failures.append(failure_of("group", f"node group {group_status.name}", error))
            return failed_group(GrowableGroup(group=group_status.group, template=None), error)
        if found.template is not None and any(name in replica.nodes for name in group_status.ready):
            self._templates[group_status.name] = found.template.node
        return found


def _demand(replica: SnapshotReplica, now: UnixTime, rules: ScaleUpRules) -> Demand:
    """The pending pods to plan for, without those for which our own filter rejects every node, because no new node would
    help."""
    strict_for = rules.strict_for
    hopeless = [
        SkippedPod(pod=pod, why=f"refused on every node: no request for {pod.kind.missing_request}")
        for pod in replica.pending.values()
        if pod.kind.missing_request is not None and pod.kind.scheduler_name == strict_for
    ]
    passed = {found.pod.uid for found in hopeless}
    pods = (pod for pod in replica.pending.values() if pod.uid not in passed)
    pending = rules.policy.pending
    preemptible = replica.lowest_priority(pending.expendable_pods_priority_cutoff)
    demand = pending_demand(pods, rules=pending, now=now, reserved=replica.awaiting_victims, preemptible=preemptible)
    return replace(demand, passed_over=(*hopeless, *demand.passed_over)) if hopeless else demand


def growable_group(
    replica: SnapshotReplica,
    group_status: NodeGroupStatus,
    why_not: str | None,
    *,
    daemons: Sequence[Pod],
    policy: ScaleUpPolicy,
    now: UnixTime | None = None,
    known: Node | None = None,
    bought_slices: _Slices | None = None,
) -> GrowableGroup:
    """The input of scale-up for one group, with a template node. `why_not`: why the group may not grow, by its status; None if
    it may. `known`: the last template node of the group, used if the provider gives none. `bought_slices`: the
    devices of bought nodes that are gone. `now`: if None, ready nodes without
    their devices do not count as upcoming."""
    group = group_status.group
    nodes = [replica.nodes[name] for name in group_status.ready if name in replica.nodes]
    if group.template is None and not nodes:
        group = replace(group, template=known)

    def pods_on(name: NodeName) -> Iterable[Pod]:
        return (running.pod for running in replica.on(replica.row_of(name))) if name in replica.nodes else ()

    template = template_of(
        group,
        nodes,
        pods_on=pods_on,
        bought=group_status.bought,
        daemons=daemons,
        system=policy.system,
        taints=policy.taints,
        kubernetes=replica.snapshot.facts.kubernetes,
    )
    csi_nodes = replica.snapshot.volumes.objects.csi_nodes or {}
    said = (None if group.template is None else group.template.csi) or (None if known is None else known.csi)
    template = attaching(template, [csi_nodes[name] for name in group_status.ready if name in csi_nodes], said=said)
    said_slices = (() if group.template is None else group.template.slices) or (() if known is None else known.slices)
    published = replica.snapshot.devices.published
    template = publishing(template, published, group_status.ready, said=said_slices)
    came = _bought_slices(replica, group_status, bought_slices or {}, now)
    if template is not None and came:
        template = replace(template, node=structs.replace(template.node, slices=usual_slices(list(came.values()))))
    return GrowableGroup(
        group=group_status.group,
        template=template,
        upcoming=group_status.upcoming + len(_without_slices(replica, group_status, template, now)),
        skip_reason=skip_reason_of(group_status, why_not),
        dead=group_status.dead,
    )


def _bought_slices(replica: SnapshotReplica, group_status: NodeGroupStatus, before: _Slices, now: UnixTime | None) -> _Slices:
    """The ResourceSlices of the group's bought nodes; of nodes that are gone, those of `before`. Nodes of which it is not known
    yet whether they will publish any are absent."""
    published, found = replica.snapshot.devices.published, dict[NodeName, Sequence[ResourceSlice]]()
    for name in (each.node.name for each in group_status.bought):
        node = replica.nodes.get(name)
        if name in published:
            found[name] = published[name]
        elif node is not None and now is not None and not _is_new(node, now):
            found[name] = ()
        elif node is None and name in before:
            found[name] = before[name]
    return found


def _without_slices(
    replica: SnapshotReplica, group_status: NodeGroupStatus, template: Template | None, now: UnixTime | None
) -> list[NodeName]:
    """The group's new, ready nodes whose devices are not published yet. Nodes that are not new count as nodes without
    devices."""
    if template is None or not template.node.slices:
        return []
    published, nodes = replica.snapshot.devices.published, replica.nodes
    ready = (name for name in group_status.ready if name in nodes and _is_new(nodes[name], now))
    return [name for name in ready if awaits_slices(nodes[name], template.node, published)]


def _is_new(node: Node, now: UnixTime | None) -> bool:
    return now is not None and node.created_at is not None and now - node.created_at < _PUBLISHED_WITHIN


def leave_out(replica: SnapshotReplica, group_status: NodeGroupStatus, group: GrowableGroup, now: UnixTime) -> None:
    """Excludes the group's nodes that have registered but not started from the snapshot, because they count as upcoming
    nodes."""
    for name in (*group_status.starting, *_without_slices(replica, group_status, group.template, now)):
        if name in replica.nodes:
            replica.snapshot.close(replica.row_of(name))


def skip_reason_of(group_status: NodeGroupStatus, why: str | None) -> SkipReason | None:
    """The skip reason for a group that may not grow. `why`: the text of the group's status; None (also as the result): it may
    grow."""
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
