"""Scale-down's part of the autoscaler's loop: begins the removals that were planned, and reports those that have ended.

    inquiry = shrinking.sense()            # notes what has happened since the last loop; returns what is to be planned
    ...                                    # the plan, in the planner process
    record = shrinking.act(plan, ...)      # gives up removals, begins removals, taints candidates

The state machine continues removals (`state_machine.drains`); `runtime.autoscaler.provider_calls` deletes machines.
Deliberately absent: anything that waits.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal

from slackwater.cluster.nodegroups.registry import NodeGroupRegistry
from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.scaledown.batch import RemovalBatch, RunningRemovals, Status, choose_batch, not_ripe, over_budget
from slackwater.controllers.scaledown.disruption_budgets import GroupDisruptions, disruptions_of
from slackwater.controllers.scaledown.eligibility import backing_off, rechecked_later
from slackwater.controllers.scaledown.policy import ScaleDownPolicy, rules_of
from slackwater.controllers.scaledown.replica_plan import ScaleDownInquiry, ScaleDownProposal, without_candidates
from slackwater.controllers.scaledown.state import (
    NOTHING_REPLACED,
    Eviction,
    Removable,
    Replacing,
    ScaleDownPlan,
    ScaleDownState,
    restored,
    soft_taints,
)
from slackwater.controllers.scaledown.utilization import is_gpu
from slackwater.model.authority import Withholds, withhold_nothing
from slackwater.model.auxiliary import Targets
from slackwater.model.disruption_budgets import DisruptionReason
from slackwater.model.effects import (
    Announce,
    DrainEnd,
    DrainOrder,
    DrainReport,
    Effect,
    FindDestinations,
    Phase,
    PodEvicted,
    RemoveNode,
)
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName, MachineWarning, Membership, NodeGroup
from slackwater.model.objects import Node
from slackwater.model.placeholders import is_placeholder
from slackwater.model.reasons import UnremovableReason
from slackwater.runtime.state_machine import StateMachine

#: Reasons of a rollback that do not count as a failure: the group gets no cool-down.
_NO_FAILURE: Final = frozenset({UnremovableReason.CANCELLED, UnremovableReason.ROOM_NEEDED, UnremovableReason.NO_LONGER_EMPTY})
#: Reasons of a rollback after which the node does not back off: a person's wish, or none of its pods was disturbed.
_NO_BACKOFF: Final = frozenset({UnremovableReason.CANCELLED, UnremovableReason.NO_LONGER_EMPTY, UnremovableReason.TAINT_FAILED})


#: Why a node that others replace is removed, for people.
_REPLACED: Final[Mapping[DisruptionReason, str]] = {
    "Empty": "cheaper ones replace it",
    "Underutilized": "cheaper ones replace it",
    "Drifted": "it is not as new nodes of its group are",
    "Expired": "it is too old",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDownRecord:
    """What one loop saw and did about removals. `unneeded`: removable nodes by group. `reasons`: kept nodes by reason. `begun`:
    nodes whose removal began. `withheld`: removals that would have begun. `under_way`: as in `Drains.under_way`. `evaluated`:
    nodes that the plan tried."""

    status: Status | None = None
    unneeded: Mapping[GroupName, int] = field(default_factory=dict)
    reasons: Mapping[UnremovableReason, int] = field(default_factory=dict)
    begun: tuple[NodeName, ...] = ()
    withheld: tuple[DrainOrder, ...] = ()
    given_up: tuple[NodeName, ...] = ()
    ended: tuple[DrainEnd, ...] = ()
    under_way: tuple[int, int] = (0, 0)
    #: Nodes whose removal is under way, and its phase.
    removals: tuple[tuple[NodeName, Phase], ...] = ()
    #: Groups that may not shrink yet, and why.
    cooling: Mapping[GroupName, str] = field(default_factory=dict)
    #: Groups of which a disruption budget holds nodes back, and which one.
    over_budget: Mapping[GroupName, str] = field(default_factory=dict)
    homeless: str = ""
    evaluated: int = 0
    cut: bool = False
    seconds: float = 0.0


class ScaleDownLoop:
    """Scale-down in the autoscaler's loop; one object for the life of the process. `policy` returns the present settings."""

    def __init__(
        self,
        *,
        state_machine: StateMachine,
        group_registry: NodeGroupRegistry,
        policy: Callable[[], ScaleDownPolicy],
        submit: Callable[[Iterable[Effect]], None],
        clock: Callable[[], Instant],
        steady: Callable[[], UnixTime],
        wall: Callable[[], UnixTime],
        withholds: Withholds = withhold_nothing,
    ) -> None:
        self._withholds = partial(withholds, "scale-down")
        self._state_machine = state_machine
        self._drains = state_machine.drains
        self._group_registry = group_registry
        self._configured = policy
        self._submit = submit
        self._clock = clock
        self._steady = steady
        self._wall = wall
        #: What drains have reported since the last loop.
        self._evictions: list[Eviction] = []
        self._ended_drains: list[DrainEnd] = []
        self._ended: tuple[DrainEnd, ...] = ()
        self.state: ScaleDownState | None = None
        #: The nodes that the last plan kept for placeholders, each with a text.
        self._kept_for_slack: Mapping[NodeName, str] = {}
        #: The removable nodes of the last plan that a disruption budget held, each with a text.
        self._over_budget: Mapping[NodeName, str] = {}

    def take(self, report: DrainReport) -> None:
        """Keeps a report of a drain for the next loop. Others handle the orders to delete machines and to find destinations."""
        match report:
            case PodEvicted(pod):
                self._evictions.append(Eviction(pod, self._steady()))
            case DrainEnd():
                self._ended_drains.append(report)
            case RemoveNode() | FindDestinations():
                pass

    def _policy(self) -> ScaleDownPolicy:
        policy = self._configured()
        return replace(policy, enabled=False) if "scale-down" in self._state_machine.paused else policy

    def warned(self, warning: MachineWarning) -> bool:
        """Begins the removal of a node whose machine stops, or may stop. False if the warning is to be repeated, because
        node groups are not known yet.

        What stops in any case is emptied even if scale-down is off or paused: its pods leave in order, or with their machine.
        """
        groups = self._group_registry.group_status
        if self.state is None or not all(found.answered for found in groups.values()):
            return False
        of = Membership(found.group for found in groups.values())
        node = next((n for _, n in self._state_machine.state.nodes if n.provider_id == warning.machine), None)
        group = None if node is None else of.group_of(node)
        if node is None or group is None or self._withholds(group) is not None:
            return True
        if warning.stops_at is None and (not self._policy().enabled or not groups[group].known):
            return True
        now = self._steady()
        order = DrainOrder(node=node.name, uid=node.uid, group=group, empty=False, stamp=now, stops_at=warning.stops_at)
        self._announce(node.name, node.uid, "Normal", "ScaleDown", f"node is removed, since {warning.text}")
        self._submit(self._state_machine.begin_drains([order], self._clock()))
        self.state = self.state.begun([node.name], now)
        return True

    # --- sense ------------------------------------------------------------------------------------------------------------

    def sense(
        self, group_status: Mapping[GroupName, NodeGroupStatus], replicas: Targets, replacing: Replacing = NOTHING_REPLACED
    ) -> ScaleDownInquiry | None:
        """Updates the state by what happened to removals since the last loop; the first time, by what the nodes' taints show.
        `replacing`: what consolidation does now.

        Returns what is to be planned. None if nothing is: scale-down is disabled, and removals under way are given up; or a
        provider has not reported its nodes yet.
        """
        policy, now = self._policy(), self._steady()
        if self.state is None:
            if not group_status or not all(found.answered for found in group_status.values()):
                return None
            self.state = self._resumed(group_status, policy, now)
        for eviction in self._evictions:
            self.state = self.state.evicted(eviction.pod, eviction.at)
        self._ended = tuple(self._ended_drains)
        self._evictions.clear()
        self._ended_drains.clear()
        for end in self._ended:
            self.state = self.state.ended(end.order.node)
            # Did it fail for a reason that may make it fail again, and would that disturb pods or be refused?
            disturbs = not end.order.empty or end.unremovable_reason is UnremovableReason.DELETION_FAILED
            if end.outcome == "rolled-back" and end.unremovable_reason not in _NO_BACKOFF and disturbs:
                self.state = self.state.drain_failed(end.order.node, f"{end.unremovable_reason} {end.detail}".rstrip(), now)
            self._note(end)
        if not policy.enabled:
            self._give_up_all()
            return None
        for drain in self._drains.active:
            group, status = drain.order.group, group_status.get(drain.order.group)
            # Another autoscaler may have marked the group since; of one that cannot be read the provider deletes no machine.
            unreadable = None if status is None else status.group.unreadable
            if why := self._withholds(group) or unreadable:
                self._give_up(drain.order.node, UnremovableReason.CANCELLED, why)
        self.state = replace(self.state, replacing=replacing)
        revocable = {drain.order.node: drain.order.stamp for drain in self._drains.active if drain.revocable}
        return ScaleDownInquiry(state=self.state, policy=policy, revocable=revocable, replicas=replicas)

    def _give_up_all(self) -> None:
        """Gives up all removals, so that no node stays tainted while scale-down is disabled."""
        for drain in self._drains.active:
            self._give_up(drain.order.node, UnremovableReason.CANCELLED, "scale-down is switched off")
        assert self.state is not None
        self.state = ScaleDownState(deleted_set=self._drains.nodes, failed_drains=self.state.failed_drains)
        self._kept_for_slack = {}
        self._mark()

    def _resumed(
        self, group_status: Mapping[GroupName, NodeGroupStatus], policy: ScaleDownPolicy, now: UnixTime
    ) -> ScaleDownState:
        """The state after a start, by the nodes' taints. Resumes the removals that the taints show, except those of nodes in no
        group that is ours to shrink: somebody else began these."""
        longest = 2 * max(policy.unneeded_time, policy.unready_time)
        state = restored((node for _, node in self._state_machine.state.nodes), now=now, longest_seconds=longest)
        membership = Membership(found.group for found in group_status.values())
        orders = []
        for name, stamp in state.deleted_set.items():
            node = self._node(name)
            group = None if node is None else membership.group_of(node)
            if node is None or group is None or self._withholds(group) is not None:
                state = state.ended(name)
            else:
                orders.append(DrainOrder(node=name, uid=node.uid, group=group, empty=False, stamp=stamp))
        self._state_machine.resume_drains(orders, self._clock(), now)
        return state

    def _note(self, end: DrainEnd) -> None:
        """Starts the group's cool-down, and announces a rollback by an Event."""
        if end.outcome == "removed":
            self._group_registry.deleted(end.order.group, self._clock(), ok=True)
        elif end.outcome == "rolled-back" and end.unremovable_reason not in _NO_FAILURE:
            self._group_registry.deleted(end.order.group, self._clock(), ok=False)
            if end.unremovable_reason is UnremovableReason.DELETION_FAILED:
                self._refused(end)
        if end.outcome == "rolled-back" and end.unremovable_reason is not None:
            note = f"removal given up: {end.unremovable_reason.text}: {end.detail}".rstrip(": ")
            self._announce(end.order.node, end.order.uid, "Warning", "ScaleDownFailed", note)

    def _refused(self, end: DrainEnd) -> None:
        """Lets the group wait, and gives up its drains that would evict more pods for a deletion that is refused too."""
        group = end.order.group
        self._group_registry.deletion_refused(group, f"{end.order.node}: {end.detail}", self._clock())
        for drain in self._drains.active:
            if drain.order.group == group and drain.revocable and not drain.order.empty:
                why = f"the deletion of {end.order.node} was refused"
                self._give_up(drain.order.node, UnremovableReason.CANCELLED, why)

    # --- questions --------------------------------------------------------------------------------------------------------

    def held_back(
        self, node: NodeName, group: NodeGroup, *, ready: bool
    ) -> tuple[float | None, list[tuple[UnremovableReason, str]]]:
        """For how many seconds the node has been a candidate (None: it is none), and the reasons with texts why its removal
        does not begin now. A node whose room is kept as slack is no candidate."""
        if self.state is None:
            return None, []
        if group.unreadable:
            return None, [(UnremovableReason.DISABLED_FOR_GROUP, f"it cannot be read: {group.unreadable}")]
        policy, since = self._policy(), self.state.since(node)
        if since is None:
            pauses = (pause(node, self.state, policy, self._steady()) for pause in (backing_off, rechecked_later))
            slack = None if (text := self._kept_for_slack.get(node)) is None else (UnremovableReason.SLACK_NEEDED, text)
            return None, [each for each in (slack, *pauses) if each is not None]
        waited = self._steady() - since
        rules = rules_of(group, policy)
        found: list[tuple[UnremovableReason, str]] = []
        cooling = self._cooling([group.name], self._clock()).get(group.name)
        if cooling is not None:
            found.append((UnremovableReason.IN_COOLDOWN, f"{group.name}: {cooling}"))
        if (why := self._withholds(group.name)) is not None:
            found.append((UnremovableReason.DISABLED_FOR_GROUP, why))
        unripe = not_ripe(waited, rules.unneeded_time if ready else rules.unready_time, ready=ready)
        found += [] if unripe is None else [unripe]
        if (text := self._over_budget.get(node)) is not None:
            found.append((UnremovableReason.DISRUPTION_BUDGET_REACHED, text))
        removals, _ = self._drains.under_way()
        if removals >= policy.max_scale_down_parallelism:
            text = f"{removals} nodes are being removed, at most {policy.max_scale_down_parallelism}"
            found.append((UnremovableReason.THROTTLED, text))
        return waited, found

    # --- act --------------------------------------------------------------------------------------------------------------

    def give_up(self, names: Iterable[NodeName]) -> tuple[NodeName, ...]:
        """Gives up the removals of these nodes. Returns the nodes for which that was still possible."""
        return tuple(name for name in names if self._give_up(name, UnremovableReason.ROOM_NEEDED, ""))

    def act(
        self,
        found: ScaleDownProposal,
        group_status: Mapping[GroupName, NodeGroupStatus],
        *,
        healthy: bool,
        given_up: tuple[NodeName, ...] = (),
    ) -> ScaleDownRecord:
        """Gives up and begins removals as planned, and writes the candidates' times into taints. `given_up`: nodes whose
        removal was given up before. `healthy` False: no removal begins, and no node stays a candidate."""
        plan, now = found.plan, self._clock()
        self.state = plan.state if healthy else without_candidates(plan.state)
        # The search for another place is expensive, so what it found holds until it is made again.
        kept = (*plan.kept, *(failed.kept for failed in plan.state.non_candidate_set.values()))
        slack = UnremovableReason.SLACK_NEEDED
        self._kept_for_slack = {each.node: each.detail for each in kept if each.unremovable_reason is slack}
        self._over_budget = {}
        given_up = (*given_up, *self.give_up(found.given_up))
        batch, withheld = self._begin(found, group_status) if healthy and not given_up else (None, ())
        self._mark()
        return ScaleDownRecord(
            status=None if batch is None else batch.status,
            unneeded=plan.unneeded,
            reasons=found.reasons,
            begun=() if batch is None else batch.nodes,
            withheld=withheld,
            given_up=given_up,
            ended=self._ended,
            under_way=self._drains.under_way(),
            cooling=self._cooling(group_status, now),
            over_budget={each.group: text for each in plan.removable if (text := self._over_budget.get(each.node)) is not None},
            removals=tuple((drain.order.node, drain.phase) for drain in self._drains.active),
            homeless="" if plan.homeless is None else f"{plan.homeless.unremovable_reason}: {plan.homeless.detail}",
            evaluated=plan.evaluated,
            cut=plan.cut,
            seconds=found.seconds,
        )

    def _give_up(self, name: NodeName, unremovable_reason: UnremovableReason, detail: str) -> bool:
        answer, effects = self._state_machine.cancel_drain(name, unremovable_reason, detail, self._clock())
        self._submit(effects)
        return answer == "cancelled"

    def _begin(
        self, found: ScaleDownProposal, group_status: Mapping[GroupName, NodeGroupStatus]
    ) -> tuple[RemovalBatch, tuple[DrainOrder, ...]]:
        """Begins removals; returns them, and those that would begin if they were not withheld."""
        plan, unix_now = found.plan, self._steady()
        held = tuple(each for each in plan.removable if self._withholds(each.group) is not None)
        would: RemovalBatch | None = None
        if held:
            would = self._batch(replace(plan, removable=held), group_status)
            plan = replace(plan, removable=tuple(each for each in plan.removable if self._withholds(each.group) is None))
        batch = self._batch(plan, group_status)
        # Two batches, because empty nodes need not wait until all others are tainted.
        for some in (batch.empty, batch.drains):
            orders = self._orders(some, unix_now)
            for one, order in orders:
                self._announce_removal(one, order)
            self._submit(self._state_machine.begin_drains([order for _, order in orders], self._clock()))
            assert self.state is not None
            self.state = self.state.begun([order.node for _, order in orders], unix_now)
        if would is None:
            return batch, ()
        if not plan.removable:  # "started" would say that a removal has begun
            batch.status = "waiting" if would.status == "started" else would.status
        return batch, tuple(order for _, order in self._orders((*would.empty, *would.drains), unix_now))

    def _batch(self, plan: ScaleDownPlan, group_status: Mapping[GroupName, NodeGroupStatus]) -> RemovalBatch:
        """The removals of the plan that may begin now."""
        now = self._clock()
        removals, drains = self._drains.under_way()
        cooling, failing = self._cooling(group_status, now), self._cooling(group_status, now, only_failures=True)
        refused = {name for name in group_status if self._group_registry.last_deletion_refused(name)}
        for drain in self._drains.active:
            for each in (cooling, failing) if drain.order.group in refused else ():
                each.setdefault(drain.order.group, f"{drain.order.node} goes first, since a deletion was refused")
        disruptions = self.disruptions(group_status)
        batch = choose_batch(
            plan,
            {name: each.group for name, each in group_status.items()},
            self._policy(),
            RunningRemovals(removals=removals, drains=drains),
            now=self._steady(),
            cooling=cooling,
            failing=failing,
            refused=refused,
            disruptions=disruptions,
        )
        self._over_budget = {**self._over_budget, **over_budget(plan, batch, disruptions)}
        return batch

    def disruptions(self, group_status: Mapping[GroupName, NodeGroupStatus]) -> dict[GroupName, GroupDisruptions]:
        """The present disruptions of each group that has disruption budgets."""
        nodes = (node for _, node in self._state_machine.state.nodes)
        budgets = self._policy().budgets_of(each.group for each in group_status.values())
        return disruptions_of(budgets, group_status, nodes, self._drains.nodes, now=self._wall())

    def _cooling(self, names: Iterable[GroupName], now: Instant, *, only_failures: bool = False) -> dict[GroupName, str]:
        """The groups that cool down, and why."""
        policy = self._configured()
        cooling = partial(
            self._group_registry.cooling,
            now=now,
            after_add=0.0 if only_failures else policy.delay_after_add,
            after_delete=0.0 if only_failures else policy.delay_after_delete,
            after_failure=policy.delay_after_failure,
        )
        return {name: why for name in names if (why := cooling(name)) is not None}

    def _orders(self, found: Iterable[Removable], unix_now: UnixTime) -> list[tuple[Removable, DrainOrder]]:
        """The orders to remove these nodes, without those that have gone since the plan was made."""
        return [
            (
                one,
                DrainOrder(
                    node=node.name,
                    uid=node.uid,
                    group=one.group,
                    empty=one.empty,
                    stamp=unix_now,
                    ready=one.ready,
                    gpu=any(is_gpu(name) and amount for name, amount in node.scalars),
                    destinations=tuple((pod.key, target) for pod, target in one.moves if not is_placeholder(pod)),
                ),
            )
            for one in found
            if (node := self._node(one.node)) is not None
        ]

    def _announce_removal(self, found: Removable, order: DrainOrder) -> None:
        words = "empty" if found.empty else found.removal_score.words()
        why = "it is not needed" if found.replaced_for is None else _REPLACED[found.replaced_for]
        self._announce(order.node, order.uid, "Normal", "ScaleDown", f"node is removed, since {why}: {words}")

    def _mark(self) -> None:
        """Writes and removes soft taints of candidates, a few in each loop."""
        assert self.state is not None
        groups = (each.group for each in self._group_registry.group_status.values())
        held = Membership(group for group in groups if self._withholds(group.name) is not None)
        nodes = (node for _, node in self._state_machine.state.nodes if held.group_of(node) is None)
        self._submit(soft_taints(nodes, self.state, most=self._policy().max_soft_taints))

    def _node(self, name: NodeName) -> Node | None:
        return self._state_machine.state.nodes.get(name)

    def _announce(self, name: NodeName, uid: str, kind: Literal["Normal", "Warning"], reason: str, note: str) -> None:
        self._submit([Announce(PodUid(uid), PodKey("", name), kind, reason, note, about="Node")])
