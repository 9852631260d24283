"""The state machine, which alone changes the cluster state, one event or question at a time.

Events (from watches, ends of API calls, time) come in through `apply`. Questions of kube-scheduler and agents, and commands of
the autoscaler, come in through the other methods. All are synchronous, so no lock is needed. Effects leave as return values
only, either of the call that causes them or of the next tick.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import partial

import numpy as np

from slackwater.cluster.nodes import NO_ROW
from slackwater.cluster.vertical_pods import unreadable_annotations
from slackwater.controllers.audit.repair import AuditRepair
from slackwater.controllers.migration.drain_migrations import DrainMigrations
from slackwater.controllers.permits.persisted_permits import doubt_conflicting_permits
from slackwater.controllers.placement.binding import BindAnswer, Binding
from slackwater.controllers.placement.filter_facts import FilterFacts
from slackwater.controllers.policy import Policy, with_pauses
from slackwater.controllers.preemption.extender_candidates import ExtenderCandidates, Kept
from slackwater.controllers.scaledown.drains.running_drains import CancelAnswer, Drains
from slackwater.model.columns import Codes, Int64, Mask, NodeColumns, Rows
from slackwater.model.effects import Activate, DrainOrder, Effect, ReadPod
from slackwater.model.events import (
    ActivationLost,
    AuditEvent,
    BindEnded,
    BudgetGone,
    BudgetSeen,
    DrainEvent,
    Event,
    LeadershipTaken,
    NodeGone,
    NodeSeen,
    NodesPlanned,
    ObjectEvent,
    PausesSeen,
    PodEvent,
    PodGone,
    PodRead,
    PodSeen,
    PreemptionEvent,
    ServiceEvent,
    StandbyTimePassed,
    Synced,
    TimePassed,
)
from slackwater.model.ids import Generation, Instant, NodeName, PodKey, PodUid, Row, UnixTime
from slackwater.model.objects import Pod
from slackwater.model.pauses import Activity, Pause
from slackwater.model.permits import Caller, PermitAnswer, PermitAsk, PermitDecision, PermitRefusal
from slackwater.model.reasons import Reason, UnremovableReason
from slackwater.runtime.flows import Controllers
from slackwater.runtime.flows.activation import SampleNominations, UnschedulableActivation
from slackwater.runtime.flows.filter import PlacementFlow
from slackwater.runtime.flows.permits import PermitFlow, VerticalEvents
from slackwater.runtime.flows.scheduling_gates import SchedulingGates
from slackwater.runtime.pod_lifecycle import PodLifecycle


class StateMachine(Controllers):
    """Applies events, answers questions, and returns the effects. No other code changes the cluster state."""

    def __init__(self, policy: Policy, *, seed: int = 0) -> None:
        self.generation, self.synced = Generation(0), False
        #: `policy` is in force, with the pauses applied. `_configured` is the policy of the settings alone.
        self.policy = self._configured = policy
        #: Effects of methods that return no effects (`filter`, `adopt_policy`). The next tick returns them.
        self._deferred: list[Effect] = []
        super().__init__(policy)
        state = self.state
        self.drain_migrations = DrainMigrations(self.migrating, state.pods)
        #: All removals that have begun.
        self.drains = Drains(state, self.drain_migrations, limits=policy.drain, rules=policy.blocked_by)
        self.pauses: tuple[Pause, ...] = ()
        self._permits, self._vertical_events = PermitFlow(self), VerticalEvents(self)
        self._binding = Binding(state)
        self._placement = PlacementFlow(self, seed=seed)
        self._scheduling_gates = SchedulingGates(self, self._placement)
        self._extender_candidates = ExtenderCandidates(state, self.preemptions, about_the_pod=self._placement.about_the_pod)
        self._sample_nominations = SampleNominations(self, self._placement)
        self._activation = UnschedulableActivation(state, self._placement)
        self._pod_lifecycle = PodLifecycle(
            self, scheduling_gates=self._scheduling_gates, sample_nominations=self._sample_nominations
        )
        self._auditing = AuditRepair(state, seen=partial(self._pod_seen, read=True), release=self._pod_lifecycle.release)

    def apply(self, event: Event, now: Instant) -> list[Effect]:
        """Applies one event and returns the effects to carry out."""
        self.generation = Generation(self.generation + 1)
        if isinstance(event, DrainEvent):
            return self.drains.apply(event, now)
        if isinstance(event, AuditEvent):
            effects = self._auditing.apply(event, now)
        elif isinstance(event, PreemptionEvent):
            effects = self.preemptions.apply(event, now)
        elif isinstance(event, PodEvent):
            effects = self._apply_pod_event(event, now)
        elif isinstance(event, ObjectEvent):
            effects = self._apply_object_event(event, now)
        elif isinstance(event, ServiceEvent):
            effects = self._apply_service_event(event, now)
        else:
            effects = self._vertical_events.apply(event, self.policy, now)
            # If kube-scheduler binds, filter refuses room that persisted permits reserve for others. This event may have freed
            # it.
            if not self.policy.bind:
                effects = effects + self.state.unschedulable_pods.activate_recent(now)
        return effects + self.preemptions.flush()

    def _apply_pod_event(self, event: PodEvent, now: Instant) -> list[Effect]:
        match event:
            case PodSeen(pod):
                return self._pod_seen(pod, now)
            case PodRead(pod):
                return self._pod_read(pod, now)
            case PodGone(uid, key, read):
                self.state.pods.drop(uid, key, now, read=read)
                return self._pod_lifecycle.release(uid, now)
            case BindEnded():
                return self._bind_ended(event, now)
            case ActivationLost(uid, key, why):
                self._deferred.append(Activate(uid, key, why))
                return []

    def _apply_object_event(self, event: ObjectEvent, now: Instant) -> list[Effect]:
        match event:
            case NodeSeen(node):
                if self.synced:
                    self.disagreements.node_seen(self.state.nodes.get(node.name), node, now)
                return self._pod_lifecycle.node_seen(node, self.policy, now)
            case NodeGone(name):
                self._pod_lifecycle.node_gone(name)
            case BudgetSeen(budget):
                self.state.budgets.put(budget)
            case BudgetGone(namespace, name):
                self.state.budgets.drop(namespace, name)
            case PausesSeen(pauses) if pauses != self.pauses:
                return self._pauses_seen(pauses, now)
        return []

    def _apply_service_event(self, event: ServiceEvent, now: Instant) -> list[Effect]:
        match event:
            case TimePassed():
                return self._ticked(now)
            case NodesPlanned(coming, as_of):
                self.state.planned_nodes.expect(coming, as_of)
            case StandbyTimePassed():
                self.state.pods.expire(now)
                self.permit_limits.forget_blocked_nodes()
            case LeadershipTaken():  # starts again from the API objects: the former leader may have written them
                self.migrating.reset()
                self.permit_limits.reset()
                self._pod_lifecycle.adopt_growing(self.policy, now)
            case Synced():
                self.synced = True
                self.state.vertical_pods.listed()
                doubt_conflicting_permits(self.state)
                self.preemptors.resume(self.policy.preemption, now)
        return []

    def adopt_policy(self, policy: Policy) -> None:
        """Puts a changed configuration into force for all nodes, from the next question on. Activates all refused pods, if the
        policy has changed."""
        self.generation, self._configured = Generation(self.generation + 1), policy
        self._apply_policies()

    def _apply_policies(self) -> None:
        policy = with_pauses(self._configured, self.paused)
        if policy == self.policy:  # a pause of drains, for instance, lets no refused pod pass
            return
        self.permit_limits.adopt_policy(policy)
        self.drains.limits, self.drains.rules = policy.drain, policy.blocked_by
        if policy.nodes != self.policy.nodes:
            self.state.nodes.set_policy(policy.nodes)
        self.policy = policy
        self._deferred += self.state.unschedulable_pods.activate_all()

    def _pod_seen(self, pod: Pod, now: Instant, *, read: bool = False) -> list[Effect]:
        before = self.state.pods.get(pod.uid)
        if not self.state.pods.put(pod, read=read):
            return []
        effects = self.state.unschedulable_pods.activate_recent(now) if self.state.quarantine.readable(pod.uid) else []
        return [*effects, *unreadable_annotations(before, pod), *self._pod_changed(before, pod, now)]

    def _pod_changed(self, before: Pod | None, pod: Pod, now: Instant) -> list[Effect]:
        if pod.ended:
            return self._pod_lifecycle.release(pod.uid, now)
        if pod.node is not None:
            effects = self._pod_lifecycle.bound(pod, pod.node, self.policy, now, synced=self.synced)
            if before is None or before.node is None:
                self.disagreements.bound(pod, now, waited=before is not None)
            return effects
        reservation = self.state.reservations.get(pod.uid)
        if reservation is not None and pod.vertical is not None:  # its bind is in progress, and its resources have changed
            self._pod_lifecycle.recount(pod, reservation, self.policy)
            self.permit_limits.persisted_permits.mark(pod.uid)
        self.migrating.pod_seen(pod, now)
        self.preemptions.preemptor_seen(pod)
        self._extender_candidates.nominated(pod, self.policy, now)
        self._scheduling_gates.seen(pod, now)
        self.disagreements.waiting(pod, {self.policy.scheduler_name, *self.policy.profiles}, now)
        if self.conditions.newly_failed(before, pod):
            self.sample_misses.nominate_now(pod.uid, now)
        return []

    def _pod_read(self, pod: Pod, now: Instant) -> list[Effect]:
        effects: list[Effect] = []
        if pod.node is None and self._binding.read_unbound(pod.uid):
            self.preemptions.not_bound(pod.uid)
            # Activates the pod, which waited for its own bind, and others, which waited for its room.
            effects = [Activate(pod.uid, pod.key, "bind-given-up"), *self.state.unschedulable_pods.activate_recent(now)]
        if pod.node is None and (ended := self.state.holds.read_unbound(pod.uid)):
            self.state.event_counts.holds_expired += len(ended)
            effects += self.state.unschedulable_pods.activate_held()
        return effects + self._pod_seen(pod, now, read=True)

    def _bind_ended(self, event: BindEnded, now: Instant) -> list[Effect]:
        reservation = self.state.reservations.get(event.uid)
        effects = self._binding.ended(event, self.policy, now)
        if reservation is not None and self.state.reservations.get(event.uid) is None:
            pod = self.state.pods.known(event.uid)
            move = None if pod is None else self.migrating.target_node_of(pod, now)
            if move is not None:
                self.migrating.restore_target_hold(move)
            if self.preemptions.not_bound(event.uid) or move is not None:
                self.state.bind_backoff.forget(event.uid)  # else filter would leave out the node that has room for the pod
            effects += self.state.unschedulable_pods.activate_recent(now)
        if reservation is not None and event.outcome == "gone":
            # An attempt whose answer was lost may have bound the pod before. A delayed watch may still show that.
            self.state.pods.drop(event.uid, reservation.key, now, read=True)
            effects += self._pod_lifecycle.release(event.uid, now)
        return effects

    def _ticked(self, now: Instant) -> list[Effect]:
        deferred = ((effect, self.state.pods.get(effect.uid)) for effect in self._deferred if isinstance(effect, Activate))
        effects: list[Effect] = [each for each, pod in deferred if pod is not None and pod.pending]
        self._deferred.clear()
        expired = self.state.holds.expire(now)
        self.state.event_counts.holds_expired += len(expired)
        for key in expired:
            if key.cause != "plan":
                self.preemptions.not_bound(key.uid)
        self.preemptions.due(now)
        self.preemptors.due(now)
        effects += self.state.unschedulable_pods.activate_held() if expired else []
        effects += self._pod_lifecycle.activate_all_of(self.state.bind_backoff.expire(now), "denial-ended")
        effects += self._pod_lifecycle.activate_all_of(self.preemptions.accepted.expire(now), "victims-awaited")
        for uid in self.state.pods.expire(now):
            self.state.unschedulable_pods.forget(uid)
            self.conditions.forget(uid)
            self.chosen_nodes.ended(uid, None)
        effects += [*self._binding.overdue(self.policy, now), *self._activation.due(self.policy, now)]
        to_read = self.state.holds.doubt(now, Instant(now + self.policy.confirm_seconds))
        effects += [*(ReadPod(uid, key) for uid, key in to_read), *self._sample_nominations.due(self.policy, now)]
        if self.synced:  # before the initial lists are complete, a gate that has to stay closed might be opened
            effects += self._scheduling_gates.due(self.policy, now)
        effects += self.permit_limits.due(now) + self.migrating.tick(now)
        effects += [*self.drains.step(now), *self.drain_migrations.tick(self.policy, now)]
        return effects + (self.state.unschedulable_pods.activate_held() if self.state.holds.take_freed() else [])

    @property
    def paused(self) -> frozenset[Activity]:
        """The activities that a person has paused."""
        return frozenset(pause.activity for pause in self.pauses)

    def _pauses_seen(self, pauses: tuple[Pause, ...], now: Instant) -> list[Effect]:
        """Puts the pauses in force. When scale-down becomes paused, rolls drains back, except where the provider already
        deletes the machine. When preemption becomes paused, ends preemptions that have not requested a deletion yet."""
        before, self.pauses = self.paused, pauses
        begun = self.paused - before
        effects: list[Effect] = []
        if "preemption" in begun:
            self.preemptions.pause(now)
        if "scale-down" in begun:
            for drain in self.drains.active:
                node, why = drain.order.node, "scale-down is paused"
                effects += self.drains.cancel(node, UnremovableReason.CANCELLED, why, now)[1]
        self._apply_policies()
        return effects

    def begin_drains(self, orders: Iterable[DrainOrder], now: Instant) -> list[Effect]:
        """Begins one batch of drains. Skips nodes whose drain is in progress."""
        return self.drains.begin(orders, now)

    def resume_drains(self, orders: Iterable[DrainOrder], now: Instant, unix_now: UnixTime) -> None:
        """Resumes drains that a former process began, as the nodes' taints show."""
        self.drains.resume(orders, now, unix_now)

    def cancel_drain(
        self, node: NodeName, unremovable_reason: UnremovableReason, detail: str, now: Instant
    ) -> tuple[CancelAnswer, list[Effect]]:
        """Rolls a drain back, unless the provider has already been asked to delete the machine."""
        return self.drains.cancel(node, unremovable_reason, detail, now)

    # --- questions --------------------------------------------------------------------------------------------------------

    def busy_nodes(self) -> frozenset[NodeName]:
        """The nodes with a hold, a migration or a preemption."""
        held = {hold.row for _, hold in self.state.holds}
        names = {node.name for row, node in self.state.nodes if row in held}
        names |= {node for each in self.migrating.migrations.values() for node in (each.source, each.target_node) if node}
        return frozenset(names | {each.node for _, each in self.preemptions.items()})

    def filter(self, pod: Pod, rows: Rows, now: Instant) -> Codes:
        """Answers filter: a `Reason` for each row, OK if filter names it; shape (len(rows),). Where kube-scheduler
        binds, it names one row at most and holds room there. All are OK for a pod that was not handed over."""
        if self._is_left(pod):
            return np.zeros(len(rows), np.uint8)
        self.generation = Generation(self.generation + 1)
        before = self.state.holds.rows_of(pod.uid)
        codes = self._placement.filter(pod, rows, self.policy, now)
        self.conditions.judged(pod.uid, refused=bool(codes.all()))
        self.disagreements.passed(pod.uid, now)
        self._activate_if_freed(pod.uid, before)
        return codes

    def _is_left(self, pod: Pod) -> bool:
        """Is the pod left to kube-scheduler, because it was not handed over?"""
        return self.policy.handed_over.withholds(pod.key.namespace, pod.kind.scheduler_name) is not None

    def _activate_if_freed(self, uid: PodUid, before: Set[Row]) -> None:
        """Activates pods that wait for held room, if an earlier hold of the pod ended unused on one of the rows `before`."""
        if before - self.state.holds.rows_of(uid):
            self._deferred += self.state.unschedulable_pods.activate_held()

    def may_choose(self, pod: Pod) -> bool:
        """May `choose` name one of several feasible nodes for the pod?"""
        return self._placement.may_choose(pod, self.policy)

    def choose(self, pod: Pod, row: Row, now: Instant) -> bool:
        """Holds room for the pod on the row, so that filter can return this row alone.

        Returns False and changes nothing if the row is not feasible or we may not choose for the pod. `filter` then has to
        judge all rows.
        """
        node = self.state.nodes.by_row[row] if row != NO_ROW and self.may_choose(pod) else None
        before = self.state.holds.rows_of(pod.uid)
        if node is None or not self._placement.take(pod, row, self.policy, now):
            return False
        self.generation = Generation(self.generation + 1)
        self.conditions.judged(pod.uid, refused=False)
        self.disagreements.passed(pod.uid, now)
        self._activate_if_freed(pod.uid, before)
        return True

    def planned_rows(self, pod: Pod, rows: Rows) -> list[Row]:
        """Those of the rows where a plan has room for the pod: that of the new node that was bought for it, and the
        destinations of evicted pods that it may replace."""
        return self._placement.planned_rows(pod, rows, self.policy)

    def passing(self, pod: Pod, rows: Rows, now: Instant) -> Mask:
        """For each row, whether filter would find it feasible for the pod; shape (len(rows),). Changes nothing."""
        return self._placement.passing(pod, rows, self.policy, now)

    def prioritize(self, pod: Pod, rows: Rows, now: Instant) -> Int64:
        """Answers prioritize: the score of each row for the pod, 0..10; shape (len(rows),). Where we bind and count more than
        kube-scheduler, it holds room on the row that is probably chosen. All are 0 for a pod that was not handed over."""
        if self._is_left(pod):
            return np.zeros(len(rows), np.int64)
        self.generation = Generation(self.generation + 1)
        return self._placement.prioritize(pod, rows, self.policy, now)

    def bind(self, uid: PodUid, key: PodKey, node: NodeName, now: Instant) -> BindAnswer:
        """Reserves room for the pod on the node. Returns the Bind effect, or the reason to refuse."""
        self.generation = Generation(self.generation + 1)
        pod = self.state.pods.known(uid)
        move = None if pod is None else self.migrating.target_node_of(pod, now)
        if move is not None:  # room that is held for the pod itself is free for it
            self.migrating.drop_target_hold(move)
        answer = self._binding.bind(uid, key, node, self.policy, now)
        if move is not None:
            self.migrating.restore_target_hold(move)
        if answer.reason is Reason.OK and not answer.already:
            self.permit_limits.room_taken(node, now)
        return answer

    def preempt(self, pod: Pod, proposed: Mapping[NodeName, Sequence[PodUid]], now: Instant) -> Kept:
        """Answers preempt: the proposed nodes that remain candidates, each with its victims and the number of disruption
        budgets that these violate in addition to those of the proposal. All remain for a pod that was not handed over."""
        if self._is_left(pod):
            return {name: (tuple(victims), 0) for name, victims in proposed.items()}
        return self._extender_candidates.answer(pod, proposed, self.policy, now)

    def ask_permit(self, ask: PermitAsk, caller: Caller | None, now: Instant) -> PermitDecision | PermitRefusal:
        """Decides an agent's request for a permit and counts the permit on the pod's node. The caller carries out the effects
        of the decision, then calls `permit_answer`."""
        self.generation = Generation(self.generation + 1)
        return self._permits.ask(ask, caller, self.policy, now)

    def permit_answer(self, decided: PermitDecision) -> PermitAnswer | PermitRefusal:
        """The answer to a decided permit request: never more than is persisted."""
        return self._permits.answer(decided)

    def seen(self, pod: Pod, now: Instant) -> tuple[FilterFacts, NodeColumns]:
        """The facts and columns from which filter would decide its answer for the pod now. Changes nothing."""
        return self._placement.seen(pod, self.policy, now)

    def is_promised(self, pod: Pod, now: Instant) -> bool:
        """Does the pending pod wait for our own sake? We bind or nominate it, wait for its victims, know its target node, or
        refuse it whatever the node."""
        uid, state = pod.uid, self.state
        waited_for = self.preemptions.gated(uid) or self.sample_misses.waits(uid) or state.bind_backoff.has(uid)
        kept = uid in state.reservations or self.migrating.target_node_of(pod, now) is not None
        return waited_for or kept or self._placement.about_the_pod(pod, self.policy) is not Reason.OK
