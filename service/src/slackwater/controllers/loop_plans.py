"""Makes all plans of one loop of the autoscaler (`PlanMaker`), on the one replica of the cluster.

The loop makes an `Inquiry`: the changes of the cluster, and its own state. The answers are `Plans`, then the
`ScaleDownProposal` and last the `ConsolidationPlan` of the same inquiry. All are planned one after the other on one snapshot.
The loop requests scale-down separately, so that scale-up never waits for it; consolidation takes longest, and is planned by a
child of the planning process, so that no later plan waits for it. Deliberately absent: acting on the plans, the planning
process (`runtime.planner`), and the rules of planning.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.consolidation.loop import ConsolidationInquiry
from slackwater.controllers.consolidation.outcome import ConsolidationPlan
from slackwater.controllers.consolidation.replica_plan import propose_consolidation
from slackwater.controllers.scaledown.replica_plan import (
    ScaleDownInquiry,
    ScaleDownProposal,
    drains_to_roll_back,
    propose_scale_down,
    put_kept_room,
    with_drains_rolled_back,
)
from slackwater.controllers.scaleup.coming_nodes import NO_COMING, announced, coming_nodes, hints_of
from slackwater.controllers.scaleup.costs import GroupCost, group_costs
from slackwater.controllers.scaleup.groups import GrowableGroup, SkipReason
from slackwater.controllers.scaleup.growable_groups import bought_slices_of, growable_groups, known_template, leave_out
from slackwater.controllers.scaleup.outcome import PlanFailure, ScaleUp, ScaleUpPlan, SkippedPod, failed_group, failure_of
from slackwater.controllers.scaleup.pending import Demand, pending_demand
from slackwater.controllers.scaleup.plan_events import Announcer, not_triggered
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.scaleup.template import Slices
from slackwater.controllers.scaleup.variants import merged
from slackwater.controllers.slack.headroom_demand import asking_now
from slackwater.controllers.slack.planning_input import example_pods
from slackwater.controllers.slack.policy import SlackPolicy
from slackwater.controllers.slack.scale_up import LoopPlans, SlackInquiry, SlackPlan, plan_with_slack
from slackwater.controllers.slack.slo_sizing import SLORoom, leads_of, size_for_slos
from slackwater.controllers.slack.state import SlackState
from slackwater.model.changes import Changes
from slackwater.model.effects import Announce
from slackwater.model.events import ComingNodes
from slackwater.model.ids import NodeName, PodUid, UnixTime
from slackwater.model.kubernetes_rules import Rule
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node, Pod
from slackwater.model.placeholders import NO_HEADROOM_REQUESTS, HeadroomRequests, is_placeholder
from slackwater.model.start_time_slo import Observed
from slackwater.snapshot.snapshot_replica import SnapshotReplica


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpRules:
    """The configured rules of scale-up. `slack` is None if slack is off. `strict_for` names the scheduler for whose pods our
    filter rejects every node if they lack a request; None: it rejects none for that."""

    policy: ScaleUpPolicy
    slack: SlackPolicy | None = None
    strict_for: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """The input of one loop's plans. `changes`: those of the cluster since the last inquiry. `barred`: the reason of each group
    that may not grow. `daemons`: one pod for each DaemonSet. `headroom_requests`: the API objects that request placeholders.
    `observed`: the arrivals of each pod class with a start-time SLO. `believed`: pods that kube-scheduler keeps refusing on
    present nodes, for which it is believed. `places`: where room is kept for pods, or filter has named a node."""

    changes: Changes
    rules: ScaleUpRules
    group_status: Mapping[GroupName, NodeGroupStatus]
    barred: Mapping[GroupName, str] = field(default_factory=dict)
    daemons: tuple[Pod, ...] = ()
    headroom_requests: HeadroomRequests = NO_HEADROOM_REQUESTS
    observed: tuple[Observed, ...] = ()
    believed: frozenset[PodUid] = frozenset()
    places: Mapping[PodUid, NodeName] = field(default_factory=dict)
    now: UnixTime
    #: None: no scale-down is planned.
    scale_down: ScaleDownInquiry | None = None
    #: None: no consolidation is planned.
    consolidation: ConsolidationInquiry | None = None


#: What a plan finds for a pending pod, as fields of `PendingCounts`.
OUTCOMES: Final = ("helped", "schedulable", "unhelpable", "passed_over", "not_looked_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCounts:
    """The numbers of pending pods by what the plan found; each pod counts once.

    `helped`: new nodes are planned for them. `schedulable`: they fit on existing or upcoming nodes. `unhelpable`: no group
    helps. `passed_over`: not planned for now (too young, gated, room is kept already ...). `not_looked_at`: beyond the limit.
    `limited`: by group, how many of the unhelpable pods a new node of the group would take if its limit allowed one.
    """

    helped: int = 0
    schedulable: int = 0
    unhelpable: int = 0
    passed_over: int = 0
    not_looked_at: int = 0
    limited: Mapping[GroupName, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(getattr(self, outcome) for outcome in OUTCOMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """The answer to an inquiry. Pods that no group helps may be tens of thousands, so the loop gets only their Events and their
    number.

    `refused` are the Events for pods that no group helps, `left_out` the number of further such Events. `failures`: what was
    left out of the plan because of an error. `again_at`: when pods that are too young now are old enough; None if there are
    none. `given_up`: nodes whose drain is to be rolled back, because pods need their room. `notes`: remarks about the planning
    process for the status, such as a restart. `costs`: what each group costs; empty without prices. `coming`: the new nodes
    that are on their way or planned, whose room is kept for their pods (`ScaleUpPolicy.place_as_planned`).
    """

    scale_ups: tuple[ScaleUp, ...] = ()
    pending: PendingCounts = field(default_factory=PendingCounts)
    refused: tuple[Announce, ...] = ()
    left_out: int = 0
    failures: tuple[PlanFailure, ...] = ()
    again_at: UnixTime | None = None
    slack: SlackPlan | None = None
    given_up: tuple[NodeName, ...] = ()
    notes: tuple[str, ...] = ()
    costs: Mapping[GroupName, GroupCost] = field(default_factory=dict)
    coming: tuple[ComingNodes, ...] = ()


class PlanMaker:
    """Makes all plans, on a replica that it keeps up to date with the changes of each inquiry. `clock` is read at each step of
    a plan.

    It keeps between loops: the node on which each pod was found to fit (hints), the pods that a limit cut off the last plan,
    the last template node of each group, and the state of slack.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begins with an empty replica."""
        self._clock = clock
        self._announcer = Announcer()
        self.replica = SnapshotReplica()
        self._slack_state = SlackState()
        self._slos: Mapping[str, SLORoom] = {}
        self._hints: dict[PodUid, NodeName] = {}
        self._coming = NO_COMING
        self._cut_off: Mapping[PodUid, int] = {}
        self._templates: dict[GroupName, Node] = {}
        #: The groups of the last plan.
        self._groups: list[GrowableGroup] = []
        #: The scale-ups of the last plan, those of variants apart.
        self._scale_ups: tuple[ScaleUp, ...] = ()
        #: The devices of bought nodes, which the replica forgets when the nodes go.
        self._bought_slices: Slices = {}
        #: The input of the scale-down plan: the inquiry, and the plans made before, with the drains that they roll back.
        self._planned: tuple[Inquiry, LoopPlans, tuple[NodeName, ...]] | None = None

    def forget(self) -> None:
        """Discards the replica; the next inquiry has to contain the whole cluster."""
        self.replica, self._planned = SnapshotReplica(), None

    def make(self, inquiry: Inquiry) -> Plans:
        """Applies the changes to the replica, and plans scale-up and slack. If drains are to be rolled back for pods, plans a
        second time with their nodes available."""
        replica, self._planned = self.replica, None
        replica.take(inquiry.changes)
        found, given_up = self._scale_up(inquiry), tuple[NodeName, ...]()
        if inquiry.scale_down is not None:
            replica.learn([eviction.pod for eviction in inquiry.scale_down.state.recent_evictions], more=True)
            try:
                given_up = drains_to_roll_back(replica, inquiry.scale_down, found.plan)
            except Exception as error:  # nodes are bought although a drain could be given up: better than none for anybody
                found = found.without(failure_of("drains", "drains to roll back", error))
        if given_up:
            with with_drains_rolled_back(replica, given_up):
                found = self._scale_up(inquiry)
        self._planned = inquiry, found, given_up
        return replace(self._answer(found, given_up, inquiry.now), costs=self._costs(inquiry))

    def scale_down(self) -> ScaleDownProposal | None:
        """The scale-down plan for the last inquiry; None if this inquiry requested none, or failed, or was forgotten. None too
        if slack was not planned because of an error: it is then unknown which nodes are kept for it."""
        if self._planned is None:
            return None
        inquiry, found, given_up = self._planned
        if inquiry.scale_down is None or any(failure.part == "slack" for failure in found.plan.failures):
            return None
        evictions = [eviction.pod for eviction in inquiry.scale_down.state.recent_evictions]
        self.replica.learn(evictions, more=True)  # the second scale-up plan may have replaced them
        with with_drains_rolled_back(self.replica, given_up):
            proposal = propose_scale_down(
                self.replica,
                inquiry.scale_down,
                inquiry.group_status,
                found,
                given_up,
                now=inquiry.now,
                clock=self._clock,
            )
        return replace(proposal, consolidates=inquiry.consolidation is not None and not _grows(inquiry, found))

    def consolidation(self, clock: Callable[[], float]) -> ConsolidationPlan:
        """The consolidation plan for the last inquiry, whose scale-down plan says that there is one (`consolidates`). `clock`
        is read at each step of this plan."""
        assert self._planned is not None, "scale-down is planned first"
        inquiry, found, given_up = self._planned
        prices = inquiry.rules.policy.prices
        assert inquiry.consolidation is not None
        assert inquiry.scale_down is not None
        assert prices is not None, "consolidation needs prices, those of the formula at least"
        with with_drains_rolled_back(self.replica, given_up):
            return propose_consolidation(
                self.replica,
                inquiry.consolidation,
                inquiry.scale_down,
                found,
                scale_up=inquiry.rules.policy,
                prices=prices,
                group_status=inquiry.group_status,
                groups=self._groups,
                now=inquiry.now,
                clock=clock,
            )

    def _answer(self, found: LoopPlans, given_up: tuple[NodeName, ...], now: UnixTime) -> Plans:
        plan, cuts = found.plan, () if found.slack is None else found.slack.cuts_of_headroom
        limited = (
            Announce(cut.pod.uid, cut.pod.key, "Warning", "SlackLimited", cut.text)
            for cut in cuts
            if cut.pod is not None and cut.pod.uid
        )
        refused, left_out = self._announcer.select((*not_triggered(plan.unhelpable), *limited), now)
        return Plans(
            scale_ups=plan.scale_ups,
            pending=_counts(plan, {group.name: group.owner for group in self._groups}),
            refused=tuple(refused),
            left_out=left_out,
            failures=plan.failures,
            again_at=plan.again_at,
            slack=found.slack,
            given_up=given_up,
            coming=announced(self._coming, self._groups),
            notes=()
            if plan.cut_by is None
            else (f"a limit on {plan.cut_by} ended the scale-up plan after {plan.steps} steps",),
        )

    def _costs(self, inquiry: Inquiry) -> dict[GroupName, GroupCost]:
        prices, nodes = inquiry.rules.policy.prices, self.replica.nodes
        if prices is None:
            return {}
        of_group = {
            name: [nodes[node] for node in (*each.ready, *each.unready, *each.starting) if node in nodes]
            for name, each in inquiry.group_status.items()
        }
        return group_costs(prices, self._groups, self._scale_ups, of_group)

    def _scale_up(self, inquiry: Inquiry) -> LoopPlans:
        """The scale-up and slack plans."""
        replica, policy = self.replica, inquiry.rules.policy
        demand = replace(_demand(replica, inquiry.now, inquiry.rules), disputed=inquiry.believed, cut_off=self._cut_off)
        every = inquiry.group_status.values()
        bought = (bought_slices_of(replica, status, self._bought_slices, inquiry.now) for status in every)
        self._bought_slices = {name: slices for found in bought for name, slices in found.items()}
        failures: list[PlanFailure] = []
        variants = [self._group(group_status, inquiry, failures) for group_status in every]
        self._groups = groups = list(chain.from_iterable(variants))
        slack = self._slack(inquiry, groups, failures)
        running_pods = [pod for group in groups if group.template is not None for pod in group.template.running_pods]
        kept = [each.pod for each in replica.kept_room]
        replica.learn([*running_pods, *example_pods(() if slack is None else slack.headroom.pod_headroom), *kept])
        ready = {name for group_status in every for name in group_status.ready}
        # Expendable pods do not keep room from pods that preempt, because kube-scheduler preempts them.
        with replica.yielding_below(policy.pending.expendable_pods_priority_cutoff) as counted:
            for group_status, of_group in zip(every, variants, strict=True):
                leave_out(replica, group_status, of_group, inquiry.now)
            put_kept_room(replica)
            found = plan_with_slack(
                replica.snapshot,
                demand,
                groups,
                policy=policy,
                clock=self._clock,
                slack=slack,
                running_pods=counted,
                hints=self._hints | hints_of(self._coming, replica.pending, inquiry.places, ready),
            )
        self._coming = coming_nodes(found.plan, groups) if policy.place_as_planned else NO_COMING
        self._scale_ups, found = found.plan.scale_ups, replace(found, plan=merged(found.plan, groups))
        if found.slack is not None:
            self._slack_state = found.slack.state
        elif inquiry.rules.slack is None:
            self._slack_state = SlackState()
        self._hints = {pod.uid: name for pod, name in found.plan.schedulable}
        cut = (pod.uid for each in found.plan.unhelpable if each.cut for pod in each.pods)
        self._cut_off = {uid: self._cut_off.get(uid, 0) + 1 for uid in cut}
        for failure in failures:
            found = found.without(failure)
        return found

    def _slack(self, inquiry: Inquiry, groups: Sequence[GrowableGroup], failures: list[PlanFailure]) -> SlackInquiry | None:
        """What to plan for slack; None if slack is off, or if an error, which is added to `failures`, keeps it from being
        planned."""
        policy = inquiry.rules.slack
        if policy is None:
            return None
        starts = {name: group_status.starts for name, group_status in inquiry.group_status.items()}
        comparing = self.replica.snapshot.follows(Rule.COMPARING_TOLERATIONS)
        try:
            leads = leads_of(inquiry.observed, groups, starts, policy, comparing=comparing)
            self._slos = size_for_slos(inquiry.observed, leads, self._slos, unneeded_seconds=policy.unneeded_time)
            headroom = asking_now(self.replica, inquiry.headroom_requests).with_slos(self._slos)
        except Exception as error:
            failures.append(failure_of("slack", "headroom", error))
            return None
        return SlackInquiry(policy=policy, now=inquiry.now, headroom=headroom, state=self._slack_state)

    def _group(self, group_status: NodeGroupStatus, inquiry: Inquiry, failures: list[PlanFailure]) -> list[GrowableGroup]:
        """The input for one group, or for each of its variants. An error, which is added to `failures`, keeps only this group
        from growing."""
        known = self._templates.get(group_status.name)
        try:
            found = growable_groups(
                self.replica,
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
            return [failed_group(GrowableGroup(group=group_status.group, template=None), error)]
        template = known_template(found)
        if template is not None and any(name in self.replica.nodes for name in group_status.ready):
            self._templates[group_status.name] = template
        return found


def _grows(inquiry: Inquiry, found: LoopPlans) -> bool:
    """Do pods wait for new nodes, whose needs come first, or are nodes on their way, which would be taken for those of a
    move? Then no consolidation is planned."""
    return bool(found.plan.scale_ups) or any(each.upcoming for each in inquiry.group_status.values())


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


def _counts(plan: ScaleUpPlan, owners: Mapping[GroupName, GroupName]) -> PendingCounts:
    """`owners`: the whole of each variant."""
    limited = Counter[GroupName]()
    for found in plan.unhelpable:
        reasons = found.groups.items() if found.tried else ()
        names = (name for name, why in reasons if isinstance(why, SkipReason) and why.kind == "limit")
        for owner in {owners.get(name, name) for name in names}:
            limited[owner] += len(found.pods)
    return PendingCounts(
        helped=sum(not is_placeholder(pod) for scale_up in plan.scale_ups for pods in scale_up.nodes for pod in pods),
        schedulable=len(plan.schedulable),
        unhelpable=sum(len(found.pods) for found in plan.unhelpable),
        limited=dict(limited),
        passed_over=len(plan.passed_over),
        not_looked_at=len(plan.not_looked_at),
    )
