"""The life of a preemption, one for each preemptor: takes events in, gives effects out. Every way in which it can end opens
the gate.

    agreed       kube-scheduler preempts for the pod, with victims that our preempt verb agreed to, and holds it back itself
    announcing   the preemptor's annotation is being written, so that a restart can continue; no pod has been deleted
    evicting     the victims' deletions are on their way, or accepted; the gate is shut since announcing
    opened       all victims are gone: the pod was nominated and activated, and its room is kept until it comes back
    returned     the pod came back, from `agreed` too, and may be bound to its node; its own hold keeps the room

From announcing to opened filter answers `gated` and the preempt verb keeps no node. Each victim is deleted once, however many
preemptors wait for it. Deliberately absent: which pods have to leave (`potential_victims`, `preemptors`) and the API calls.
"""

from collections.abc import Callable
from typing import Final, assert_never

from slackwater.cluster.cluster_state import ClusterState
from slackwater.controllers.policy import PreemptionPolicy
from slackwater.controllers.preemption.activations import Activations, activating
from slackwater.controllers.preemption.preemption import PendingDeletions, Preemption, PreemptionCounts, Result
from slackwater.controllers.preemption.runners_up import RunnerUp
from slackwater.controllers.preemption.victims import Candidate
from slackwater.model.effects import DeleteVictim, Effect, Nominate, WritePreempting
from slackwater.model.events import PreemptingNotWritten, PreemptingWritten, PreemptionEvent, Stopping, VictimEnded
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid
from slackwater.model.objects import OngoingPreemption, Pod
from slackwater.model.resources import Amounts

#: How long kube-scheduler's nomination of a preemptor may take to be seen; how long room is kept after the victims are gone.
_NOMINATED_SECONDS, KEPT_SECONDS = 2.0, 60.0
#: How long no preemption counts on a pod to leave: after the API server refused to delete it; after it stayed.
_REFUSED_SECONDS, _STUCK_SECONDS = 60.0, 600.0
#: How long a pod may not preempt after the API server could not be reached: its victims may be leaving already.
_REST_SECONDS: Final = 5.0


