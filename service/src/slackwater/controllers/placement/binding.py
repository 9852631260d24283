"""Binds pods: turns a hold into a reservation, returns the effect `Bind`, and handles every way in which that API call can end.

The reservation is made before the API call and stays while the outcome is unknown: a bind that may have happened counts.
"""

from typing import Final, NamedTuple

from slackwater.cluster.cluster_state import ClusterState
from slackwater.cluster.holds import HoldKey
from slackwater.cluster.reservations import Reservation, ReservationState
from slackwater.controllers.policy import Policy
from slackwater.model.effects import Announce, Bind, Effect, ReadPod
from slackwater.model.events import BindEnded
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid, Row
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater.model.resources import Amounts

#: How long a reservation may stay "binding". The dispatcher's deadline is shorter and ends the call before that.
_BINDING_SECONDS: Final = 120.0


class BindAnswer(NamedTuple):
    """The answer to a bind request.

    `reason`: OK if room is reserved for the pod on the node; any other value says why the bind is refused. `effect`: the API
    call to make; None if there is none. `already`: the reservation was made before, because the pod is bound there or an
    earlier bind request is under way.
    """

    reason: Reason
    effect: Bind | None
    already: bool


class Binding:
    """Grants or refuses binds. No other class makes a reservation for a pod before the watch shows the pod on a node."""

    def __init__(self, cluster_state: ClusterState) -> None:
        self._state = cluster_state

    def bind(self, uid: PodUid, key: PodKey, node: NodeName, policy: Policy, now: Instant) -> BindAnswer:
        """Reserves room for the pod on the node, or refuses the bind. A repeated request for the same pod and node makes no
        second reservation."""
        self._state.event_counts.unexpected_binds += not policy.bind
        pod = self._state.pods.known(uid)
        reservation = self._state.reservations.get(uid)
        reason = self._refusal(uid, key, node, pod, reservation)
        if reason is Reason.OK and reservation is not None:
            return self._again(uid, reservation, now)
        if reason is Reason.OK and pod is not None:
            reason = self._reserve(pod, node, policy, now)
        if reason is not Reason.OK:
            self._state.event_counts.bind_refusals[reason] += 1
            return BindAnswer(reason, None, False)
        return BindAnswer(Reason.OK, Bind(uid, key, node), False)

    def _again(self, uid: PodUid, reservation: Reservation, now: Instant) -> BindAnswer:
        self._state.holds.drop(HoldKey(uid))
        if reservation.state in {"seen", "bound"}:
            return BindAnswer(Reason.OK, None, True)
        # The outcome of this request decides, and not the read of the pod that an earlier unanswered request led to. But if
        # this request is refused, the earlier request may have bound the pod nevertheless.
        state: ReservationState = "binding" if reservation.state == "binding" else "repeated"
        self._state.reservations.settle(uid, state, Instant(now + _BINDING_SECONDS))
        return BindAnswer(Reason.OK, Bind(uid, reservation.key, reservation.node), True)

    def _refusal(self, uid: PodUid, key: PodKey, node: NodeName, pod: Pod | None, reservation: Reservation | None) -> Reason:
        if self._state.pods.is_gone(uid) or (pod is not None and pod.ended):
            return Reason.POD_FINISHED
        if pod is None or pod.key != key:
            return Reason.POD_UNKNOWN
        if reservation is not None:
            return Reason.OK if reservation.node == node else Reason.POD_BOUND_ELSEWHERE
        if node in self._state.quarantine:
            return Reason.NODE_QUARANTINED
        return Reason.OK if node in self._state.nodes.row_of else Reason.NODE_UNKNOWN

    def _reserve(self, pod: Pod, node: NodeName, policy: Policy, now: Instant) -> Reason:
        row = self._state.nodes.row_of[node]
        # Room that is kept for the pod itself is free for it.
        preemptors = HoldKey(pod.uid, "preemption")
        own, preemptor = self._state.holds.drop(HoldKey(pod.uid)), self._state.holds.drop(preemptors)
        with self._state.holds.beside(pod, None if preemptor is None else preemptor.preemption):
            reason = self._lacking(row, pod.need, beside_holds=own is None or own.row != row)
        if reason is not Reason.OK:
            if preemptor is not None:
                self._state.holds.put(preemptors, preemptor)
            self._state.bind_backoff.add(pod.uid, node, for_room=True, deadline=Instant(now + policy.bind_backoff))
            return reason
        self._state.holds.drop_planned(pod.uid, row)
        deadline = Instant(now + _BINDING_SECONDS)
        pod_resources = self._state.vertical_pods.placed(pod)
        self._state.reservations.put(pod.uid, Reservation.of(pod, node, pod_resources, "binding", deadline))
        return Reason.OK

    def _lacking(self, row: Row, wanted: Amounts, *, beside_holds: bool) -> Reason:
        """Why the row has no room for `wanted` beside what is Reserved, or OK. With `beside_holds` also beside what is held for
        other pods; but room that these are only guessed to need there yields to a bind, which is certain."""
        columns = self._state.ledger.columns
        for r, full in enumerate((Reason.NOT_ENOUGH_CPU, Reason.NOT_ENOUGH_MEMORY)):
            free = columns.total[r, row] - columns.reserved[r, row]
            if wanted[r] and wanted[r] > free:
                return full
            short = wanted[r] - (free - columns.held[r, row])
            if wanted[r] and beside_holds and short > 0 and short > self._state.holds.guessed_on(row)[r]:
                return Reason.HELD_FOR_OTHERS
        return Reason.OK

    def ended(self, event: BindEnded, policy: Policy, now: Instant) -> list[Effect]:
        """Handles the end of the API call of a bind. Returns the next effects."""
        reservation = self._state.reservations.get(event.uid)
        if event.outcome == "bound" and (reservation is None or reservation.node != event.node):
            self._bound_after_all(event, policy, now)
            return []
        if reservation is None or reservation.node != event.node or reservation.state in {"seen", "bound"}:
            return []  # the watch has already shown the pod there
        if event.outcome == "bound":
            self._state.reservations.settle(event.uid, "bound", Instant(now + policy.confirm_seconds))
            return []
        if event.outcome in {"unknown", "unreachable"}:
            self._state.event_counts.bind_refusals[Reason.API_UNREACHABLE] += 1
        no_news = reservation.state == "repeated" and event.outcome in {"refused", "unreachable", "unsent"}
        if event.outcome == "unknown" or no_news:
            self._state.reservations.settle(event.uid, "unsure", Instant(now + policy.confirm_seconds))
            return [ReadPod(event.uid, reservation.key)]
        return self._failed(event, reservation, policy, now)

    def _bound_after_all(self, event: BindEnded, policy: Policy, now: Instant) -> None:
        """Makes a reservation for a pod whose bind had been given up, but succeeded: the API server's answer overrides what was
        assumed meanwhile."""
        pod = self._state.pods.known(event.uid)
        if pod is None or pod.ended or pod.node is not None:
            return
        self._state.reservations.drop(event.uid)
        pod_resources, deadline = self._state.vertical_pods.placed(pod), Instant(now + policy.confirm_seconds)
        self._state.reservations.put(event.uid, Reservation.of(pod, event.node, pod_resources, "bound", deadline))

    def _failed(self, event: BindEnded, reservation: Reservation, policy: Policy, now: Instant) -> list[Effect]:
        self._state.reservations.drop(event.uid)
        if event.outcome == "elsewhere":
            return [ReadPod(event.uid, reservation.key)]
        if event.outcome == "unsent":
            self._state.event_counts.bind_refusals[Reason.ROOM_NOT_ON_RECORD] += 1
        if event.outcome in {"gone", "unreachable", "unsent"}:
            return []
        self._state.event_counts.bind_refusals[Reason.API_REFUSED] += 1
        self._state.bind_backoff.add(event.uid, event.node, for_room=False, deadline=Instant(now + policy.bind_backoff))
        note = f"{Reason.API_REFUSED.text} to {event.node}: {event.detail}"
        return [Announce(event.uid, reservation.key, "Warning", "BindRefused", note)]

    def read_unbound(self, uid: PodUid) -> bool:
        """Drops the doubted reservation of a pod that a read found without a node. True if there was one.

        Only a read decides, because a watch event may be older than our bind. An unsure bind becomes doubted, and its pod is
        read, `confirm_seconds` after the call ended without an answer. A request that was under way when the connection broke
        has ended by then.
        """
        reservation = self._state.reservations.get(uid)
        if reservation is None or reservation.state != "doubted":
            return False
        self._state.reservations.drop(uid)
        return True

    def overdue(self, policy: Policy, now: Instant) -> list[Effect]:
        """Marks each reservation that is not confirmed at its deadline as doubted. Returns the effects that read the pods."""
        effects: list[Effect] = []
        for uid, reservation in self._state.reservations.overdue(now):
            self._state.reservations.settle(uid, "doubted", Instant(now + policy.confirm_seconds))
            effects.append(ReadPod(uid, reservation.key))
        return effects
