"""Preemptors: decides in filter whether a refused pod preempts; and continues preemptions after a restart.

    filter refuses everywhere -> may the pod preempt? -> candidate nodes -> the cheapest candidate -> its preemption begins

No preemption begins for a pod that may not preempt, that fits elsewhere, that has a preemption under way (ours, or
kube-scheduler's after the preempt verb), or that has been refused for less time than the policy asks.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from slackwater.cluster.cluster_state import ClusterState
from slackwater.controllers.policy import PreemptionPolicy
from slackwater.controllers.preemption.activations import activating
from slackwater.controllers.preemption.candidates import CandidateNodes
from slackwater.controllers.preemption.potential_victims import PotentialVictims
from slackwater.controllers.preemption.state import Preemptions
from slackwater.controllers.preemption.victims import Candidate, PotentialVictim, PreemptionNode, needed_victims
from slackwater.model.columns import Codes, Rows
from slackwater.model.effects import WritePreempting
from slackwater.model.ids import Instant, NodeName, PodUid
from slackwater.model.objects import Pod
from slackwater.model.resources import Amounts

#: MaxInt32 + 1, added to each priority in the sum: priorities may be negative, and each further victim must add to the cost.
_OFFSET: Final = 1 << 31


def choose(wanted: Amounts, preemption_nodes: Iterable[PreemptionNode]) -> Candidate | None:
    """The cheapest candidate that makes `wanted` fit on one of the nodes; None if no node has enough potential victims."""
    found = (needed_victims(wanted, preemption_node) for preemption_node in preemption_nodes)
    return min((candidate for candidate in found if candidate is not None), key=cost, default=None)


def cost(candidate: Candidate) -> tuple[bool, int, int, int, int, str, int, NodeName]:
    """The sort key of candidates, the cheapest first. 1. no victim at all  2. fewest violated budgets  3. lowest priority of
    the most important victim  4. lowest sum of priorities  5. fewest victims  6. the most important victims started last
    7. fewest pods to wait for  8. the node's name: arbitrary, but the same on every run."""
    victims = candidate.victims
    highest = max((victim.priority for victim in victims), default=0)
    return (
        bool(victims),
        candidate.violations,
        highest,
        sum(victim.priority + _OFFSET for victim in victims),
        len(victims),
        _later_first(earliest_start(victims, highest)),
        len(candidate.awaited),
        candidate.node,
    )


def earliest_start(victims: Iterable[PotentialVictim], priority: int) -> str:
    """When the first of the victims of that priority started; empty if there is none."""
    return min((victim.start for victim in victims if victim.priority == priority), default="")


def _later_first(text: str) -> str:
    """A text whose order is the reverse of the given one's."""
    return "".join(chr(0x10FFFF - ord(c)) for c in text)


@dataclass(slots=True)
class _Patient:
    pod: Pod
    until: Instant
    told: bool = False


class Preemptors:
    """Decides which pods preempt, and remembers those that still have to wait before they may."""

    def __init__(self, cluster_state: ClusterState, potential_victims: PotentialVictims, preemptions: Preemptions) -> None:
        self._nodes = cluster_state.nodes
        self._pods = cluster_state.pods
        self._accepted_preemptions = cluster_state.accepted_preemptions
        self._potential_victims = potential_victims
        self._preemption_nodes = CandidateNodes(cluster_state, potential_victims, preemptions)
        self._preemptions = preemptions
        self._patient: dict[PodUid, _Patient] = {}

    def consider(
        self,
        pod: Pod,
        rows: Rows,
        codes: Codes,
        policy: PreemptionPolicy,
        now: Instant,
        *,
        helps: Callable[[Candidate], bool] = lambda _: True,
    ) -> bool:
        """Begins a preemption for a pod that fits on none of the rows; False if none begins. `helps` may veto a candidate."""
        if not policy.enabled or not self._may_preempt(pod, policy, now) or not self._waited(pod, policy, now):
            return False
        found = self._cheapest(pod, rows, codes, now)
        if found is None or not (found.victims or found.awaited) or not helps(found):
            return False
        self.forget(pod.uid)
        self._preemptions.begin(pod, found, policy, now)
        return True

    def _cheapest(self, pod: Pod, rows: Rows, codes: Codes, now: Instant) -> Candidate | None:
        """The cheapest candidate. Searches further nodes only while none was found or the best one violates a budget."""
        best: Candidate | None = None
        for preemption_nodes in self._preemption_nodes.of(pod, rows, codes, now):
            found = choose(pod.need, preemption_nodes)
            best = min((one for one in (best, found) if one is not None), key=cost, default=None)
            if best is not None and not best.violations:
                return best
        return best

    def _may_preempt(self, pod: Pod, policy: PreemptionPolicy, now: Instant) -> bool:
        return (
            pod.kind.preempts
            and not pod.deleting
            and not self._preemptions.rests(pod.uid, now)
            and self._preemptions.number_of(pod.uid) is None
            and self._preemptions.takes_more(policy)
            and self._preemption_nodes.anybody_below(pod.priority)
            and not self._accepted_preemptions.awaited(pod.uid, self._potential_victims.seen_on, now)
        )

    def _waited(self, pod: Pod, policy: PreemptionPolicy, now: Instant) -> bool:
        if not policy.patience_seconds:
            return True
        patient = self._patient.setdefault(pod.uid, _Patient(pod, Instant(now + policy.patience_seconds)))
        return patient.until <= now

    def forget(self, uid: PodUid) -> None:
        """Ends the pod's wait: it passed filter, is bound or gone, or preempts."""
        self._patient.pop(uid, None)

    def due(self, now: Instant) -> None:
        """Activates pods that have waited long enough: kube-scheduler would not try them by itself then."""
        self._potential_victims.expire(now)
        for patient in self._patient.values():
            if patient.until <= now and not patient.told:
                patient.told = True
                self._preemptions.owe(activating(patient.pod, "patience-ended"))

    def resume(self, policy: PreemptionPolicy, now: Instant) -> None:
        """Continues what an earlier process began, if still needed. Everything must be listed.

        What the annotation names is checked like a choice of our own. So whoever can write it cannot make a pod leave that is
        not less important, or whose room is not needed.
        """
        for pod in list(self._pods):
            if pod.preempting is None or pod.node is not None or pod.ended or pod.deleting:
                continue
            if not (policy.enabled and self._resumed(pod, policy, now)):
                self._preemptions.owe(WritePreempting(pod.uid, pod.key, None))
                self._preemptions.owe(activating(pod, "preemption-over"))

    def _resumed(self, pod: Pod, policy: PreemptionPolicy, now: Instant) -> bool:
        assert pod.preempting is not None
        if pod.preempting.node not in self._nodes.row_of or not pod.kind.preempts or not self._preemptions.takes_more(policy):
            return False
        found = needed_victims(
            pod.need, self._potential_victims.preemption_node(pod, pod.preempting.node, pod.preempting.victims, now)
        )
        if found is None or not (found.victims or found.awaited):
            return False
        self._preemptions.begin(pod, found, policy, now, announced=True)
        return True
