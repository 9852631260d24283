"""Nominates a node for each pod with a sample miss, holds room there, and counts the pods that were then bound to it."""

from typing import Final

import numpy as np

from slackwater.cluster.cluster_state import ClusterState
from slackwater.cluster.sample_misses import SampleMiss
from slackwater.controllers.policy import Policy
from slackwater.fit.score_curve import fractions
from slackwater.model.effects import Activate, Effect, Nominate
from slackwater.model.ids import Instant, NodeName, PodUid
from slackwater.model.objects import Pod
from slackwater.runtime.flows.filter import Placing

#: The most pods nominated in one tick; the others follow in the next ticks.
_MAX_PER_TICK: Final = 16


class Nominations:
    """Nominates nodes for pods with sample misses."""

    def __init__(self, cluster_state: ClusterState, *, placing: Placing) -> None:
        self._ledger = cluster_state.ledger
        self._nodes = cluster_state.nodes
        self._pods = cluster_state.pods
        self._reservations = cluster_state.reservations
        self._holds = cluster_state.holds
        self._room = cluster_state.room
        self._placing = placing
        self._sample_misses = cluster_state.sample_misses
        self._event_counts = cluster_state.event_counts

    def due(self, policy: Policy, now: Instant) -> list[Effect]:
        """Nominates a node for pods with a sample miss whose failed scheduling cycle is over. Forgets pods that fit nowhere."""
        self._sample_misses.expire(now)
        effects: list[Effect] = []
        for uid, sample_miss in self._sample_misses.due(now)[:_MAX_PER_TICK]:
            pod = self._pods.known(uid)
            waiting = pod is not None and pod.node is None and self._reservations.get(uid) is None
            node = self._choose(pod, sample_miss, policy, now) if pod is not None and waiting else None
            if pod is None or node is None:
                self._sample_misses.forget(uid)
                continue
            rows = np.array([self._nodes.row_of[node]], np.intp)
            self._holds.put(uid, pod.key, rows, pod.need, Instant(now + policy.hold_seconds), nominee=pod.priority)
            self._sample_misses.nominated(uid, node)
            self._event_counts.nominations += 1
            self._event_counts.holds += 1
            effects += [Nominate(uid, pod.key, node), Activate(uid, pod.key, "nominated")]
        return effects

    def _choose(self, pod: Pod, sample_miss: SampleMiss, policy: Policy, now: Instant) -> NodeName | None:
        tried = [row for name in sample_miss.tried if (row := self._nodes.row_of.get(name)) is not None]
        with self._room.beside(pod.priority):
            rows = self._placing.fitting_elsewhere(pod, np.array(tried, np.intp), now)
        scores = fractions(pod.need, self._ledger.columns, rows, policy.curve)
        # The best first. Equal scores are ordered by row, so that the choice is deterministic.
        for row in rows[np.lexsort((rows, -scores))]:
            node = self._nodes.by_row[int(row)]
            if node is not None:
                return node.name
        return None

    def ended(self, uid: PodUid, node: NodeName) -> None:
        """Takes in that the pod was bound to `node`."""
        sample_miss = self._sample_misses.forget(uid)
        if sample_miss is not None and sample_miss.nominated == node:
            self._event_counts.nominations_met += 1
