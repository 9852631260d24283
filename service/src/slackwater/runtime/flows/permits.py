"""Agents' permit requests, and the events of pods that grow in place (neondatabase/autoscaling v0.36.1, pkg/plugin/run.go).

- `PermitFlow`: checks a request, decides what the pod gets and whether it migrates, and answers.
- `PermitCase`: a request with the state of its pod.
- `VerticalEvents`: applies the events of machines, of the writes of permits, and of migrations.

In: the request and the cluster state. Out: a `PermitDecision` with its effects, or a refusal. Invariant: once the agent of a
migrating pod knows of the migration, the pod keeps what it has and gets nothing more. A request is O(1): it looks only at the
pod and its node's sums.
"""

from dataclasses import dataclass, replace
from typing import assert_never

from slackwater.cluster.reservations import Reservation
from slackwater.cluster.vertical_pods import VerticalPodState, unreadable_permit
from slackwater.controllers.policy import Policy
from slackwater.model.effects import Effect, Resize
from slackwater.model.events import (
    MachineGone,
    MachineSeen,
    MigrationDeleteEnded,
    MigrationGone,
    MigrationNotStarted,
    MigrationSeen,
    MigrationStarted,
    PermitNotWritten,
    PermitWritten,
    VerticalEvent,
)
from slackwater.model.ids import Instant, PodKey, Row
from slackwater.model.objects import Pod
from slackwater.model.permits import Caller, PermitAnswer, PermitAsk, PermitDecision, PermitRefusal, PersistedPermit
from slackwater.model.pod_resources import PermitQuestion, settled
from slackwater.model.resources import LARGEST_AMOUNT, NOTHING, Amounts
from slackwater.model.vertical import Machine, ResizeTarget, Vertical
from slackwater.runtime.flows import Controllers
from slackwater_protocol.units import Bytes, MilliCpu, format_bytes


