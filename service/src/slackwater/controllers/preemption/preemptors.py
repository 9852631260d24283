"""Decides in filter whether a refused pod preempts, and finds the cheapest candidate for it.

    filter refuses everywhere -> may the pod preempt? -> nodes to search -> the cheapest candidate -> its preemption begins

In: a refused pod and the cluster state. Out: a candidate (a node with its victims), or None. Invariant: no preemption begins
for a pod that may not preempt, that fits elsewhere, that has a preemption under way (ours, or kube-scheduler's after the
preempt verb), or that was first refused more recently than the policy asks.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np

from slackwater.cluster.cluster_state import ClusterState
from slackwater.controllers.policy import PreemptionPolicy
from slackwater.controllers.preemption.activations import activating
from slackwater.controllers.preemption.state import Preemptions
from slackwater.controllers.preemption.victims import Candidate, PreemptionNode, cheapest, needed_victims, runners_up
from slackwater.model.columns import Codes, Rows
from slackwater.model.effects import WritePreempting
from slackwater.model.ids import Instant, PodUid
from slackwater.model.ledger import NEVER
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason

_FULL: Final = np.array([Reason.NOT_ENOUGH_CPU, Reason.NOT_ENOUGH_MEMORY, Reason.HELD_FOR_OTHERS], np.uint8)
#: Nodes searched together, and for one pod at most; kube-scheduler compares a hundred too, or a tenth of the nodes.
_FEW: Final = 8
_MOST_SEARCHED: Final = 100
#: The search for one pod also ends after this many pods of nodes, 5 to 10 ms of work: filter waits for it.
_MOST_EXAMINED: Final = 800


@dataclass(slots=True)
class _Delayed:
    pod: Pod
    until: Instant
    notified: bool = False


class Preemptors:
    """Decides which pods preempt, and remembers refused pods that may not preempt before a delay is over."""

    def __init__(self, cluster_state: ClusterState, preemptions: Preemptions) -> None:
        self._state = cluster_state
        self._preemptions = preemptions
        self._potential_victims = preemptions.potential_victims
        self._delayed: dict[PodUid, _Delayed] = {}
        #: Rotates rows that compare equal, so that the search does not always begin with the same nodes.
        self._turn = 0

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
        """Begins a preemption for a pod that fits on none of the rows, if it may preempt and a candidate is found. True if a
        preemption began. `helps` may reject the cheapest candidate."""
        may_begin = (
            policy.enabled
            and not policy.paused
            and pod.kind.preempts
            and not pod.deleting
            and not self._preemptions.is_backing_off(pod.uid, now)
            and self._preemptions.number_of(pod.uid) is None
            and self._preemptions.may_begin(policy)
            and any(found < pod.priority for found in self._state.pods.priorities)
            and not self._preemptions.accepted.awaited(pod.uid, self._potential_victims.seen_on, now)
        )
        if not may_begin:
            return False
        if delay := max(policy.delay, pod.preemption_delay_seconds):
            delayed = self._delayed.setdefault(pod.uid, _Delayed(pod, Instant(now + delay)))
            if delayed.until > now:
                return False
        best: list[Candidate] = []
        searched = self._worth_a_search(pod, rows, codes, now)
        while few := list(islice(searched, _FEW)):
            best = cheapest(pod.need, few, beside=best)
            if best and not best[0].violations:
                break
        if not best or not (best[0].victims or best[0].awaited) or not helps(best[0]):
            return False
        self.forget(pod.uid)
        self._preemptions.begin(pod, best[0], policy, now, others=runners_up(best[0], best))
        return True

    def _worth_a_search(self, pod: Pod, rows: Rows, codes: Codes, now: Instant) -> Iterator[PreemptionNode]:
        """The nodes among `rows` to search for victims, the most promising first; `codes` are filter's verdicts on the rows.

        These are nodes that kube-scheduler's own filters accept and only our accounting refuses, so nothing but room is
        lacking. On others kube-scheduler finds victims by itself; and if only we see such a node as full, this is about to
        change. Nodes that a pod is leaving come first; then those where the highest priority among the pods that would have to
        go is lowest. The order takes no account of budgets, nor of pods that may not be deleted.
        """
        wanted = rows[np.isin(codes, _FULL)]
        wanted = wanted[self._state.nodes.stricter[wanted] & self._state.admitting.of(pod.kind)[wanted]]
        free = self._state.ledger.columns.free(wanted)
        levels = self._state.reservations.priority_shares.levels(pod.need, free, wanted, below=pod.priority)
        leaving = self._state.pods.leaving | self._preemptions.awaited_by.keys()
        left = [placed.row for uid in leaving if (placed := self._state.reservations.placed.get(uid)) is not None]
        self._turn += 1
        turned = (np.arange(len(wanted)) + self._turn) % max(len(wanted), 1)
        order = np.lexsort((turned, levels, ~np.isin(wanted, left)))
        denied = {self._state.nodes.row_of[name] for name in self._state.bind_backoff.nodes_denied(pod.uid, now)}
        enough, searched = self._potential_victims.examined + _MOST_EXAMINED, 0
        for row in wanted[order][levels[order] != NEVER].tolist():
            node = self._state.nodes.by_row[row]
            if node is None or row in denied:
                continue
            yield self._potential_victims.preemption_node(pod, node.name, self._state.reservations.on_node(node.name), now)
            searched += 1
            if searched == _MOST_SEARCHED or self._potential_victims.examined >= enough:
                return

    def forget(self, uid: PodUid) -> None:
        """Forgets the delay of a pod that passed filter, is bound or gone, or preempts."""
        self._delayed.pop(uid, None)

    def due(self, now: Instant) -> None:
        """Activates pods whose delay is over, since kube-scheduler does not know that moment."""
        self._potential_victims.expire(now)
        for delayed in self._delayed.values():
            if delayed.until <= now and not delayed.notified:
                delayed.notified = True
                self._preemptions.effects.append(activating(delayed.pod, "delay-ended"))

    def resume(self, policy: PreemptionPolicy, now: Instant) -> None:
        """Continues the preemptions that an earlier process began and that are still needed. Call it after everything has been
        listed.

        The preemptor's annotation names node and victims. They are checked like a choice of our own, so a client that can write
        the annotation cannot make a pod leave that is as important as the preemptor, or whose room is not needed.
        """
        for pod in list(self._state.pods):
            if pod.preempting is None or pod.node is not None or pod.ended or pod.deleting:
                continue
            if policy.paused or not policy.enabled or not self._resumed(pod, policy, now):
                self._preemptions.effects += [WritePreempting(pod.uid, pod.key, None), activating(pod, "preemption-over")]

    def _resumed(self, pod: Pod, policy: PreemptionPolicy, now: Instant) -> bool:
        assert pod.preempting is not None
        if (
            pod.preempting.node not in self._state.nodes.row_of
            or not pod.kind.preempts
            or not self._preemptions.may_begin(policy)
        ):
            return False
        found = needed_victims(
            pod.need, self._potential_victims.preemption_node(pod, pod.preempting.node, pod.preempting.victims, now)
        )
        if found is None or not (found.victims or found.awaited):
            return False
        self._preemptions.begin(pod, found, policy, now, announced=True)
        return True
