"""Agents' permit requests: checks them, decides what the pod gets, and answers (neondatabase/autoscaling v0.36.1,
pkg/plugin/run.go). `runtime.flows.permits` calls these steps in order, and starts migrations between them.

- `Permits`: the steps of a request.
- `PermitCase`: a request with the state of its pod.
- `PermitDecision`: the result, before a permit limit is persisted.

Each step is O(1): it looks only at the pod and its node's sums.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from slackwater.cluster.cluster_state import ClusterState
from slackwater.cluster.reservations import Reservation
from slackwater.cluster.vertical_pods import VerticalPodState
from slackwater.controllers.permits.permit_limits import PermitLimits
from slackwater.controllers.policy import Policy
from slackwater.model.effects import Effect, Resize
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid, Row
from slackwater.model.ledger.transitions import Question, settled
from slackwater.model.objects import Pod
from slackwater.model.permits import Caller, PermitAnswer, PermitAsk, PermitRefusal, PersistedPermit
from slackwater.model.resources import LARGEST_AMOUNT, NOTHING, Amounts
from slackwater.model.vertical import ResizeTarget, Vertical
from slackwater_protocol.units import Bytes, MilliCpu, format_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitDecision:
    """The decision about an agent's request, before a permit limit is persisted for it. `denied`: some growth had no room.

    `asked`: what the agent asks for. `held`: what the agent may use already (`PermitCase.has`). Both are in milliCPU and bytes,
    whatever units the agent uses. `first_odd`: this is the pod's first request that is no multiple of its compute unit.
    """

    uid: PodUid
    row: Row
    asked: Amounts
    held: Amounts
    slot_bytes: int
    notified: bool  #: the agent knows that the pod migrates, so it is permitted what it has
    migrate: bool
    denied: bool
    first_odd: bool
    effects: tuple[Effect, ...]


class Permits:
    """The steps of an agent's permit request. `room_given` is called when a pod has given back room, and returns effects."""

    def __init__(
        self,
        cluster_state: ClusterState,
        *,
        permit_limits: PermitLimits,
        room_given: Callable[[Instant], list[Effect]],
    ) -> None:
        self._ledger = cluster_state.ledger
        self._nodes = cluster_state.nodes
        self._pods = cluster_state.pods
        self._reservations = cluster_state.reservations
        self._quarantine = cluster_state.quarantine
        self._vertical_pods = cluster_state.vertical_pods
        self._permit_limits = permit_limits
        self._event_counts = cluster_state.event_counts
        self._room_given = room_given

    def node_of(self, key: PodKey) -> NodeName | None:
        """The node on which the pod counts; None if it counts on none that exists."""
        pod = self._pods.by_key(key)
        reservation = None if pod is None else self._reservations.get(pod.uid)
        return None if reservation is None or reservation.node not in self._nodes.row_of else reservation.node

    def case(self, ask: PermitAsk, caller: Caller | None, policy: Policy) -> "PermitCase | PermitRefusal":
        """The request with the state of its pod, or the refusal if a check fails."""
        pod = self._pods.by_key(ask.key)
        reservation = None if pod is None else self._reservations.get(pod.uid)
        row = None if reservation is None else self._nodes.row_of.get(reservation.node)
        if pod is None or pod.ended or reservation is None or row is None:
            return PermitRefusal(status=404, code="pod_unknown", message="pod not found")
        if caller is not None and caller.node != reservation.node:
            message = f"{caller.name} speaks for pods of node {caller.node}, and {ask.key} is on {reservation.node}"
            return PermitRefusal(status=403, code="wrong_node", message=message)
        vertical_pod = self._vertical_pods.get(pod.uid)
        if pod.vertical is None or vertical_pod is None:
            return PermitRefusal(status=400, code="not_vertical", message="pod is not associated with a VM")
        slot_bytes = _slot_bytes(pod.vertical, policy)
        question = _question(ask, pod.vertical, slot_bytes, policy)
        if isinstance(question, PermitRefusal):
            return question
        return PermitCase(pod, vertical_pod, reservation, row, ask, question, slot_bytes, self._vertical_pods.own(pod))

    def note_given_back(self, case: "PermitCase") -> Amounts:
        """Notes the room that a request below the last permit gives back. Returns what the agent had before this request."""
        held = case.has()
        case.vertical_pod.has = held.at_most(case.question.asked)
        return held

    def note_report(self, case: "PermitCase", now: Instant) -> bool:
        """Notes what the agent reported. Returns whether this is the pod's first request that is no multiple of the compute
        unit."""
        vertical_pod, question = case.vertical_pod, case.question
        vertical_pod.heard_at, vertical_pod.load, vertical_pod.exact = now, case.ask.load, True
        odd = any(asked % unit for asked, unit in zip(question.asked, question.unit, strict=True))
        self._event_counts.odd_requests += odd
        first_odd, vertical_pod.odd = odd and not vertical_pod.odd, vertical_pod.odd or odd
        return first_odd

    def drop_buffer(self, case: "PermitCase") -> bool:
        """Sets the pod's Reserved to what its agent asks for, which is what the pod has (`PermitCase.asks_as_held`), and its
        Buffer to zero. Returns False, and changes nothing, if the pod has no Buffer."""
        pod_resources = case.reservation.pod_resources
        if pod_resources.buffer == NOTHING:
            return False
        self._reservations.recount(case.pod.uid, replace(pod_resources, reserved=case.question.asked, buffer=NOTHING))
        return True

    def settle(self, case: "PermitCase", now: Instant, *, withhold: bool) -> list[Effect]:
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
        free, over = self._ledger.room(case.row)
        if put_off or self._quarantine.has_unreadable(case.reservation.node):  # the free room is not known
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
            self._reservations.recount(uid, after)
            if not before.reserved.within(after.reserved):
                effects += self._room_given(now)
        return effects

    def answer(self, decided: PermitDecision) -> PermitAnswer | PermitRefusal:
        """The answer that may be given now: at most what a restart would reserve, but at least what the agent has. Notes that
        the agent has the permit from now on."""
        reservation, vertical_pod = self._reservations.get(decided.uid), self._vertical_pods.get(decided.uid)
        if reservation is None or vertical_pod is None:
            return PermitRefusal(status=404, code="pod_unknown", message="pod not found")
        granted = reservation.pod_resources.reserved if vertical_pod.permitted is None else vertical_pod.permitted
        granted = granted.at_most(decided.asked)
        # The agent may have asked for less after this request: then it keeps only that, not what it had at this request.
        held = decided.held if vertical_pod.has is None else decided.held.at_most(vertical_pod.has)
        safe = granted if decided.notified else self._permit_limits.safe(decided.uid).at_least(held)
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
    question: Question
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


def _question(ask: PermitAsk, vertical: Vertical, slot_bytes: int, policy: Policy) -> Question | PermitRefusal:
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
    return Question(asked=asked, unit=unit, last_permit=last_permit, max_step_units=policy.vertical.max_step_units)


def _slot_bytes(vertical: Vertical, policy: Policy) -> int:
    """Bytes of a memory slot. Plain pods have no slots: for these, an agent that counts in slots means compute units."""
    return vertical.slot_bytes if vertical.machine is not None else policy.vertical.compute_unit.memory


def _in_bytes(amounts: Amounts, ask: PermitAsk, slot_bytes: int) -> Amounts:
    return Amounts(MilliCpu(amounts.cpu), Bytes(amounts.memory * slot_bytes)) if ask.slots else amounts


def _resize(pod: Pod, resizing: ResizeTarget, permit: Amounts) -> list[Effect]:
    """The effect that resizes the pod's one resizable container, so that the pod requests its permit; none if it does
    already."""
    if permit == resizing.whole:
        return []
    to = resizing.requests.plus(permit.minus(resizing.whole)).at_least(NOTHING)
    return [Resize(uid=pod.uid, key=pod.key, container=resizing.container, to=to, limits=resizing.limits)]