class PermitFlow:
    """Decides agents' permit requests."""

    def __init__(self, controllers: Controllers) -> None:
        self._controllers = controllers
        self._state = controllers.state

    def ask(self, ask: PermitAsk, caller: Caller | None, policy: Policy, now: Instant) -> PermitDecision | PermitRefusal:
        """Decides a request, and applies the decision to the pod's resources at once. Refuses a request that fails a check."""
        case = self._case(ask, caller, policy)
        if isinstance(case, PermitCase) and self._controllers.migrating.is_notified(case.pod) and not case.asks_as_held():
            message = "cannot change resources: agent has already been informed that pod is migrating"
            case = PermitRefusal(status=400, code="migrating", message=message)
        if isinstance(case, PermitCase):
            return self._decided(case, policy, now)
        pod = self._state.pods.by_key(ask.key)
        reservation = None if pod is None else self._state.reservations.get(pod.uid)
        known = reservation is not None and reservation.node in self._state.nodes.row_of
        return replace(case, node=reservation.node if reservation is not None and known else None)

    def _case(self, ask: PermitAsk, caller: Caller | None, policy: Policy) -> "PermitCase | PermitRefusal":
        """The request with the state of its pod, or the refusal if a check fails."""
        pod = self._state.pods.by_key(ask.key)
        reservation = None if pod is None else self._state.reservations.get(pod.uid)
        row = None if reservation is None else self._state.nodes.row_of.get(reservation.node)
        if pod is None or pod.ended or reservation is None or row is None:
            return PermitRefusal(status=404, code="pod_unknown", message="pod not found")
        if caller is not None and caller.node != reservation.node:
            message = f"{caller.name} speaks for pods of node {caller.node}, and {ask.key} is on {reservation.node}"
            return PermitRefusal(status=403, code="wrong_node", message=message)
        vertical_pod = self._state.vertical_pods.get(pod.uid)
        if pod.vertical is None or vertical_pod is None:
            return PermitRefusal(status=400, code="not_vertical", message="pod is not associated with a VM")
        # Plain pods have no slots: for these, an agent that counts in slots means compute units.
        slot_bytes = policy.vertical.compute_unit.memory if pod.vertical.machine is None else pod.vertical.slot_bytes
        question = _question(ask, pod.vertical, slot_bytes, policy)
        if isinstance(question, PermitRefusal):
            return question
        return PermitCase(pod, vertical_pod, reservation, row, ask, question, slot_bytes, self._state.vertical_pods.own(pod))

    def _decided(self, case: "PermitCase", policy: Policy, now: Instant) -> PermitDecision:
        pod, vertical_pod, load = case.pod, case.vertical_pod, case.ask.load
        migrating, held = self._controllers.migrating, case.has()
        vertical_pod.has = held.at_most(case.question.asked)  # a request below the last permit gives room back
        target_node = migrating.choice.decide(pod, vertical_pod, policy, now)
        leaves = target_node is not None or migrating.is_leaving(pod.uid)
        vertical_pod.heard_at, vertical_pod.load, vertical_pod.exact = now, load, True
        odd = any(asked % unit for asked, unit in zip(case.question.asked, case.question.unit, strict=True))
        self._state.event_counts.odd_requests += odd
        first_odd, vertical_pod.odd = odd and not vertical_pod.odd, vertical_pod.odd or odd
        if not leaves and pod.migratable and pod.vertical is not None and pod.vertical.migration is None:
            migrating.choice.queue.put(pod.uid, case.reservation.node, None if load is None else load.load1_micro)
        notified = migrating.is_notified(pod)
        if notified:
            effects = self._keep(case, now)
        else:
            effects = self._settle(case, now, withhold=leaves)
            if target_node is not None:
                effects += migrating.start(pod, target_node)
            elif leaves:
                migrating.leaving_pod_changed(pod.uid)
            # Before a resize: a pod's writes are sent in this order.
            effects = [*self._controllers.permit_limits.ensure(pod.uid, now, held=held), *effects]
        reservation = self._state.reservations.get(pod.uid)
        assert reservation is not None
        return PermitDecision(
            uid=pod.uid,
            row=case.row,
            asked=case.question.asked,
            held=held,
            slot_bytes=case.slot_bytes,
            notified=notified,
            migrate=target_node is not None,
            denied=any(reservation.pod_resources.capacity_pressure) and not leaves,
            first_odd=first_odd,
            effects=tuple(effects),
        )

    def _keep(self, case: "PermitCase", now: Instant) -> list[Effect]:
        """Leaves a migrating pod what it has, without its Buffer: its agent has said what the pod uses, which is what the pod
        has (`PermitCase.asks_as_held`). Returns effects."""
        uid, pod_resources = case.pod.uid, case.reservation.pod_resources
        if pod_resources.buffer == NOTHING:
            return []
        self._state.reservations.recount(uid, replace(pod_resources, reserved=case.question.asked, buffer=NOTHING))
        self._controllers.migrating.leaving_pod_changed(uid)
        self._controllers.permit_limits.persisted_permits.mark(uid)
        return self._state.unschedulable_pods.activate_recent(now)

    def _settle(self, case: "PermitCase", now: Instant, *, withhold: bool) -> list[Effect]:
        """Decides what the pod gets, by the growth formula, and updates its resources. `withhold`: the pod leaves its node, so
        it may not grow. Returns effects."""
        uid, vertical, before = case.pod.uid, case.pod.vertical, case.reservation.pod_resources
        assert vertical is not None
        question = case.question
        if case.ask.last_permit is None and before.buffer != NOTHING:  # a new agent continues with what its VM uses
            question = replace(question, last_permit=case.claimed())
        resizing = vertical.resizing
        put_off = resizing is not None and resizing.pending is not None
        if withhold:
            question = replace(question, withhold=True, max_step_units=0)
        if put_off:  # the node has not given the last permit, so the pod cannot be using it
            question = replace(question, last_permit=NOTHING)
        free, over = self._state.ledger.room(case.row)
        if put_off or self._state.quarantine.has_unreadable(case.reservation.node):  # the free room is not known
            free = NOTHING
        after = settled(before, free, question, over=over)
        effects: list[Effect] = []
        if resizing is not None:
            case.vertical_pod.permitted = after.reserved
            if not after.reserved.within(before.reserved):
                case.vertical_pod.resized_from = before.reserved
            # A resize that the node has put off stays requested as long as the agent still wants it.
            to = after.reserved.plus(after.capacity_pressure).at_most(resizing.whole) if put_off else after.reserved
            effects = _resize(case.pod, resizing, to)
            if not put_off:
                after = replace(after, reserved=after.reserved.at_least(vertical.using))
        pressed = any(after.capacity_pressure)
        since = case.vertical_pod.denied_since
        case.vertical_pod.denied_since = None if not pressed else now if since is None else since
        if after != before:
            self._state.reservations.recount(uid, after)
            if not before.reserved.within(after.reserved):
                effects += self._state.unschedulable_pods.activate_recent(now)
        return effects

    def answer(self, decided: PermitDecision) -> PermitAnswer | PermitRefusal:
        """The answer that may be given now: at most what a restart would reserve, but at least what the agent has. Notes that
        the agent has the permit from now on."""
        reservation, vertical_pod = self._state.reservations.get(decided.uid), self._state.vertical_pods.get(decided.uid)
        if reservation is None or vertical_pod is None:
            return PermitRefusal(status=404, code="pod_unknown", message="pod not found")
        granted = reservation.pod_resources.reserved if vertical_pod.permitted is None else vertical_pod.permitted
        granted = granted.at_most(decided.asked)
        # The agent may have asked for less after this request: then it keeps only that, not what it had at this request.
        held = decided.held if vertical_pod.has is None else decided.held.at_most(vertical_pod.has)
        persisted_permits = self._controllers.permit_limits.persisted_permits
        safe = granted if decided.notified else persisted_permits.safe(decided.uid).at_least(held)
        permit = granted.at_most(safe)
        vertical_pod.has = permit if vertical_pod.has is None else permit.at_least(vertical_pod.has)
        return PermitAnswer(
            permit=permit,
            slot_bytes=decided.slot_bytes,
            migrate=decided.migrate,
            permit_limit_pending=not granted.within(safe),
            node=reservation.node,
        )


