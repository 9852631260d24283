"""Pods behind a real gate: an entry of ours in `spec.schedulingGates`, put there at creation (deploy/gate).

kube-scheduler does not look at such a pod. Each is judged once, on the tick after it is seen:

    it fits on some node            -> the gate is taken away
    others have to leave for it     -> their preemption begins, and takes the gate away when it ends, however it ends
    neither, or we cannot tell      -> the gate is taken away: kube-scheduler judges, and says why the pod is pending

kube-scheduler's own filters have not seen such a pod. So nobody is evicted for one that asks more than they and we judge alike:
requests of CPU and memory, and what nodes say. A gate that is still there after it was opened is opened again. Deliberately
absent: pods that have gates of others too; those are not ready to be placed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from slackwater.cluster.cluster_state import ClusterState
from slackwater.controllers.policy import Policy
from slackwater.controllers.preemption.potential_victims import PotentialVictims
from slackwater.controllers.preemption.preemptors import Preemptors
from slackwater.controllers.preemption.state import Preemptions
from slackwater.controllers.preemption.victims import Candidate
from slackwater.model.effects import Effect, OpenGate
from slackwater.model.ids import Instant, PodUid
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import NO_POD_CONSTRAINTS
from slackwater.runtime.flows.filter import Placing
from slackwater_protocol.names import GATE

#: Pods judged, or let go, in one tick; the others follow with the next.
_MOST_PER_TICK: Final = 64
#: Before a gate that is still there is opened again.
_AGAIN_SECONDS: Final = 5.0


@dataclass(slots=True)
class _Waiting:
    due: Instant
    judged: bool = False


class SchedulingGates:
    """By pod UID, those whose only gate is ours."""

    def __init__(
        self,
        cluster_state: ClusterState,
        *,
        placing: Placing,
        potential_victims: PotentialVictims,
        preemptors: Preemptors,
        preemptions: Preemptions,
    ) -> None:
        self._pods = cluster_state.pods
        self._placing = placing
        self._potential_victims = potential_victims
        self._preemptors = preemptors
        self._preemptions = preemptions
        self._waiting: dict[PodUid, _Waiting] = {}

    def seen(self, pod: Pod, policy: Policy, now: Instant) -> None:
        """The watch shows a pod that is not bound. Where pods are nominated that opens the gate, if it comes in time."""
        if pod.gates != (GATE,):
            self._waiting.pop(pod.uid, None)
        elif pod.uid not in self._waiting:
            steering = policy.steering
            patience = steering.gate_seconds if steering.enabled and steering.gated else 0.0
            self._waiting[pod.uid] = _Waiting(Instant(now + patience))

    def judge_soon(self, uids: Iterable[PodUid], now: Instant) -> None:
        """There is no node that these could be told."""
        for uid in uids:
            waiting = self._waiting.get(uid)
            if waiting is not None and not waiting.judged:
                waiting.due = now

    def forget(self, uid: PodUid) -> None:
        """It waits no more."""
        self._waiting.pop(uid, None)

    def due(self, policy: Policy, now: Instant) -> list[Effect]:
        """Opens what may be opened now."""
        ready = [(uid, waiting) for uid, waiting in self._waiting.items() if waiting.due <= now]
        effects: list[Effect] = []
        for uid, waiting in ready[:_MOST_PER_TICK]:
            pod = self._pods.get(uid)
            if pod is None:
                del self._waiting[uid]
                continue
            first, waiting.judged = not waiting.judged, True
            waiting.due = Instant(now + _AGAIN_SECONDS)
            if not self._preemptions.gated(uid) and not (first and self._preempts(pod, policy, now)):
                effects.append(OpenGate(uid, pod.key, "judged" if first else "still-gated"))
        return effects

    def _preempts(self, pod: Pod, policy: Policy, now: Instant) -> bool:
        refused = self._placing.refused_everywhere(pod, policy, now) if self._is_plain(pod) else None
        if refused is None:
            return False

        def helps(candidate: Candidate) -> bool:
            gone = [one.uid for one in (*candidate.victims, *candidate.awaited)]
            return self._potential_victims.room_in_tree(pod, candidate.node, gone)

        return self._preemptors.consider(pod, *refused, policy.preemption, now, helps=helps)

    def _is_plain(self, pod: Pod) -> bool:
        """Do we and kube-scheduler judge it by the same few things?"""
        asked = pod.kind.pod_constraints or NO_POD_CONSTRAINTS
        preferences = replace(
            NO_POD_CONSTRAINTS,
            scored=asked.scored,
            scored_before=asked.scored_before,
            image_volumes=asked.image_volumes,
            spread_by_default=asked.spread_by_default,
            preferred_pods=asked.preferred_pods,
            preferred_nodes=asked.preferred_nodes,
        )
        return asked == preferences and not self._pods.repelling

    def __len__(self) -> int:
        return len(self._waiting)