class Preemptions:
    """All preemptions, by the preemptor's UID. The effects they ask for are collected, and `flush` returns them."""

    def __init__(self, cluster_state: ClusterState) -> None:
        self._room = cluster_state.room
        self._pods = cluster_state.pods
        #: Pods that did not leave when they had to, and until when no preemption counts on their leaving.
        self.immovable: dict[PodUid, Instant] = {}
        self._resting: dict[PodUid, Instant] = {}
        self._running: dict[PodUid, Preemption] = {}
        self._stopping = False
        self._number = 0
        self.pending_deletions = PendingDeletions()
        self.activations = Activations()
        self.counts = PreemptionCounts()
        self._pending_effects: list[Effect] = []
        #: The latest time that a call stated: some ends come without one.
        self._now = Instant(0.0)

    # --- questions --------------------------------------------------------------------------------------------------------

    def gated(self, uid: PodUid) -> bool:
        found = self._running.get(uid)
        return found is not None and found.shut

    def just_opened(self, uid: PodUid) -> bool:
        """Has the gate opened since filter was last asked about the pod? A question that follows that filter is outdated."""
        found = self._running.get(uid)
        return found is not None and found.phase == "opened"

    def gated_pods(self) -> frozenset[PodUid]:
        """Pods that need no node from the autoscaler: room is being made for them."""
        return frozenset(uid for uid, found in self._running.items() if found.shut or found.phase == "agreed")

    def shut_gates(self) -> int:
        return sum(found.shut for found in self._running.values())

    def is_marked_victim(self, victim: PodUid) -> bool:
        """Is the pod to leave for some preemptor?"""
        return victim in self.pending_deletions.awaited_by

    def has(self, uid: PodUid) -> bool:
        """Is a preemption of the pod under way?"""
        return uid in self._running

    def number_of(self, uid: PodUid) -> int | None:
        found = self._running.get(uid)
        return None if found is None else found.number

    def waits_for(self, uid: PodUid) -> tuple[str, ...]:
        """Names of the pods that have to be gone before the preemptor is tried again; a UID for each that it does not
        delete."""
        found = self._running.get(uid)
        return () if found is None else tuple(sorted(str(found.victims.get(victim, victim)) for victim in found.waiting))

    def rests(self, uid: PodUid, now: Instant) -> bool:
        """Did the API server fail for this preemptor a short time ago?"""
        return self._resting.get(uid, now) > now

    def takes_more(self, policy: PreemptionPolicy) -> bool:
        return not self._stopping and len(self._running) < policy.max_running

    def items(self) -> list[tuple[PodUid, Preemption]]:
        return list(self._running.items())

    # --- begin ------------------------------------------------------------------------------------------------------------

    def begin(
        self,
        pod: Pod,
        candidate: Candidate,
        policy: PreemptionPolicy,
        now: Instant,
        *,
        announced: bool = False,
        others: tuple[RunnerUp, ...] = (),
    ) -> None:
        """Shuts the gate and keeps the room. `announced`: the annotation exists already, from before a restart. `others` are
        candidates that were not chosen."""
        self._now = now
        self.counts.begun(len(candidate.victims))
        # A victim of another preemption is a victim of this one too: the other may end before it has sent the deletion.
        going = [*candidate.victims, *(one for one in candidate.awaited if self.is_marked_victim(one.uid))]
        known = {one.uid: self._pods.get(one.uid) for one in going}
        victims = {uid: victim.key for uid, victim in known.items() if victim is not None and not victim.deleting}
        waiting = {one.uid for one in (*candidate.victims, *candidate.awaited)}
        found = self._keep(pod, candidate.node, victims, waiting, Instant(now + policy.timeout_seconds))
        found.others = others
        if announced or not victims:
            self._evict(found)
        else:
            self.owe(WritePreempting(pod.uid, pod.key, found.text))

    def agree(
        self,
        pod: Pod,
        node: NodeName,
        waiting: set[PodUid],
        policy: PreemptionPolicy,
        now: Instant,
        *,
        others: tuple[RunnerUp, ...] = (),
    ) -> None:
        """Begins a preemption whose victims kube-scheduler deletes by itself: keeps the room, and counts them as leaving."""
        self._now = now
        found = self._keep(pod, node, {}, waiting, Instant(now + policy.timeout_seconds))
        found.phase, found.others = "agreed", others

    def supersede(self, uid: PodUid) -> None:
        """Ends the preemption of a pod whose gate is open, since kube-scheduler preempts for it again: the pod may count with
        the room that was kept for it."""
        found = self._running.get(uid)
        if found is not None and not found.shut:
            self._end(found, "cancelled")

    def _keep(
        self, pod: Pod, node: NodeName, victims: dict[PodUid, PodKey], waiting: set[PodUid], deadline: Instant
    ) -> Preemption:
        self._number += 1
        self._running[pod.uid] = found = Preemption(
            pod=pod,
            node=node,
            victims=victims,
            waiting=waiting,
            phase="announcing",
            since=self._now,
            deadline=deadline,
            text=OngoingPreemption(node, tuple(sorted(waiting))).text(),
            number=self._number,
        )
        self.pending_deletions.wait(pod.uid, waiting)
        self._room.put(pod, node, found.number)
        self.activations.drop(pod.uid)
        return found

    def _evict(self, found: Preemption) -> None:
        found.phase = "evicting"
        for uid, key in sorted(found.victims.items()):
            if uid in found.waiting and uid not in self.pending_deletions.running:
                self.pending_deletions.running.add(uid)
                self.owe(DeleteVictim(uid, key, found.pod.key))

    # --- events -----------------------------------------------------------------------------------------------------------

    def apply(self, event: PreemptionEvent, now: Instant) -> list[Effect]:
        """Takes in one event. Its effects are collected: `flush` returns them."""
        self._now = now
        match event:
            case PreemptingWritten(uid, text):
                found = self._announcing(uid, text)
                if found is not None:
                    self._evict(found)
            case PreemptingNotWritten(uid, text):
                found = self._announcing(uid, text)
                if found is not None:
                    self._rest(found)
            case VictimEnded():
                self._call_ended(event, now)
            case Stopping():
                self._stop()
            case _:
                assert_never(event)
        return []

    def _announcing(self, uid: PodUid, text: str | None) -> Preemption | None:
        """The preemption that waits for this text to be written; None if the write belongs to an earlier preemption."""
        found = self._running.get(uid)
        return found if found is not None and found.phase == "announcing" and found.text == text else None

    def _call_ended(self, event: VictimEnded, now: Instant) -> None:
        self.pending_deletions.running.discard(event.uid)
        if event.outcome == "accepted":
            return
        if event.outcome == "refused":
            self.immovable[event.uid] = Instant(now + _REFUSED_SECONDS)
        for uid in sorted(self.pending_deletions.awaited_by.get(event.uid, ())):
            found = self._running[uid]
            if event.outcome == "refused":
                self._fail(found, "error", "preemption-failed")
                self.activations.put_off(found.pod, self.immovable[event.uid])
            else:
                self._rest(found)

    def _rest(self, found: Preemption) -> None:
        """Fails the preemption, and keeps the preemptor from beginning another one at once."""
        self._fail(found, "error", "preemption-failed")
        self._resting[found.pod.uid] = until = Instant(self._now + _REST_SECONDS)
        self.activations.put_off(found.pod, until)

    def left(self, victim: PodUid) -> None:
        """Takes in that the pod no longer counts on its node, for whatever reason."""
        self.pending_deletions.running.discard(victim)
        for uid in sorted(self.pending_deletions.awaited_by.pop(victim, ())):
            found = self._running[uid]
            found.waiting.discard(victim)
            if not found.waiting:
                self._open(found)

    def preemptor_gone(self, uid: PodUid) -> None:
        """Takes in that the preemptor is bound, has ended, or is gone: no pod need leave for it any more."""
        self.activations.drop(uid)
        found = self._running.get(uid)
        if found is not None:
            self._end(found, "cancelled")
            if found.shut and found.victims and self._pods.get(uid) is not None:
                self.owe(WritePreempting(uid, found.pod.key, None))
        self._room.drop(uid)

    def preemptor_seen(self, pod: Pod) -> None:
        """Takes in that the watch shows the preemptor without a node. If what it asks for has changed, the preemption fails."""
        found = self._running.get(pod.uid)
        if pod.deleting:
            self.preemptor_gone(pod.uid)
        elif found is not None and _asks(found.pod) != _asks(pod):
            self._fail(found, "cancelled", "preemptor-changed")
        elif found is not None:
            found.pod = pod

    def node_gone(self, node: NodeName) -> None:
        for found in [found for found in self._running.values() if found.node == node]:
            self._fail(found, "error" if found.shut else "success", "node-gone")

    def due(self, now: Instant) -> None:
        """Ends preemptions that took too long, and activates preemptors that did not come back."""
        self._now = now
        for found in [found for found in self._running.values() if found.deadline <= now]:
            if found.shut:
                until = Instant(now + _STUCK_SECONDS)
                self.immovable.update(dict.fromkeys(found.waiting, until))
                self._fail(found, "error", "victims-stayed")
                self.activations.put_off(found.pod, until)
            else:
                self._end(found, "success")
                self.activations.expect(found.pod, now)
                self.owe(activating(found.pod, "nomination-ended"))
        for pod in self.activations.due(now):
            self.counts.touched_again += 1
            self.owe(activating(pod, "victims-gone"))
        for found in [found for found in self._running.values() if self._was_dropped(found)]:
            self._end(found, "cancelled")
        for uid in [uid for uid, until in self._resting.items() if until <= now]:
            del self._resting[uid]
        for pod in self.activations.put_off_until(now):
            self.activations.expect(pod, now)
            self.owe(activating(pod, "preemption-possible"))

    # --- end --------------------------------------------------------------------------------------------------------------

    def _was_dropped(self, found: Preemption) -> bool:
        """Has kube-scheduler given up an agreed preemption? It nominates the pod to that node, and clears that when it
        fails."""
        seen = self._pods.get(found.pod.uid)
        late = found.since + _NOMINATED_SECONDS <= self._now
        return found.phase == "agreed" and late and (seen is None or seen.nominated_node != found.node)

    def _open(self, found: Preemption) -> None:
        """Opens the gate: all victims are gone. The pod is nominated only now, because kube-scheduler clears nominations when
        a scheduling attempt fails (seen with kube-scheduler 1.36)."""
        if found.phase == "agreed":  # kube-scheduler sees by itself that the victims are gone
            found.phase, found.deadline = "opened", Instant(self._now + KEPT_SECONDS)
            self.activations.expect(found.pod, self._now)
        if not found.shut:
            return
        uid, key, announced = found.pod.uid, found.pod.key, bool(found.victims)
        found.phase, found.deadline = "opened", Instant(self._now + KEPT_SECONDS)
        self.counts.ended("success", self._now - found.since)
        self.owe(Nominate(uid, key, found.node))
        self._wake(found, "victims-gone", announced=announced)

    def _fail(self, found: Preemption, result: Result, why: str) -> None:
        """Ends the preemption and activates the pod."""
        shut, announced = found.shut, bool(found.victims)
        self._end(found, result)
        self._wake(found, why, announced=shut and announced)

    def _end(self, found: Preemption, result: Result) -> None:
        del self._running[found.pod.uid]
        self._awaits_nobody(found)
        self._room.drop(found.pod.uid)
        if found.shut:
            self.counts.ended(result, self._now - found.since)

    def _awaits_nobody(self, found: Preemption) -> None:
        """Stops waiting: pods that are still there need not leave for this preemptor; other preemptors may still need it."""
        self.pending_deletions.leave(found.pod.uid, found.waiting)
        found.waiting.clear()

    def _wake(self, found: Preemption, why: str, *, announced: bool) -> None:
        pod = found.pod
        self.owe(activating(pod, why))
        if announced:
            self.owe(WritePreempting(pod.uid, pod.key, None))
        self.activations.expect(pod, self._now)

    def _stop(self) -> None:
        """Ends all preemptions in memory alone: the annotations stay, so that the next process continues."""
        self._stopping = True
        for found in list(self._running.values()):
            self._end(found, "cancelled")

    # --- the preemptor comes back -----------------------------------------------------------------------------------------

    def came_back(self, uid: PodUid) -> None:
        """Takes in that filter is asked about the pod: while it is judged, the room kept for it must not count as taken."""
        self.activations.forget(uid)
        self._room.drop(uid)

    def judged(self, uid: PodUid, passing: Callable[[NodeName], bool] | None) -> None:
        """Takes in filter's verdict on a pod that came back: `passing` says which nodes passed; None if none did. If the pod
        may only go elsewhere, the preemption ends."""
        found = self._running.get(uid)
        if found is None or found.shut:
            return
        if passing is None and found.phase == "agreed":  # tried too early: its victims are still leaving
            self._room.put(found.pod, found.node, found.number)
        elif passing is None or not passing(found.node):
            self._end(found, "success")
        else:
            if found.phase == "agreed":  # there is room before its victims are gone
                self._awaits_nobody(found)
                found.deadline = Instant(self._now + KEPT_SECONDS)
            found.phase = "returned"

    def pause(self, now: Instant) -> None:
        """Ends the preemptions that have not asked for a deletion yet. Deletions under way cannot be taken back."""
        self._now = now
        for found in [found for found in self._running.values() if found.phase == "announcing"]:
            self._fail(found, "cancelled", "preemption-paused")

    def hold_expired(self, uid: PodUid) -> None:
        """Takes in that the pod passed filter and was not bound: its room is kept again until the preemption's deadline."""
        found = self._running.get(uid)
        if found is not None and found.phase == "returned":
            self._room.put(found.pod, found.node, found.number)

    def owe(self, effect: Effect) -> None:
        """Keeps an effect for the next `flush`: some preemptions end while a question is answered."""
        self._pending_effects.append(effect)

    def flush(self) -> list[Effect]:
        """Returns the collected effects and forgets them. The state machine calls it after each event."""
        pending_effects, self._pending_effects = self._pending_effects, []
        return pending_effects


def _asks(pod: Pod) -> tuple[Amounts, int, object]:
    return pod.need, pod.priority, pod.kind