@dataclass(frozen=True, slots=True)
class PermitCase:
    """One agent's request, with the state of its pod."""

    pod: Pod
    vertical_pod: VerticalPodState
    reservation: Reservation
    row: Row
    ask: PermitAsk
    question: PermitQuestion
    slot_bytes: int
    own: PersistedPermit | None  #: the pod's persisted permit

    def has(self) -> Amounts:
        """The amounts that the agent may use already: its last permit, less what it has given back since. An agent gives room
        back by a request below its last permit. The room counts as given back even if no answer reached the agent, since we or
        a former process may have persisted the lower permit."""
        vertical_pod, claimed = self.vertical_pod, self.claimed()
        if vertical_pod.has is not None:
            return claimed.at_most(vertical_pod.has)
        if vertical_pod.exact:
            return claimed
        return claimed.at_most(self.reservation.pod_resources.reserved if self.own is None else self.own.permit_limit)

    def asks_as_held(self) -> bool:
        """Does the request ask for exactly what the pod has? Until the agent of a pod has made its first request, the pod may
        have any part of its Buffer."""
        pod_resources = self.reservation.pod_resources
        certain = pod_resources.reserved.minus(pod_resources.buffer)
        most = certain.at_least(self.question.last_permit).at_most(pod_resources.reserved)
        return certain.within(self.question.asked) and self.question.asked.within(most)

    def claimed(self) -> Amounts:
        """The last permit that the agent reports. A new agent reports none: for it, what its pod uses now, but at most what it
        asks for."""
        if self.ask.last_permit is not None or self.pod.vertical is None:
            return self.question.last_permit
        return self.pod.vertical.using.at_most(self.question.asked)


