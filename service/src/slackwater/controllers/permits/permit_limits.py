"""Permit limits, which outlive this process: persists growth before the answer to the agent, and shrinking later
(docs/adr/0011).

Two invariants hold. Each answered permit is at most what a restart would reserve for the pod. And a restart would not reserve
more on a node than its Total: growth into room that other pods gave back waits until their lower permits are persisted too.
A write for growth is urgent, since an agent waits for it. All other writes are lazy: they are due some time later.
"""

import heapq
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final

from slackwater.cluster.cluster_state import ClusterState
from slackwater.cluster.journal import ChangeJournal
from slackwater.cluster.reservations import Reservation
from slackwater.cluster.vertical_pods import VerticalPodState
from slackwater.controllers.permits.persisted_permits import PersistedPermits
from slackwater.controllers.policy import Policy
from slackwater.model.effects import Effect, WritePermit
from slackwater.model.events import PermitNotWritten, PermitWritten
from slackwater.model.ids import Instant, NodeName, PodUid
from slackwater.model.permits import PersistedPermit, read_written
from slackwater.model.resources import NOTHING, Amounts, amounts_of

#: A permit limit is set so many compute units above the permit, so that the next small steps need no write.
_STEP_UNITS: Final = 4
#: The least time between two lazy writes of a pod's annotation.
_LAZY_SECONDS: Final = 1.0
#: How long a permit must be unchanged before the room between it and its permit limit is given back.
_QUIET_SECONDS: Final = 2.0
#: A pod that grows again within this time after its permit limit was lowered is oscillating. Each time this happens in a row,
#: both pauses above are multiplied by the factor for the pod, up to the maximum. So a load that comes and goes costs no writes.
_OSCILLATING_SECONDS: Final = 90.0
_OSCILLATING_FACTOR: Final = 4.0
_MOST_OSCILLATING: Final = 3
#: The pause after a write that was refused.
_WRITE_TIMEOUT_SECONDS: Final = 5.0
#: The most lazy writes that one tick starts. The others follow in the next ticks, so urgent writes hardly wait for them.
_MAX_PER_TICK: Final = 16
#: The due time of lazy writes that a bind or a refused pod waits for: they go before all others, and their number is not
#: limited.
_AT_ONCE: Final = Instant(0.0)
#: How often the write for one growth is tried while the annotation turns out to have another text than expected.
_MAX_ATTEMPTS: Final = 3


