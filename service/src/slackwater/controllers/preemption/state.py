"""The state machine of preemptions, one preemption for each preemptor: takes events in, gives effects out.

A preemption of ours goes through announcing, evicting, opened and returned; one of kube-scheduler through agreed and returned,
or agreed, opened and returned. While the gate of a preemptor is shut, filter answers `gated` for it and the preempt verb keeps
no node. However the preemption ends, the gate is opened.

    agreed       kube-scheduler preempts for the pod, with the victims in our answer to its preempt call; no gate is shut
    announcing   the gate is shut, and the preemptor's annotation is being written, so that a restart can continue
    evicting     the gate is shut, and the victims' deletions are under way, or accepted
    opened       all victims are gone: the pod was activated (in ours also nominated), and room is kept until filter is asked
    returned     the pod passed filter on its node and may be bound there; until then its own hold keeps the room, or, where we
                 bind, the preemption's

Each victim is deleted once, however many preemptors wait for it. Deliberately absent: which pods have to leave
(`victims`, `preemptors`) and the API calls.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, assert_never

import msgspec

from slackwater.cluster.cluster_state import ClusterState
from slackwater.controllers.policy import PreemptionPolicy
from slackwater.controllers.preemption.accepted_preemptions import AcceptedPreemptions
from slackwater.controllers.preemption.activations import Activations, activating
from slackwater.controllers.preemption.counts import PreemptionCounts, Result
from slackwater.controllers.preemption.victims import Candidate, PotentialVictims, RunnerUp
from slackwater.model.effects import DeleteVictim, Effect, Nominate, WritePreempting
from slackwater.model.events import PreemptingNotWritten, PreemptingWritten, PreemptionEvent, Stopping, VictimEnded
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid
from slackwater.model.objects import OngoingPreemption, Pod
from slackwater.model.resources import Amounts

Phase = Literal["agreed", "announcing", "evicting", "opened", "returned"]
_SHUT: Final = ("announcing", "evicting")


@dataclass(slots=True)
class Preemption:
    """One preemption; `pod` is the preemptor. `victims`: the pods that we delete for it. `waiting`: the UIDs of all pods that
    have to be gone and are not yet; empty once the preemption is opened, returned or over. `others`: nodes not chosen."""

    pod: Pod
    node: NodeName
    victims: dict[PodUid, PodKey]
    waiting: set[PodUid]
    phase: Phase
    since: Instant
    deadline: Instant
    text: str  #: the text of the preemptor's annotation
    number: int  #: grows from one preemption to the next
    timeout_seconds: float  #: how long the victims may take at least
    others: tuple[RunnerUp, ...] = ()

    @property
    def shut(self) -> bool:
        return self.phase in _SHUT


#: How long the watch may take to show kube-scheduler's nomination; how long room is kept after the victims are gone.
_NOMINATED_SECONDS, KEPT_SECONDS = 2.0, 60.0
#: How long no preemption may choose a pod as victim: after the API server refused to delete it; after it did not terminate.
_REFUSED_SECONDS, _STUCK_SECONDS = 60.0, 600.0
#: How much longer than the longest grace period of its victims a preemption waits for them, unless its timeout is shorter.
_BEYOND_GRACE_SECONDS: Final = 60.0
#: How long a pod may not preempt after the API server could not be reached: its victims may be leaving already.
_REST_SECONDS: Final = 5.0


class Preemptions:
    """All preemptions, by the preemptor's UID. Their effects are collected, and `flush` returns them."""

    def __init__(self, cluster_state: ClusterState) -> None:
        self._state = cluster_state
        #: Pods that did not leave when they had to, and until when no preemption may choose them as victims.
        self.immovable: dict[PodUid, Instant] = {}
        self._backing_off: dict[PodUid, Instant] = {}
        self._running: dict[PodUid, Preemption] = {}
        self._stopping = False
        self._number = 0
        #: The victims whose API call has not ended, and for each victim the preemptors that wait for it.
        self.deleting: set[PodUid] = set()
        self.awaited_by: dict[PodUid, set[PodUid]] = {}
        self.potential_victims = PotentialVictims(cluster_state, marked=self.awaited_by.keys(), immovable=self.immovable)
        self.activations = Activations()
        self.accepted = AcceptedPreemptions()
        self.counts = PreemptionCounts()
        #: For the next `flush`. Some preemptions end while a filter or preempt call is answered, which returns no effects.
        self.effects: list[Effect] = []
        #: The latest `now` of a call, for the methods that get none.
        self._now = Instant(0.0)

    # --- questions --------------------------------------------------------------------------------------------------------

    def gated(self, uid: PodUid) -> bool:
        found = self._running.get(uid)
        return found is not None and found.shut

    def just_opened(self, uid: PodUid) -> bool:
        """Has the gate opened since filter was last asked about the pod? Then a preempt call is outdated: it follows that
        filter call."""
        found = self._running.get(uid)
        return found is not None and found.phase == "opened"

    def gated_pods(self) -> frozenset[PodUid]:
        """The preemptors whose victims are leaving. They need no new node from the autoscaler."""
        return frozenset(uid for uid, found in self._running.items() if found.shut or found.phase == "agreed")

    def number_of(self, uid: PodUid) -> int | None:
        found = self._running.get(uid)
        return None if found is None else found.number

    def waits_for(self, uid: PodUid) -> tuple[str, ...]:
        """The pods that have to be gone before the preemptor is tried again: `namespace/name` of each victim that we delete,
        the UID of each other pod."""
        found = self._running.get(uid)
        return () if found is None else tuple(sorted(str(found.victims.get(victim, victim)) for victim in found.waiting))

    def is_backing_off(self, uid: PodUid, now: Instant) -> bool:
        """Did an API call of this preemptor's last preemption fail a short time ago? Then the pod may not preempt yet."""
        return self._backing_off.get(uid, now) > now

    def may_begin(self, policy: PreemptionPolicy) -> bool:
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
        """Begins a preemption of ours: shuts the gate, and keeps the room. `announced`: the annotation exists already, from
        before a restart. `others`: candidates that were not chosen."""
        self._now = now
        self.counts.attempts += 1
        self.counts.victims.note(len(candidate.victims))
        # A victim of another preemption is a victim of this one too: the other may end before it has sent the deletion.
        going = [*candidate.victims, *(one for one in candidate.awaited if one.uid in self.awaited_by)]
        known = {one.uid: self._state.pods.get(one.uid) for one in going}
        victims = {uid: victim.key for uid, victim in known.items() if victim is not None and not victim.deleting}
        waiting = {one.uid for one in (*candidate.victims, *candidate.awaited)}
        found = self._keep(pod, candidate.node, victims, waiting, policy.timeout)
        found.others = others
        if announced or not victims:
            self._evict(found)
        else:
            self.effects.append(WritePreempting(pod.uid, pod.key, found.text))

    def accept_preemption(
        self,
        pod: Pod,
        node: NodeName,
        waiting: set[PodUid],
        policy: PreemptionPolicy,
        now: Instant,
        *,
        others: tuple[RunnerUp, ...] = (),
    ) -> None:
        """Begins a preemption whose victims kube-scheduler deletes: keeps the room for the pod, and marks the victims."""
        self._now = now
        found = self._keep(pod, node, {}, waiting, policy.timeout)
        found.phase, found.others = "agreed", others

    def supersede(self, uid: PodUid) -> None:
        """Ends the pod's preemption, unless its gate is shut, because kube-scheduler preempts for the pod again: the pod may
        use the room that was kept for it."""
        found = self._running.get(uid)
        if found is not None and not found.shut:
            self._end(found, "cancelled")

    def _keep(
        self, pod: Pod, node: NodeName, victims: dict[PodUid, PodKey], waiting: set[PodUid], timeout_seconds: float
    ) -> Preemption:
        self._number += 1
        self._running[pod.uid] = found = Preemption(
            pod=pod,
            node=node,
            victims=victims,
            waiting=waiting,
            phase="announcing",
            since=self._now,
            deadline=Instant(self._now + timeout_seconds),
            timeout_seconds=timeout_seconds,
            text=msgspec.json.encode(OngoingPreemption(node, tuple(sorted(waiting)))).decode(),
            number=self._number,
        )
        for victim in waiting:
            self.awaited_by.setdefault(victim, set()).add(pod.uid)
        self._state.holds.keep_for_preemptor(pod, node, found.number)
        self.activations.drop(pod.uid)
        return found

    def _evict(self, found: Preemption) -> None:
        found.phase = "evicting"
        for uid, key in sorted(found.victims.items()):
            if uid in found.waiting and uid not in self.deleting:
                self.deleting.add(uid)
                self.effects.append(DeleteVictim(uid, key, found.pod.key))

    # --- events -----------------------------------------------------------------------------------------------------------

    def apply(self, event: PreemptionEvent, now: Instant) -> list[Effect]:
        """Applies one event. The effects are collected, and `flush` returns them; the list that this returns is empty."""
        self._now = now
        match event:
            case PreemptingWritten(uid, text):
                found = self._announcing(uid, text)
                if found is not None:
                    self._evict(found)
            case PreemptingNotWritten(uid, text):
                found = self._announcing(uid, text)
                if found is not None:
                    self._fail_and_back_off(found)
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
        self.deleting.discard(event.uid)
        if event.outcome == "accepted":
            return
        if event.outcome == "refused":
            self.immovable[event.uid] = Instant(now + _REFUSED_SECONDS)
        for uid in sorted(self.awaited_by.get(event.uid, ())):
            found = self._running[uid]
            if event.outcome == "refused":
                self._fail(found, "error", "preemption-failed")
                self.activations.put_off(found.pod, self.immovable[event.uid])
            else:
                self._fail_and_back_off(found)

    def _fail_and_back_off(self, found: Preemption) -> None:
        """Fails the preemption, and keeps the preemptor from beginning another one at once."""
        self._fail(found, "error", "preemption-failed")
        self._backing_off[found.pod.uid] = until = Instant(self._now + _REST_SECONDS)
        self.activations.put_off(found.pod, until)

    def left(self, victim: PodUid) -> None:
        """Handles a pod that no longer counts on its node, for whatever reason. Opens the gates of preemptors that waited for
        it alone."""
        self.deleting.discard(victim)
        for uid in sorted(self.awaited_by.pop(victim, ())):
            found = self._running[uid]
            found.waiting.discard(victim)
            if not found.waiting:
                self._open(found)

    def preemptor_gone(self, uid: PodUid) -> None:
        """Ends the preemption of a preemptor that is bound, has ended, or is gone: no pod need leave for it any more."""
        self.activations.drop(uid)
        found = self._running.get(uid)
        if found is not None:
            self._end(found, "cancelled")
            if found.shut and found.victims and self._state.pods.get(uid) is not None:
                self.effects.append(WritePreempting(uid, found.pod.key, None))
        self._state.holds.drop_for_preemptor(uid)

    def preemptor_seen(self, pod: Pod) -> None:
        """Handles a preemptor that the watch shows without a node. If its requests, priority or constraints have changed, the
        preemption fails."""
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
        """Ends preemptions past their deadline, unless their victims' grace periods last longer, and activates preemptors about
        which filter was not asked since."""
        self._now = now
        for found in [found for found in self._running.values() if found.deadline <= now]:
            if (longest := self._longest_wait(found)) > now:
                found.deadline = longest
            elif found.shut:
                until = Instant(now + _STUCK_SECONDS)
                self.immovable.update(dict.fromkeys(found.waiting, until))
                self._fail(found, "error", "victims-stayed")
                self.activations.put_off(found.pod, until)
            else:
                self._end(found, "success")
                self.activations.expect(found.pod, now)
                self.effects.append(activating(found.pod, "nomination-ended"))
        for pod in self.activations.due(now):
            self.counts.activated_again += 1
            self.effects.append(activating(pod, "victims-gone"))
        for found in [found for found in self._running.values() if self._was_dropped(found)]:
            self._end(found, "cancelled")
        for uid in [uid for uid, until in self._backing_off.items() if until <= now]:
            del self._backing_off[uid]
        for pod in self.activations.put_off_until(now):
            self.activations.expect(pod, now)
            self.effects.append(activating(pod, "preemption-possible"))

    def _longest_wait(self, found: Preemption) -> Instant:
        """Until when the victims may take to leave, by the grace periods of those that are still there. Another set of victims
        before that would be deleted in vain."""
        graces = (victim.grace_seconds for uid in found.waiting if (victim := self._state.pods.get(uid)) is not None)
        beyond = min(_BEYOND_GRACE_SECONDS, found.timeout_seconds)
        return Instant(found.since + max((grace + beyond for grace in graces), default=0.0))

    # --- end --------------------------------------------------------------------------------------------------------------

    def _was_dropped(self, found: Preemption) -> bool:
        """Has kube-scheduler given up an agreed preemption? It nominates the pod to the node, and clears the nomination when
        the preemption fails."""
        seen = self._state.pods.get(found.pod.uid)
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
        self.effects.append(Nominate(uid, key, found.node))
        self._activate(found, "victims-gone", announced=announced)

    def _fail(self, found: Preemption, result: Result, why: str) -> None:
        """Ends the preemption before its victims are gone, and activates the preemptor."""
        shut, announced = found.shut, bool(found.victims)
        self._end(found, result)
        self._activate(found, why, announced=shut and announced)

    def _end(self, found: Preemption, result: Result) -> None:
        del self._running[found.pod.uid]
        self._stop_waiting(found)
        self._state.holds.drop_for_preemptor(found.pod.uid)
        if found.shut:
            self.counts.ended(result, self._now - found.since)

    def _stop_waiting(self, found: Preemption) -> None:
        """Stops waiting for the remaining victims: they need not leave for this preemptor, but perhaps for others."""
        for victim in found.waiting & self.awaited_by.keys():
            self.awaited_by[victim].discard(found.pod.uid)
            if not self.awaited_by[victim]:
                del self.awaited_by[victim]
        found.waiting.clear()

    def _activate(self, found: Preemption, why: str, *, announced: bool) -> None:
        pod = found.pod
        self.effects.append(activating(pod, why))
        if announced:
            self.effects.append(WritePreempting(pod.uid, pod.key, None))
        self.activations.expect(pod, self._now)

    def _stop(self) -> None:
        """Ends all preemptions in memory only. The annotations stay, so that the next process continues."""
        self._stopping = True
        for found in list(self._running.values()):
            self._end(found, "cancelled")

    # --- the preemptor comes back -----------------------------------------------------------------------------------------

    def preemptor_asked(self, uid: PodUid) -> None:
        """Frees the room that is kept for the pod, because filter is asked about the pod. `judged` is called with the
        verdict."""
        self.activations.forget(uid)
        self._state.holds.drop_for_preemptor(uid)

    def judged(self, uid: PodUid, passing: Callable[[NodeName], bool] | None, *, held: bool) -> None:
        """Handles filter's verdict on a pod that came back. `passing` tells whether a node passed; None if no node did. If the
        pod's node did not pass, the preemption ends; but an agreed one goes on if no node passed, since its victims still
        leave. If it passed, the room is kept until the bind: by the pod's own hold (`held`), or as before."""
        found = self._running.get(uid)
        if found is None or found.shut:
            return
        if passing is None and found.phase == "agreed":  # tried too early: its victims are still leaving
            self._state.holds.keep_for_preemptor(found.pod, found.node, found.number)
        elif passing is None or not passing(found.node):
            self._end(found, "success")
        else:
            if found.phase == "agreed":  # there is room before its victims are gone
                self._stop_waiting(found)
                found.deadline = Instant(self._now + KEPT_SECONDS)
            found.phase = "returned"
            if not held:
                self._state.holds.keep_for_preemptor(found.pod, found.node, found.number)

    def pause(self, now: Instant) -> None:
        """Ends the preemptions that have not deleted a victim yet. Deletions under way cannot be undone."""
        self._now = now
        for found in [found for found in self._running.values() if found.phase == "announcing"]:
            self._fail(found, "cancelled", "preemption-paused")

    def not_bound(self, uid: PodUid) -> bool:
        """Keeps the room again, until the preemption's deadline, for a pod whose hold after filter or whose reservation ended
        without a bind. Returns False if the pod has no such room."""
        found = self._running.get(uid)
        if found is None or found.phase != "returned":
            return False
        self._state.holds.keep_for_preemptor(found.pod, found.node, found.number)
        return True

    def flush(self) -> list[Effect]:
        """Returns the collected effects and forgets them. The state machine calls it after each event."""
        effects, self.effects = self.effects, []
        return effects


def _asks(pod: Pod) -> tuple[Amounts, int, object]:
    return pod.need, pod.priority, pod.kind
