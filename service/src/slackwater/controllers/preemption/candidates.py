"""Candidate nodes: which nodes are worth a search for victims, because nothing but room is lacking there.

They are nodes that kube-scheduler's own filters let pass and only our accounting refuses. All of them are compared at once by
the priority of the least important pods that could make room; the best few are then searched pod by pod.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from slackwater.cluster.cluster_state import ClusterState
from slackwater.cluster.priority_shares import NEVER
from slackwater.controllers.preemption.potential_victims import PotentialVictims
from slackwater.controllers.preemption.state import Preemptions
from slackwater.controllers.preemption.victims import PreemptionNode
from slackwater.model.columns import Codes, Rows
from slackwater.model.ids import Instant
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason

_FULL: Final = np.array([Reason.NOT_ENOUGH_CPU, Reason.NOT_ENOUGH_MEMORY, Reason.HELD_FOR_OTHERS], np.uint8)
#: Nodes searched together, and for one pod at most; kube-scheduler compares a hundred too, or a tenth of the nodes.
_FEW: Final = 8
_MOST_CANDIDATE_NODES: Final = 100


class CandidateNodes:
    """Yields the nodes to search for victims, the most promising first."""

    def __init__(self, cluster_state: ClusterState, potential_victims: PotentialVictims, preemptions: Preemptions) -> None:
        self._ledger = cluster_state.ledger
        self._nodes = cluster_state.nodes
        self._pods = cluster_state.pods
        self._reservations = cluster_state.reservations
        self._bind_backoff = cluster_state.bind_backoff
        self._admitting = cluster_state.admitting
        self._potential_victims = potential_victims
        self._preemptions = preemptions
        #: Rotates nodes that look equally good, so that the search does not always take the same ones.
        self._turn = 0

    def of(self, pod: Pod, rows: Rows, codes: Codes, now: Instant) -> Iterator[list[PreemptionNode]]:
        """The nodes among `rows` to search, a few at a time; `codes` are filter's verdicts. Better ones never come later,
        unless a budget would be violated, or pods may not be taken. Only rows where our accounting is stricter than
        kube-scheduler's: elsewhere kube-scheduler finds victims by itself, and a node that only we see as full is about to
        change."""
        wanted = rows[np.isin(codes, _FULL)]
        wanted = wanted[self._nodes.stricter[wanted] & self._admitting.of(pod.kind)[wanted]]
        denied = {self._nodes.row_of[name] for name in self._bind_backoff.nodes_denied(pod.uid, now)}
        found: list[PreemptionNode] = []
        looked_at = 0
        for row in self._best_first(pod, wanted).tolist():
            node = self._nodes.by_row[row]
            if node is None or row in denied:
                continue
            found.append(self._potential_victims.preemption_node(pod, node.name, self._reservations.on_node(node.name), now))
            looked_at += 1
            if len(found) == _FEW or looked_at == _MOST_CANDIDATE_NODES:
                yield found
                found = []
            if looked_at == _MOST_CANDIDATE_NODES:
                return
        if found:
            yield found

    def _best_first(self, pod: Pod, rows: Rows) -> Rows:
        """Rows that a pod is leaving come first, then by the priority that has to go; rows where nothing helps are left out."""
        free = self._ledger.columns.free(rows)
        levels = self._reservations.priority_shares.levels(pod.need, free, rows, below=pod.priority)
        self._turn += 1
        turned = (np.arange(len(rows)) + self._turn) % max(len(rows), 1)
        order = np.lexsort((turned, levels, ~np.isin(rows, self._rows_left())))
        best: Rows = rows[order][levels[order] != NEVER]
        return best

    def _rows_left(self) -> list[int]:
        """Rows that a pod is leaving, or is to leave as a victim."""
        leaving = self._pods.leaving | self._preemptions.pending_deletions.awaited_by.keys()
        return [placed.row for uid in leaving if (placed := self._reservations.placed.get(uid)) is not None]

    def anybody_below(self, priority: int) -> bool:
        """Is there a pod of lower priority in the cluster?"""
        return any(found < priority for found in self._pods.priorities)
