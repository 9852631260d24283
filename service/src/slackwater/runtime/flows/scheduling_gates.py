"""Opens the scheduling gates of gated pods: those with our entry in `spec.schedulingGates`, added at creation (deploy/gate).

kube-scheduler does not schedule a gated pod. We judge each once, on the tick after it is seen:

    it fits on some node            -> we remove the gate
    victims would make it fit       -> their preemption begins, and removes the gate when it ends, with or without success
    neither, or we cannot say       -> we remove the gate; kube-scheduler judges the pod and reports why it is pending

kube-scheduler's own filters have not judged a gated pod. So a preemption begins only for pods whose constraints we judge
exactly as kube-scheduler does: requests of CPU and memory, and node constraints. A gate that the watch still shows some time
after we removed it is removed again. Deliberately absent: pods that also have gates of others; these are not ready to be
scheduled.
"""

from dataclasses import dataclass, replace
from typing import Final

from slackwater.controllers.policy import Policy
from slackwater.controllers.preemption.victims import Candidate
from slackwater.model.effects import Effect, OpenGate
from slackwater.model.ids import Instant, PodUid
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import MOST_RULES, NO_POD_CONSTRAINTS
from slackwater.model.scheduler_profile import profile_of
from slackwater.runtime.flows import Controllers
from slackwater.runtime.flows.filter import PlacementFlow
from slackwater_protocol.names import GATE

#: The most pods judged or opened in one tick; the others follow in the next ticks.
_MOST_PER_TICK: Final = 64
#: A tick judges no further pod after this much work, about 5 ms. The unit is one pod of a node that was looked at as a victim,
#: or `_ROWS` nodes that were judged. One judgement takes at most three times as much.
_WORK_PER_TICK: Final = 600
_ROWS: Final = 50
#: Seconds until a gate that the watch still shows is removed again.
_AGAIN_SECONDS: Final = 5.0


@dataclass(slots=True)
class _Waiting:
    due: Instant
    judged: bool = False


class SchedulingGates:
    """Removes the gates of pods whose only scheduling gate is ours, after each pod is judged once (see the module)."""

    def __init__(self, controllers: Controllers, placement: PlacementFlow) -> None:
        self._controllers = controllers
        self._state = controllers.state
        self._placement = placement
        self._potential_victims = controllers.preemptions.potential_victims
        self._waiting: dict[PodUid, _Waiting] = {}
        #: How many nodes were judged for gated pods so far.
        self._judged_rows = 0

    def seen(self, pod: Pod, now: Instant) -> None:
        """Tracks the unbound pod as long as its only gate is ours."""
        if pod.gates != (GATE,):
            self._waiting.pop(pod.uid, None)
        elif pod.uid not in self._waiting:
            self._waiting[pod.uid] = _Waiting(now)

    def forget(self, uid: PodUid) -> None:
        """Forgets the pod: it is bound, or it has ended."""
        self._waiting.pop(uid, None)

    def due(self, policy: Policy, now: Instant) -> list[Effect]:
        """Returns the effects that remove gates that are due, for a limited number of pods each time.
        Each pod is judged once before its gate is removed: if a preemption begins for it, the gate stays until the preemption
        has ended. A gate that is still there some time after its removal is removed again."""
        ready = [(uid, waiting) for uid, waiting in self._waiting.items() if waiting.due <= now]
        effects: list[Effect] = []
        enough = self._work + _WORK_PER_TICK
        for uid, waiting in ready[:_MOST_PER_TICK]:
            if self._work >= enough:
                break
            pod = self._state.pods.get(uid)
            if pod is None:
                del self._waiting[uid]
                continue
            first, waiting.judged = not waiting.judged, True
            waiting.due = Instant(now + _AGAIN_SECONDS)
            if not self._controllers.preemptions.gated(uid) and not (first and self._preempts(pod, policy, now)):
                effects.append(OpenGate(uid, pod.key, "judged" if first else "still-gated"))
        return effects

    @property
    def _work(self) -> int:
        return self._potential_victims.examined + self._judged_rows // _ROWS

    def _preempts(self, pod: Pod, policy: Policy, now: Instant) -> bool:
        self._judged_rows += self._state.ledger.columns.n_rows
        refused = self._placement.refused_everywhere(pod, policy, now) if self._is_plain(pod, policy) else None
        if refused is None:
            return False

        def helps(candidate: Candidate) -> bool:
            gone = [one.uid for one in (*candidate.victims, *candidate.awaited)]
            return self._potential_victims.fits_by_requests(pod, candidate.node, gone)

        return self._controllers.preemptors.consider(pod, *refused, policy.preemption, now, helps=helps)

    def _is_plain(self, pod: Pod, policy: Policy) -> bool:
        """Do we judge the pod exactly as kube-scheduler does? True if all its constraints beyond requests and required node
        constraints are preferences, its profile adds no hard spread, and no pod in the cluster has required anti-affinity.
        A pod with more than `MOST_RULES` is not judged exactly."""
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
        spreads = bool(profile_of(policy.profiles, pod.kind).spread)
        judged = pod.kind.n_rules <= MOST_RULES
        return judged and asked == preferences and not spreads and not self._state.pods.repelling

    def __len__(self) -> int:
        return len(self._waiting)
