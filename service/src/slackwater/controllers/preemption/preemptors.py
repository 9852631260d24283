"""Decides in filter whether a refused pod preempts, and finds the cheapest candidate for it.

    filter refuses everywhere -> may the pod preempt? -> candidate nodes -> the cheapest candidate -> its preemption begins

- `Preemptors`: which pods preempt; continues preemptions after a restart.
- `CandidateNodes`: which nodes are worth a search for victims.
- `cheapest`: the candidates with the least cost, from `victims` and `runners_up`.

In: a refused pod and the cluster state. Out: a candidate (a node with its victims), or None. Invariant: no preemption begins
for a pod that may not preempt, that fits elsewhere, that has a preemption under way (ours, or kube-scheduler's after the
preempt verb), or that was first refused more recently than the policy asks.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

import numpy as np

from slackwater.cluster.cluster_state import ClusterState
from slackwater.cluster.priority_shares import NEVER
from slackwater.controllers.policy import PreemptionPolicy
from slackwater.controllers.preemption.activations import activating
from slackwater.controllers.preemption.potential_victims import PotentialVictims
from slackwater.controllers.preemption.runners_up import MOST_RUNNERS_UP, cost, runners_up
from slackwater.controllers.preemption.state import Preemptions
from slackwater.controllers.preemption.victims import Candidate, PreemptionNode, needed_victims
from slackwater.model.columns import Codes, Rows
from slackwater.model.effects import WritePreempting
from slackwater.model.ids import Instant, PodUid
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater.model.resources import Amounts

_FULL: Final = np.array([Reason.NOT_ENOUGH_CPU, Reason.NOT_ENOUGH_MEMORY, Reason.HELD_FOR_OTHERS], np.uint8)
#: Nodes searched together, and for one pod at most; kube-scheduler compares a hundred too, or a tenth of the nodes.
_FEW: Final = 8
_MOST_CANDIDATE_NODES: Final = 100
#: The search for one pod also ends after this many pods of nodes, 5 to 10 ms of work: filter waits for it.
_MOST_EXAMINED: Final = 800


class CandidateNodes:
    """Chooses the nodes to search for victims, the most promising first.

    These are nodes that kube-scheduler's own filters accept and only our accounting refuses, so nothing but room is lacking.
    First all of them are compared at once, by the priority up to which pods would have to go. Then the best few are searched
    pod by pod.
    """

    def __init__(self, cluster_state: ClusterState, potential_victims: PotentialVictims, preemptions: Preemptions) -> None:
        self._ledger = cluster_state.ledger
        self._nodes = cluster_state.nodes
        self._pods = cluster_state.pods
        self._reservations = cluster_state.reservations
        self._bind_backoff = cluster_state.bind_backoff
        self._admitting = cluster_state.admitting
        self._potential_victims = potential_victims
        self._preemptions = preemptions
        #: Rotates rows that compare equal, so that the search does not always begin with the same nodes.
        self._turn = 0

    def of(self, pod: Pod, rows: Rows, codes: Codes, now: Instant) -> Iterator[list[PreemptionNode]]:
        """Yields the nodes among `rows` to search, a few at a time; `codes` are filter's verdicts on the rows.

        Better nodes come first, but this order takes no account of budgets, nor of pods that may not be deleted. Only rows
        where our accounting is stricter than kube-scheduler's are included. On the others kube-scheduler finds victims by
        itself; and if only we see such a node as full, this is about to change.
        """
        wanted = rows[np.isin(codes, _FULL)]
        wanted = wanted[self._nodes.stricter[wanted] & self._admitting.of(pod.kind)[wanted]]
        denied = {self._nodes.row_of[name] for name in self._bind_backoff.nodes_denied(pod.uid, now)}
        found: list[PreemptionNode] = []
        looked_at, enough = 0, self._potential_victims.examined + _MOST_EXAMINED
        for row in self._best_first(pod, wanted).tolist():
            node = self._nodes.by_row[row]
            if node is None or row in denied:
                continue
            found.append(self._potential_victims.preemption_node(pod, node.name, self._reservations.on_node(node.name), now))
            looked_at += 1
            last = looked_at == _MOST_CANDIDATE_NODES or self._potential_victims.examined >= enough
            if len(found) == _FEW or last:
                yield found
                found = []
            if last:
                return
        if found:
            yield found

    def _best_first(self, pod: Pod, rows: Rows) -> Rows:
        """The rows in the order of the search: first rows that a pod is leaving; then by the highest priority among the pods
        that would have to go, the lowest first. Rows where no victim helps are left out.
        """
        free = self._ledger.columns.free(rows)
        levels = self._reservations.priority_shares.levels(pod.need, free, rows, below=pod.priority)
        self._turn += 1
        turned = (np.arange(len(rows)) + self._turn) % max(len(rows), 1)
        order = np.lexsort((turned, levels, ~np.isin(rows, self._rows_left())))
        best: Rows = rows[order][levels[order] != NEVER]
        return best

    def _rows_left(self) -> list[int]:
        """The rows on which a pod is being deleted, or is to leave as a victim."""
        leaving = self._pods.leaving | self._preemptions.pending_deletions.awaited_by.keys()
        return [placed.row for uid in leaving if (placed := self._reservations.placed.get(uid)) is not None]

    def has_lower_priority_pods(self, priority: int) -> bool:
        """Is there a pod of lower priority in the cluster?"""
        return any(found < priority for found in self._pods.priorities)


def cheapest(
    wanted: Amounts, preemption_nodes: Iterable[PreemptionNode], *, beside: Iterable[Candidate] = ()
) -> list[Candidate]:
    """The cheapest candidates that make `wanted` fit on one of the nodes, in order of `cost`: the best and up to
    `MOST_RUNNERS_UP` others. Empty if no node has enough potential victims. `beside`: candidates found before, which
    compete."""
    found = (needed_victims(wanted, preemption_node) for preemption_node in preemption_nodes)
    candidates = (candidate for candidate in found if candidate is not None)
    return nsmallest(1 + MOST_RUNNERS_UP, [*beside, *candidates], key=cost)


@dataclass(slots=True)
class _Delayed:
    pod: Pod
    until: Instant
    notified: bool = False


class Preemptors:
    """Decides which pods preempt, and remembers refused pods that may not preempt before a delay is over."""

    def __init__(self, cluster_state: ClusterState, potential_victims: PotentialVictims, preemptions: Preemptions) -> None:
        self._nodes = cluster_state.nodes
        self._pods = cluster_state.pods
        self._accepted_preemptions = cluster_state.accepted_preemptions
        self._potential_victims = potential_victims
        self._preemption_nodes = CandidateNodes(cluster_state, potential_victims, preemptions)
        self._preemptions = preemptions
        self._delayed: dict[PodUid, _Delayed] = {}

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
        if not policy.enabled or policy.paused or not self._may_preempt(pod, policy, now) or not self._waited(pod, policy, now):
            return False
        candidates = self._cheapest(pod, rows, codes, now)
        if not candidates or not (candidates[0].victims or candidates[0].awaited) or not helps(candidates[0]):
            return False
        found = candidates[0]
        self.forget(pod.uid)
        self._preemptions.begin(pod, found, policy, now, others=runners_up(found, candidates))
        return True

    def _cheapest(self, pod: Pod, rows: Rows, codes: Codes, now: Instant) -> list[Candidate]:
        """The cheapest candidates, the best first. Searches further nodes only while no candidate was found, or the best one
        violates a budget."""
        best: list[Candidate] = []
        for preemption_nodes in self._preemption_nodes.of(pod, rows, codes, now):
            best = cheapest(pod.need, preemption_nodes, beside=best)
            if best and not best[0].violations:
                break
        return best

    def _may_preempt(self, pod: Pod, policy: PreemptionPolicy, now: Instant) -> bool:
        return (
            pod.kind.preempts
            and not pod.deleting
            and not self._preemptions.is_backing_off(pod.uid, now)
            and self._preemptions.number_of(pod.uid) is None
            and self._preemptions.may_begin(policy)
            and self._preemption_nodes.has_lower_priority_pods(pod.priority)
            and not self._accepted_preemptions.awaited(pod.uid, self._potential_victims.seen_on, now)
        )

    def _waited(self, pod: Pod, policy: PreemptionPolicy, now: Instant) -> bool:
        if not policy.delay:
            return True
        delayed = self._delayed.setdefault(pod.uid, _Delayed(pod, Instant(now + policy.delay)))
        return delayed.until <= now

    def forget(self, uid: PodUid) -> None:
        """Forgets the delay of a pod that passed filter, is bound or gone, or preempts."""
        self._delayed.pop(uid, None)

    def due(self, now: Instant) -> None:
        """Activates pods whose delay is over, since kube-scheduler does not know that moment."""
        self._potential_victims.expire(now)
        for delayed in self._delayed.values():
            if delayed.until <= now and not delayed.notified:
                delayed.notified = True
                self._preemptions.defer(activating(delayed.pod, "delay-ended"))

    def resume(self, policy: PreemptionPolicy, now: Instant) -> None:
        """Continues the preemptions that an earlier process began and that are still needed. Call it after everything has been
        listed.

        The preemptor's annotation names node and victims. They are checked like a choice of our own, so a client that can write
        the annotation cannot make a pod leave that is as important as the preemptor, or whose room is not needed.
        """
        for pod in list(self._pods):
            if pod.preempting is None or pod.node is not None or pod.ended or pod.deleting:
                continue
            if policy.paused or not policy.enabled or not self._resumed(pod, policy, now):
                self._preemptions.defer(WritePreempting(pod.uid, pod.key, None))
                self._preemptions.defer(activating(pod, "preemption-over"))

    def _resumed(self, pod: Pod, policy: PreemptionPolicy, now: Instant) -> bool:
        assert pod.preempting is not None
        if pod.preempting.node not in self._nodes.row_of or not pod.kind.preempts or not self._preemptions.may_begin(policy):
            return False
        found = needed_victims(
            pod.need, self._potential_victims.preemption_node(pod, pod.preempting.node, pod.preempting.victims, now)
        )
        if found is None or not (found.victims or found.awaited):
            return False
        self._preemptions.begin(pod, found, policy, now, announced=True)
        return True
