"""The state machine, which alone changes the cluster state, one event or question at a time.

Events (from watches, ends of API calls, time) come in through `apply`. Questions of kube-scheduler and agents, and commands of
the autoscaler, come in through the other methods. All are synchronous, so no lock is needed. Effects are returned, never stored
elsewhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from slackwater.cluster.cluster_state import ClusterState, opened
from slackwater.cluster.conditions import Conditions
from slackwater.cluster.nodes import NO_ROW
from slackwater.cluster.reservations import Reservation
from slackwater.cluster.unreadable import unreadable_annotations
from slackwater.controllers.audit.repair import Auditing
from slackwater.controllers.migration.state import Migrating
from slackwater.controllers.nomination.state import Steering
from slackwater.controllers.permits.conflicts import PermitConflicts
from slackwater.controllers.permits.events import VerticalEvents
from slackwater.controllers.permits.permit_limits import PermitLimits
from slackwater.controllers.permits.state import Decided, Permits
from slackwater.controllers.placement.binding import BindAnswer, Binding
from slackwater.controllers.policy import Policy
from slackwater.controllers.preemption.extender_candidates import ExtenderCandidates, Kept
from slackwater.controllers.preemption.potential_victims import PotentialVictims
from slackwater.controllers.preemption.preemptors import Preemptors
from slackwater.controllers.preemption.state import Preemptions
from slackwater.controllers.scaledown.drains.drains import CancelAnswer
from slackwater.controllers.scaledown.drains.limits import DrainLimits
from slackwater.fit.drainability import DrainPolicy
from slackwater.model.columns import Codes, Int64, Mask, Rows
from slackwater.model.drains import DrainOrder
from slackwater.model.effects import Activate, Effect, ReadPod
from slackwater.model.events import (
    ActivationLost,
    AuditEvent,
    BindEnded,
    BudgetGone,
    BudgetSeen,
    DrainEvent,
    Event,
    GroundEvent,
    MomentEvent,
    NodeGone,
    NodeSeen,
    OtherEvent,
    PodEvent,
    PodGone,
    PodRead,
    PodSeen,
    PreemptionEvent,
    SteeringEvent,
    Synced,
    TakenOver,
    Ticked,
    Watched,
)
from slackwater.model.ids import Generation, Instant, NodeName, PodKey, PodUid, Row, UnixTime
from slackwater.model.objects import Node, Pod
from slackwater.model.permits import Caller, PermitAnswer, PermitAsk, PermitRefusal
from slackwater.model.reasons import Reason
from slackwater.model.unremovable_reasons import UnremovableReason
from slackwater.runtime.flows.drains import Removals
from slackwater.runtime.flows.filter import Placing, Seen
from slackwater.runtime.flows.missed_room import MissedRoom
from slackwater.runtime.flows.sample_nominations import Nominations
from slackwater.runtime.flows.scheduling_gates import SchedulingGates
from slackwater.runtime.pod_lifecycle import PodLifecycle, Subscribers


class StateMachine:
    """Applies events, answers questions, and returns the effects. No other code changes the cluster state."""

    def __init__(self, policy: Policy, *, seed: int = 0) -> None:
        self.policy, self.generation, self.synced = policy, Generation(0), False
        #: Effects of questions and changed settings, whose methods return none; the next tick returns them.
        self._owed: list[Effect] = []
        state = opened(policy.nodes, self._reservation_ended)
        self._lend(state)
        self.preemptions = Preemptions(state)
        self.migrating = Migrating(state)
        self.removals = Removals(state, self.migrating)
        self.permit_limits = PermitLimits(state, policy=policy)
        self._permits = Permits(
            state,
            permit_limits=self.permit_limits,
            migrating=self.migrating,
            room_given=self.unschedulable_pods.activate_recent,
        )
        self._vertical_events = VerticalEvents(state, permit_limits=self.permit_limits, migrating=self.migrating)
        self._permit_conflicts, self._binding = PermitConflicts(state), Binding(state)
        potential_victims = PotentialVictims(
            state, doomed=self.preemptions.is_marked_victim, immovable=self.preemptions.immovable
        )
        self._preemptors = Preemptors(state, potential_victims, self.preemptions)
        self.steering = Steering(state, preempts=lambda uid: self.preemptions.number_of(uid) is not None)
        self._placing = Placing(
            state,
            migrating=self.migrating,
            preemptions=self.preemptions,
            preemptors=self._preemptors,
            choices=self.steering.choices,
            on_record=self.permit_limits.persisted_permits.over_reservation,
            room_wanted=self.permit_limits.room_wanted,
            seed=seed,
        )
        self._scheduling_gates = SchedulingGates(
            state,
            placing=self._placing,
            potential_victims=potential_victims,
            preemptors=self._preemptors,
            preemptions=self.preemptions,
        )
        self._extender_candidates = ExtenderCandidates(
            state, potential_victims, self.preemptions, about_the_pod=self._placing.about_the_pod
        )
        self._nominations = Nominations(state, placing=self._placing)
        self._missed_room, self._conditions = MissedRoom(state, self._placing), Conditions(state.event_counts)
        self._pod_lifecycle = PodLifecycle(
            state,
            Subscribers(
                permit_limits=self.permit_limits,
                migrating=self.migrating,
                preemptions=self.preemptions,
                preemptors=self._preemptors,
                scheduling_gates=self._scheduling_gates,
                nominations=self._nominations,
                steering=self.steering,
                conditions=self._conditions,
            ),
        )
        self._auditing = Auditing(state, seen=partial(self._pod_seen, read=True), let_go=self._pod_lifecycle.let_go)

    def _lend(self, cluster_state: ClusterState) -> None:
        """Makes the tables of the cluster state readable as attributes; nobody outside may change them."""
        self.event_counts = cluster_state.event_counts
        self.ledger = cluster_state.ledger
        self.nodes = cluster_state.nodes
        self.quarantine = cluster_state.quarantine
        self.pods = cluster_state.pods
        self.annotations = cluster_state.annotations
        self.vertical_pods = cluster_state.vertical_pods
        self.reservations = cluster_state.reservations
        self.holds = cluster_state.holds
        self.room = cluster_state.room
        self.bind_backoff = cluster_state.bind_backoff
        self.budgets = cluster_state.budgets
        self.sample_misses = cluster_state.sample_misses
        self.unschedulable_pods = cluster_state.unschedulable_pods
        self.accepted_preemptions = cluster_state.accepted_preemptions

    # --- events -----------------------------------------------------------------------------------------------------------

    def apply(self, event: Event, now: Instant) -> list[Effect]:
        """Applies one event and returns the effects to carry out."""
        self.generation = Generation(self.generation + 1)
        if isinstance(event, DrainEvent):
            return self.removals.drains.apply(event, now)
        if isinstance(event, SteeringEvent):
            self._scheduling_gates.judge_soon(getattr(event, "unfit", ()), now)
            return self.steering.apply(event, self.policy, now)
        if isinstance(event, AuditEvent):
            effects = self._auditing.apply(event, now)
        elif isinstance(event, PreemptionEvent):
            effects = self.preemptions.apply(event, now)
        else:
            effects = self._applied(event, now)
        return effects + self.preemptions.flush()

    def _applied(self, event: OtherEvent, now: Instant) -> list[Effect]:
        if isinstance(event, PodEvent):
            return self._of_pod(event, now)
        if isinstance(event, GroundEvent):
            return self._of_ground(event, now)
        if isinstance(event, MomentEvent):
            return self._of_moment(event, now)
        effects = self._vertical_events.apply(event, self.policy, now)
        # If kube-scheduler binds, filter already refuses room that persisted permits reserve for others.
        return effects if self.policy.binds else effects + self.unschedulable_pods.activate_recent(now)

    def _of_pod(self, event: PodEvent, now: Instant) -> list[Effect]:
        match event:
            case PodSeen(pod):
                return self._pod_seen(pod, now)
            case PodRead(pod):
                return self._pod_read(pod, now)
            case PodGone(uid, key, read):
                self.pods.drop(uid, key, now, read=read)
                return self._pod_lifecycle.let_go(uid, now)
            case BindEnded():
                return self._bind_ended(event, now)
            case ActivationLost(uid, key, why):
                self._owed.append(Activate(uid, key, why))
                return []

    def _of_ground(self, event: GroundEvent, now: Instant) -> list[Effect]:
        match event:
            case NodeSeen(node):
                return self._node_seen(node, now)
            case NodeGone(name):
                self._pod_lifecycle.node_gone(name)
            case BudgetSeen(budget):
                self.budgets.put(budget)
            case BudgetGone(namespace, name):
                self.budgets.drop(namespace, name)
        return []

    def _of_moment(self, event: MomentEvent, now: Instant) -> list[Effect]:
        match event:
            case Ticked():
                return self._ticked(now)
            case Watched():
                self.pods.expire(now)
                self.permit_limits.nobody_waits()
            case TakenOver():  # starts from the API objects, as a new process does: the former leader may have written them
                self.migrating.begin_again()
                self.permit_limits.begin_again()
                self._pod_lifecycle.adopt_growing(self.policy, now)
            case Synced():
                self.synced = True
                self.vertical_pods.listed()
                self._permit_conflicts.settle()
                self._preemptors.resume(self.policy.preemption, now)
        return []

    def adopt_policy(self, policy: Policy) -> None:
        """Adopts a changed configuration, from the next question on and for every node at once; activates all refused pods."""
        self.generation = Generation(self.generation + 1)
        self.permit_limits.adopt_policy(policy)
        if policy.nodes != self.policy.nodes:
            self.nodes.set_policy(policy.nodes)
        self.policy = policy
        self._owed += self.unschedulable_pods.activate_all()

    def _node_seen(self, node: Node, now: Instant) -> list[Effect]:
        known = node.name in self.nodes.row_of
        room_appeared = self.nodes.put(node)
        if not known:
            self.reservations.node_opened(node.name, self.nodes.row_of[node.name])
            self.quarantine.node_opened(node.name)
        room_appeared = self.quarantine.readable(node.uid) or room_appeared
        return self.unschedulable_pods.activate_recent(now) if room_appeared else []

    def _pod_seen(self, pod: Pod, now: Instant, *, read: bool = False) -> list[Effect]:
        before = self.pods.get(pod.uid)
        if not self.pods.put(pod, read=read):
            return []
        effects = self.unschedulable_pods.activate_recent(now) if self.quarantine.readable(pod.uid) else []
        return [*effects, *unreadable_annotations(before, pod), *self._pod_changed(before, pod, now)]

    def _pod_changed(self, before: Pod | None, pod: Pod, now: Instant) -> list[Effect]:
        if pod.ended:
            return self._pod_lifecycle.let_go(pod.uid, now)
        if pod.node is not None:
            return self._pod_lifecycle.bound(pod, pod.node, self.policy, now, synced=self.synced)
        reservation = self.reservations.get(pod.uid)
        if reservation is not None and pod.vertical is not None:  # its bind is in progress, and its resources have changed
            self._pod_lifecycle.recount(pod, reservation, self.policy)
            self.permit_limits.recorded(pod.uid)
        self.migrating.pod_seen(pod, now)
        self.preemptions.preemptor_seen(pod)
        self._extender_candidates.nominated(pod, self.policy, now)
        self.steering.seen(pod, self.policy, now)
        self._scheduling_gates.seen(pod, self.policy, now)
        if self._conditions.told(before, pod):
            self.sample_misses.hasten(pod.uid, now)
        return []

    def _reservation_ended(self, uid: PodUid, reservation: Reservation) -> None:
        self.preemptions.left(uid)
        if self.vertical_pods.forget(uid) is not None:
            self.permit_limits.forget(uid, reservation.node)
            self.migrating.pod_gone(uid)

    def _pod_read(self, pod: Pod, now: Instant) -> list[Effect]:
        effects: list[Effect] = []
        if pod.node is None and self._binding.read_unbound(pod.uid):
            # Activates the pod, which waited for its own bind, and others, which waited for its room.
            effects = [Activate(pod.uid, pod.key, "bind-given-up"), *self.unschedulable_pods.activate_recent(now)]
        if pod.node is None and (ended := self.holds.read_unbound(pod.uid)):
            self.event_counts.holds_expired += len(ended)
            if pod.uid in ended:  # not only remainders of earlier holds
                self.steering.hold_expired(pod.uid, self.policy, now)
            effects += self.unschedulable_pods.activate_held()
        return effects + self._pod_seen(pod, now, read=True)

    def _bind_ended(self, event: BindEnded, now: Instant) -> list[Effect]:
        reservation = self.reservations.get(event.uid)
        effects = self._binding.ended(event, self.policy, now)
        if reservation is not None and self.reservations.get(event.uid) is None:
            effects += self.unschedulable_pods.activate_recent(now)
        if reservation is not None and event.outcome == "gone":
            # The watch may be late and still show the pod bound, by an attempt whose answer was lost.
            self.pods.drop(event.uid, reservation.key, now, read=True)
            effects += self._pod_lifecycle.let_go(event.uid, now)
        return effects

    def _ticked(self, now: Instant) -> list[Effect]:
        owed = ((effect, self.pods.get(effect.uid)) for effect in self._owed if isinstance(effect, Activate))
        effects: list[Effect] = [each for each, pod in owed if pod is not None and pod.node is None and not pod.ended]
        self._owed.clear()
        expired = self.holds.expire(now, lambda uid: self.steering.prolonged(uid, self.policy.steering, now))
        self.event_counts.holds_expired += len(expired)
        for uid in expired:
            self.preemptions.hold_expired(uid)
            self.steering.hold_expired(uid, self.policy, now)
        self.preemptions.due(now)
        self._preemptors.due(now)
        effects += self.unschedulable_pods.activate_held() if expired else []
        effects += self._pod_lifecycle.touched(self.bind_backoff.expire(now), "denial-ended")
        effects += self._pod_lifecycle.touched(self.accepted_preemptions.expire(now), "victims-awaited")
        for stranger in self.pods.expire(now):
            self.unschedulable_pods.forget(stranger)
            self._conditions.forget(stranger)
            self.steering.choices.ended(stranger, None)
        effects += [*self._binding.overdue(self.policy, now), *self._missed_room.due(self.policy, now)]
        doubted = self.holds.doubt(now, Instant(now + self.policy.confirm_seconds))
        effects += [*(ReadPod(uid, key) for uid, key in doubted), *self._nominations.due(self.policy, now)]
        if self.synced:  # before, a gate that has to stay closed might be opened
            effects += self._scheduling_gates.due(self.policy, now)
        effects += self.permit_limits.due(now) + self.migrating.tick(now)
        return effects + self.removals.tick(self.policy, now)

    def adopt_drain_rules(self, rules: DrainPolicy, limits: DrainLimits) -> None:
        """Adopts changed drain settings: `rules` at once, `limits` for drains that begin from now on."""
        self.removals.adopt(rules, limits)

    def begin_drains(self, orders: Iterable[DrainOrder], now: Instant) -> list[Effect]:
        """Begins one batch of drains. Skips nodes whose drain is in progress."""
        return self.removals.drains.begin(orders, now)

    def resume_drains(self, orders: Iterable[DrainOrder], now: Instant, unix_now: UnixTime) -> None:
        """Resumes drains that a former process began, as the nodes' taints show."""
        self.removals.drains.resume(orders, now, unix_now)

    def cancel_drain(
        self, node: NodeName, unremovable_reason: UnremovableReason, detail: str, now: Instant
    ) -> tuple[CancelAnswer, list[Effect]]:
        """Rolls a drain back, unless the provider has already been asked to delete the machine."""
        return self.removals.drains.cancel(node, unremovable_reason, detail, now)

    # --- questions --------------------------------------------------------------------------------------------------------

    def filter(self, pod: Pod, rows: Rows, now: Instant) -> Codes:
        """Answers filter: a `Reason` for each of the rows, OK where the pod may go. Holds room there. Shape (len(rows),)."""
        self.generation = Generation(self.generation + 1)
        before = self.holds.counted_for(pod.uid)
        codes = self._placing.filter(pod, rows, self.policy, now)
        self.steering.asked(pod, rows, codes, self.policy, now)
        self._conditions.judged(pod.uid, refused=bool(codes.all()))
        if before - self.holds.counted_for(pod.uid):  # an earlier hold of the pod ended unused on some row
            self._owed += self.unschedulable_pods.activate_held()
        return codes

    def choose(self, pod: Pod, row: Row, now: Instant) -> bool:
        """Holds room on the one row that filter will return. False, without any change, if `filter` has to judge all rows."""
        node = self.nodes.by_row[row] if row != NO_ROW and self.steering.may_choose(pod.uid, self.policy.steering) else None
        if node is None or not self._placing.take(pod, row, self.policy, now):
            return False
        self.generation = Generation(self.generation + 1)
        self.steering.sought(pod, self.policy, now)
        self.steering.choices.made(pod.uid, node.name)
        self._conditions.judged(pod.uid, refused=False)
        return True

    def passing(self, pod: Pod, rows: Rows, now: Instant) -> Mask:
        """For each row, whether filter would find it feasible for the pod; shape (len(rows),). Changes nothing."""
        return self._placing.passing(pod, rows, self.policy, now)

    def prioritize(self, pod: Pod, rows: Rows) -> Int64:
        """Answers prioritize: the score of each row for the pod, 0..10; shape (len(rows),)."""
        return self._placing.prioritize(pod, rows, self.policy)

    def bind(self, uid: PodUid, key: PodKey, node: NodeName, now: Instant) -> BindAnswer:
        """Reserves room for the pod on the node. Returns the Bind effect, or the reason to refuse."""
        self.generation = Generation(self.generation + 1)
        answer = self._binding.bind(uid, key, node, self.policy, now)
        if answer.reason is Reason.OK and not answer.already:
            self.permit_limits.room_taken(node, now)
        return answer

    def preempt(self, pod: Pod, proposed: Mapping[NodeName, Sequence[PodUid]], now: Instant) -> Kept:
        """Answers preempt: the nodes that are kept, each with its victims and the number of additionally violated budgets."""
        return self._extender_candidates.answer(pod, proposed, self.policy, now)

    def ask_permit(self, ask: PermitAsk, caller: Caller | None, now: Instant) -> Decided | PermitRefusal:
        """Decides and counts an agent's permit. The caller carries out the decision's effects, then calls `permit_answer`."""
        self.generation = Generation(self.generation + 1)
        return self._permits.ask(ask, caller, self.policy, now)

    def permit_answer(self, decided: Decided) -> PermitAnswer | PermitRefusal:
        """The answer to a decided permit request: never more than is persisted."""
        return self._permits.answer(decided)

    def seen(self, pod: Pod, now: Instant) -> Seen:
        """What filter would base its answer for the pod on now. Changes nothing."""
        return self._placing.seen(pod, self.policy, now)