def _question(ask: PermitAsk, vertical: Vertical, slot_bytes: int, policy: Policy) -> PermitQuestion | PermitRefusal:
    """The request in milliCPU and bytes, or the refusal if a check of the amounts fails."""
    unit = policy.vertical.compute_unit if ask.compute_unit is None else _in_bytes(ask.compute_unit, ask, slot_bytes)
    if vertical.machine is not None and unit.memory % slot_bytes:
        message = (
            f"computeUnit is not divisible by VM memory slot size: {{{unit.cpu / 1000:g} {format_bytes(unit.memory)}}} "
            f"not divisible by {format_bytes(Bytes(slot_bytes))}"
        )
        return PermitRefusal(status=400, code="bad_compute_unit", message=message)
    asked = _in_bytes(ask.asked, ask, slot_bytes)
    last_permit = NOTHING if ask.last_permit is None else _in_bytes(ask.last_permit, ask, slot_bytes)
    if (largest := max(*asked, *last_permit)) > LARGEST_AMOUNT:
        message = f"resources or lastPermit: got {largest}, want at most {LARGEST_AMOUNT} (milliCPU, bytes)"
        return PermitRefusal(status=400, code="too_large", message=message)
    if vertical.resizing is not None:  # no pod uses more than its containers have; a former process may have lowered that
        last_permit = last_permit.at_most(vertical.resizing.whole.at_least(vertical.using))
    return PermitQuestion(asked=asked, unit=unit, last_permit=last_permit, max_step_units=policy.vertical.max_step_units)


def _in_bytes(amounts: Amounts, ask: PermitAsk, slot_bytes: int) -> Amounts:
    return Amounts(MilliCpu(amounts.cpu), Bytes(amounts.memory * slot_bytes)) if ask.slots else amounts


def _resize(pod: Pod, resizing: ResizeTarget, permit: Amounts) -> list[Effect]:
    """The effect that resizes the pod's one resizable container, so that the pod requests its permit; none if it does
    already."""
    if permit == resizing.whole:
        return []
    to = resizing.requests.plus(permit.minus(resizing.whole)).at_least(NOTHING)
    return [Resize(uid=pod.uid, key=pod.key, container=resizing.container, to=to, limits=resizing.limits)]


class VerticalEvents:
    """Applies events about machines, permit writes and migrations to permit limits, migrations and pods' resources."""

    def __init__(self, controllers: Controllers) -> None:
        self._controllers = controllers
        self._state = controllers.state

    def apply(self, event: VerticalEvent, policy: Policy, now: Instant) -> list[Effect]:  # one case for each
        match event:
            case MachineSeen():
                return self._machine_seen(event.machine, policy)
            case MachineGone(key):
                self._machine_gone(key)
            case PermitWritten():
                return self._controllers.permit_limits.written(event, now)
            case PermitNotWritten():
                return self._controllers.permit_limits.not_written(event, now)
            case MigrationSeen(migration):
                return self._controllers.migrating.seen(migration, now)
            case MigrationGone(key):
                self._controllers.migrating.gone(key)
            case MigrationStarted(pod):
                self._controllers.migrating.started(pod)
            case MigrationNotStarted(pod):
                self._controllers.migrating.not_started(pod, now)
            case MigrationDeleteEnded(key, deleted):
                self._controllers.migrating.deletion_ended(key, deleted=deleted, now=now)
            case _:
                assert_never(event)
        return []

    def _machine_gone(self, key: PodKey) -> None:
        self._state.annotations.machine_gone(key)
        for uid in self._state.vertical_pods.of_machine(key):
            self._controllers.permit_limits.persisted_permits.mark(uid)

    def _machine_seen(self, machine: Machine, policy: Policy) -> list[Effect]:
        """Handles the present state of a VirtualMachine. If its permit annotation changed, pods whose resources are assumed
        since a restart are counted again. Returns effects."""
        if not self._state.annotations.machine_seen(machine):
            return []
        effects: list[Effect] = []
        for uid in self._state.vertical_pods.of_machine(machine.key):
            reservation, pod = self._state.reservations.get(uid), self._state.pods.get(uid)
            if reservation is not None and pod is not None:
                pod_resources = self._state.vertical_pods.seen(
                    pod, reservation.pod_resources, scheduler_name=policy.scheduler_name
                )
                if pod_resources != reservation.pod_resources:
                    self._state.reservations.recount(uid, pod_resources)
                self._controllers.permit_limits.persisted_permits.mark(uid)
                effects += unreadable_permit(pod, machine.permit)
        return effects