class PermitLimits:
    """Decides when a permit annotation is written, and with which permit limit, so that the module's two invariants hold.

    `settled` collects the pods whose urgent write has ended; `PermitService` reads it.
    """

    def __init__(self, cluster_state: ClusterState, *, policy: Policy) -> None:
        self._state = cluster_state
        self.persisted_permits = PersistedPermits(cluster_state, policy=policy)
        self._policy = policy
        self._due: list[tuple[Instant, PodUid]] = []
        #: By node, pods whose growth waits until lower permits of other pods are persisted.
        self._blocked: dict[NodeName, dict[PodUid, None]] = {}
        self._released: list[NodeName] = []
        #: Pods whose urgent write has ended, and pods that no longer count, whose agents wait in vain.
        self.settled = ChangeJournal[PodUid]()

    def adopt_policy(self, policy: Policy) -> None:
        """Uses this policy from now on."""
        self._policy = self.persisted_permits.policy = policy

    def ensure(self, uid: PodUid, now: Instant, *, held: Amounts | None = None) -> list[Effect]:
        """Persists what a change of the pod's resources needs: returns the writes that must go out now, and schedules those
        that may wait. `held`: what the pod's agent, which asks, has already; None if no agent asks."""
        state = self._state
        vertical_pod, reservation, pod = state.vertical_pods.get(uid), state.reservations.get(uid), state.pods.known(uid)
        if vertical_pod is None or reservation is None or pod is None:
            return []
        self._note(uid, vertical_pod, now)
        vertical_pod.lagging = self._is_lagging(uid, reservation)
        safe = self.persisted_permits.safe(uid, late=held is not None).at_least(held or NOTHING)
        if not vertical_pod.exact or not state.vertical_pods.may_write(pod) or reservation.pod_resources.reserved.within(safe):
            return []
        if not vertical_pod.urgent:
            vertical_pod.urgent, vertical_pod.attempts = True, 0
            vertical_pod.oscillating = _oscillations(vertical_pod, reservation.pod_resources.reserved, now)
            vertical_pod.lowered_from = None
        return self._write_ahead(uid, vertical_pod, now)

    def _is_lagging(self, uid: PodUid, reservation: Reservation) -> bool:
        """Has the pod grown, within its permit limit, into room that other pods gave back but still have by their persisted
        permits?"""
        return self._raises(uid, reservation) and self.persisted_permits.is_blocked(reservation.node, beside=uid)

    def _raises(self, uid: PodUid, reservation: Reservation) -> bool:
        """Is the pod's present permit more than a restart would certainly count?"""
        pod = self._state.pods.known(uid)
        if pod is None or pod.vertical is None:
            return False
        restored = self.persisted_permits.restored(pod)
        return not reservation.pod_resources.reserved.within(restored.reserved.minus(restored.buffer))

    def _note(self, uid: PodUid, vertical_pod: VerticalPodState, now: Instant) -> None:
        """Schedules a lazy write if the pod's annotation needs one."""
        self.persisted_permits.mark(uid)
        reservation, pod = self._state.reservations.get(uid), self._state.pods.known(uid)
        if reservation is None or pod is None or not _is_kept(vertical_pod) or reservation.pod_resources.buffer != NOTHING:
            vertical_pod.settle_at = None
            return
        own, permit = self._state.vertical_pods.own(pod), reservation.pod_resources.reserved
        stale = own is not None and not own.permit.within(permit)
        if own is not None and own.permit == own.permit_limit == permit:
            vertical_pod.settle_at = None
            return
        if vertical_pod.settle_at is None or vertical_pod.settle_for != permit:
            pause = _LAZY_SECONDS if stale or own is None else _QUIET_SECONDS
            pause *= _OSCILLATING_FACTOR**vertical_pod.oscillating
            vertical_pod.settle_for = permit
            self._settle(uid, vertical_pod, Instant(max(now + pause, vertical_pod.written_at + _LAZY_SECONDS)))

    def _settle(self, uid: PodUid, vertical_pod: VerticalPodState, at: Instant) -> None:
        vertical_pod.settle_at = at
        heapq.heappush(self._due, (at, uid))

    # --- growth -----------------------------------------------------------------------------------------------------------

    def _write_ahead(self, uid: PodUid, vertical_pod: VerticalPodState, now: Instant) -> list[Effect]:
        reservation = self._state.reservations.get(uid)
        if reservation is None or vertical_pod.writing is not None:
            return []  # the end of that write starts the next one
        if others := self.persisted_permits.blocking_pods(reservation.node, beside=uid):
            self._blocked.setdefault(reservation.node, {})[uid] = None
            return [effect for other in others for effect in self._lower(other, now)]
        vertical_pod.attempts += 1
        permit = reservation.pod_resources.reserved
        return self._write(uid, permit=permit, permit_limit=self._permit_limit(reservation), now=now)

    def room_taken(self, node: NodeName, now: Instant) -> None:
        """Schedules, for the next tick, writes that persist what pods of the node gave back: another pod was placed there, and
        may use that room."""
        self._lower_at_once(self.persisted_permits.blocking_pods(node), now)

    def room_wanted(self, node: NodeName, now: Instant) -> None:
        """Schedules, for the next tick, writes that persist what pods of the node gave back: another pod would fit there
        then."""
        self._lower_at_once(self.persisted_permits.over_reserved_on(node), now)

    def _lower_at_once(self, uids: Iterable[PodUid], now: Instant) -> None:
        for uid in uids:
            vertical_pod = self._state.vertical_pods.get(uid)
            if vertical_pod is not None and vertical_pod.writing is None and vertical_pod.written_at <= now:
                self._settle(uid, vertical_pod, _AT_ONCE)

    # --- writing ----------------------------------------------------------------------------------------------------------

    def _lower(self, uid: PodUid, now: Instant) -> list[Effect]:
        """Persists what the pod gave back, and none of its growth, so this write need not wait for other pods. If the pod gave
        nothing back, the annotation gets the same amounts with a new number: then no earlier write that is still on its way can
        change it any more."""
        vertical_pod = self._state.vertical_pods.get(uid)
        if (
            vertical_pod is None or vertical_pod.writing is not None or vertical_pod.written_at > now
        ):  # usually because it is being lowered already
            return []
        reservation, pod = self._state.reservations.get(uid), self._state.pods.known(uid)
        if reservation is None or pod is None:
            return []
        restored, own, has = (
            self.persisted_permits.restored(pod),
            self._state.vertical_pods.own(pod),
            reservation.pod_resources.reserved,
        )
        permit = restored.reserved.minus(restored.buffer).at_most(has)
        permit_limit = (restored.reserved if own is None else own.permit_limit).at_most(has).at_least(permit)
        return self._write(uid, permit=permit, permit_limit=permit_limit, now=now)

    def _write_lazily(self, uid: PodUid, now: Instant) -> list[Effect]:
        """Persists the pod's present permit. If persisted permits of other pods block that, persists only what the pod and
        these pods gave back, and tries again later."""
        vertical_pod, reservation = self._state.vertical_pods.get(uid), self._state.reservations.get(uid)
        if vertical_pod is None or reservation is None:
            return []
        if not _is_kept(vertical_pod) or reservation.pod_resources.buffer != NOTHING:
            return self._lower(uid, now)
        others = self.persisted_permits.blocking_pods(reservation.node, beside=uid) if self._raises(uid, reservation) else []
        if not others:
            return self._write(
                uid, permit=reservation.pod_resources.reserved, permit_limit=reservation.pod_resources.reserved, now=now
            )
        self._settle(uid, vertical_pod, Instant(now + _LAZY_SECONDS))
        return [effect for other in [uid, *others] for effect in self._lower(other, now)]

    def _write(self, uid: PodUid, *, permit: Amounts, permit_limit: Amounts, now: Instant) -> list[Effect]:
        state = self._state
        vertical_pod, pod = state.vertical_pods.get(uid), state.pods.known(uid)
        if vertical_pod is None or pod is None or vertical_pod.writing is not None or not state.vertical_pods.may_write(pod):
            return []
        place = state.annotations.place_of(pod)
        before = read_written(place.text)
        number = 1 if before is None else before.number + 1
        written = PersistedPermit(
            permit=permit, permit_limit=permit_limit, pod=uid, number=number, epoch=self._state.vertical_pods.epoch
        )
        if before is not None and not before.permit_limit.within(permit_limit):
            vertical_pod.lowered_from = before.permit_limit
        vertical_pod.writing, vertical_pod.settle_at, vertical_pod.written_at = written, None, now
        self._state.event_counts.permit_writes += 1
        self.persisted_permits.mark(uid)
        return [WritePermit(uid=place.uid, key=place.key, on=place.on, pod=uid, before=place.text, text=written.text())]

    def _permit_limit(self, reservation: Reservation) -> Amounts:
        """The permit limit to persist: a few steps above the permit, within Max and within the free room."""
        permit, row, unit = (
            reservation.pod_resources.reserved,
            self._state.nodes.row_of.get(reservation.node),
            self._policy.vertical.compute_unit,
        )
        free = NOTHING if row is None else self._state.ledger.room(row)[0]
        step = amounts_of([min(room // u, _STEP_UNITS) * u for room, u in zip(free, unit, strict=True)])
        return permit.plus(step).at_most(reservation.pod_resources.max).at_least(permit)

    def written(self, event: PermitWritten, now: Instant) -> list[Effect]:
        """Handles the end of a write: the API server's answer shows the annotation's present text. Returns the next effects."""
        vertical_pod, pod = self._state.vertical_pods.get(event.pod), self._state.pods.known(event.pod)
        if pod is not None and pod.vertical is not None:
            self._state.annotations.note(pod, event.text, event.version, counted=vertical_pod is not None)
        if vertical_pod is None:
            return []
        meant, vertical_pod.writing, vertical_pod.unconfirmed = vertical_pod.writing, None, ()
        self._fence(event.pod, vertical_pod)
        if meant is None or event.text != meant.text():
            self._state.event_counts.permit_write_failures += 1
        return self._after_write(event.pod, vertical_pod, now)

    def not_written(self, event: PermitNotWritten, now: Instant) -> list[Effect]:
        """Handles a write that failed, or whose outcome is unknown. A waiting agent gets what is safe without the write; the
        agent's next request tries the write again."""
        self._state.event_counts.permit_write_failures += 1
        vertical_pod = self._state.vertical_pods.get(event.pod)
        if vertical_pod is None:
            return []
        if vertical_pod.writing is not None:
            vertical_pod.unconfirmed = _extremes((*vertical_pod.unconfirmed, vertical_pod.writing))
        vertical_pod.writing, vertical_pod.attempts = None, _MAX_ATTEMPTS
        vertical_pod.written_at = Instant(now + _WRITE_TIMEOUT_SECONDS)
        return self._after_write(event.pod, vertical_pod, now)

    def _fence(self, uid: PodUid, vertical_pod: VerticalPodState) -> None:
        """Marks all pods of the machine as fenced: earlier writes expect an older text of the annotation, so the API server
        will refuse them."""
        for other in [uid] if vertical_pod.machine is None else self._state.vertical_pods.of_machine(vertical_pod.machine):
            if (found := self._state.vertical_pods.get(other)) is not None:
                found.fenced = True
                self.persisted_permits.mark(other)

    def _after_write(self, uid: PodUid, vertical_pod: VerticalPodState, now: Instant) -> list[Effect]:
        reservation = self._state.reservations.get(uid)
        effects: list[Effect] = []
        if reservation is not None and vertical_pod.urgent:
            vertical_pod.lagging = self._is_lagging(uid, reservation)
            covered = reservation.pod_resources.reserved.within(self.persisted_permits.safe(uid))
            if covered or vertical_pod.attempts >= _MAX_ATTEMPTS:
                vertical_pod.urgent = False
                self.settled.note(uid)
            else:
                effects = self._write_ahead(uid, vertical_pod, now)
        if vertical_pod.writing is None:
            self._note(uid, vertical_pod, now)
        return effects + (self._unblock(reservation.node, now) if reservation is not None else [])

    def _unblock(self, node: NodeName, now: Instant) -> list[Effect]:
        """Tries again to persist the growth of the pods that wait on the node.

        For a pod that still has to wait, the permits of all other pods that block it are lowered. Two such pods cover every
        permit of the node: the second one also has the first one's permit lowered. So for the remaining pods it is enough to
        check whether a permit blocks them.
        """
        effects: list[Effect] = []
        waited = self._blocked.pop(node, {})
        still = self._blocked.setdefault(node, {}) if waited else {}
        for uid in waited:
            vertical_pod = self._state.vertical_pods.get(uid)
            if vertical_pod is None or not vertical_pod.urgent:
                continue
            if len(still) > 1 and self.persisted_permits.is_blocked(node, beside=uid):
                still[uid] = None
            else:
                effects += self._write_ahead(uid, vertical_pod, now)
        if not still:
            self._blocked.pop(node, None)
        return effects

    def due(self, now: Instant) -> list[Effect]:
        """The writes that are due now: lazy ones, and growth that no longer has to wait for a pod that is gone."""
        effects = [effect for node in self._released for effect in self._unblock(node, now)]
        self._released.clear()
        while self._due and self._due[0][0] <= (now if len(effects) < _MAX_PER_TICK else _AT_ONCE):
            at, uid = heapq.heappop(self._due)
            vertical_pod = self._state.vertical_pods.get(uid)
            if vertical_pod is not None and vertical_pod.settle_at == at:
                effects += self._write_lazily(uid, now)
        return effects

    def forget(self, uid: PodUid, node: NodeName) -> None:
        """Removes a pod that no longer counts on the node. Growth that waited for this room is tried again at the next tick."""
        self.persisted_permits.forget(uid, node)
        self.settled.note(uid)
        self._released.append(node)

    def forget_blocked_nodes(self) -> None:
        """Forgets the nodes on which growth was to be tried again. Called on a standby, which decides nothing."""
        self._released.clear()

    def reset(self) -> None:
        """Forgets the writes that are due and the growth that waits. Called before the states of all vertical pods are built
        again."""
        self._due.clear()
        self._blocked.clear()
        self._released.clear()

    def rebuild(self) -> None:
        """Builds the queue of due writes and the over-reservations again, after a dump restored the vertical pods' states."""
        for uid, vertical_pod in self._state.vertical_pods.items():
            if vertical_pod.settle_at is not None:
                heapq.heappush(self._due, (vertical_pod.settle_at, uid))
            self.persisted_permits.mark(uid)

    def writing(self) -> int:
        """The number of writes under way."""
        return sum(vertical_pod.writing is not None for _, vertical_pod in self._state.vertical_pods.items())


def _oscillations(vertical_pod: VerticalPodState, permit: Amounts, now: Instant) -> int:
    """How often in a row the pod needed a permit limit again soon after it had been lowered; at most `_MOST_OSCILLATING`."""
    if vertical_pod.written_at + _OSCILLATING_SECONDS < now:
        return 0
    needed_again = vertical_pod.lowered_from is not None and permit.within(vertical_pod.lowered_from)
    return min(vertical_pod.oscillating + needed_again, _MOST_OSCILLATING)


def _extremes(texts: Sequence[PersistedPermit]) -> tuple[PersistedPermit, ...]:
    """Two permits that bound what a restart may find, if it may find any of these: their minimum and their maximum. Only one if
    both are equal."""
    permits, permit_limits = [text.permit for text in texts], [text.permit_limit for text in texts]
    least = PersistedPermit(permit=reduce(Amounts.at_most, permits), permit_limit=reduce(Amounts.at_most, permit_limits))
    most = PersistedPermit(permit=reduce(Amounts.at_least, permits), permit_limit=reduce(Amounts.at_least, permit_limits))
    return (least,) if least == most else (least, most)


def _is_kept(vertical_pod: VerticalPodState) -> bool:
    """Must the pod's present permit be persisted? Only if the pod may grow and does not migrate: a migrating machine soon has
    another pod."""
    return vertical_pod.exact and vertical_pod.vertical.scaling and vertical_pod.vertical.migration is None
