"""Chooses the node that a starved pod is nominated to, keeps the room there, and counts whether it was met."""

from typing import Final

import numpy as np

from slackwater.cluster.cluster_state import Books
from slackwater.cluster.sample_misses import Starved
from slackwater.controllers.policy import Policy
from slackwater.fit.score_curve import fractions
from slackwater.model.effects import Effect, Nominate, Touch
from slackwater.model.ids import Instant, NodeName, PodUid
from slackwater.model.objects import Pod
from slackwater.runtime.flows.filter import Placing

#: Pods nominated in one tick; the others follow with the next.
_MAX_PER_TICK: Final = 16


class Nominations:
    """Answers sample starvation."""

    def __init__(self, books: Books, *, placing: Placing) -> None:
        self._ledger = books.ledger
        self._nodes = books.nodes
        self._pods = books.pods
        self._claims = books.claims
        self._holds = books.holds
        self._room = books.room
        self._placing = placing
        self._starvation = books.starvation
        self._tally = books.tally

    def due(self, policy: Policy, now: Instant) -> list[Effect]:
        """Nominates for each starved pod whose failed cycle is over; forgets those that no node can help."""
        self._starvation.expire(now)
        effects: list[Effect] = []
        for uid, starved in self._starvation.due(now)[:_MAX_PER_TICK]:
            pod = self._pods.known(uid)
            waiting = pod is not None and pod.node is None and self._claims.get(uid) is None
            node = self._choose(pod, starved, policy, now) if pod is not None and waiting else None
            if pod is None or node is None:
                self._starvation.forget(uid)
                continue
            rows = np.array([self._nodes.row_of[node]], np.intp)
            self._holds.put(uid, pod.key, rows, pod.need, Instant(now + policy.hold_seconds), nominee=pod.priority)
            self._starvation.nominated(uid, node)
            self._tally.nominations += 1
            self._tally.holds += 1
            effects += [Nominate(uid, pod.key, node), Touch(uid, pod.key, "nominated")]
        return effects

    def _choose(self, pod: Pod, starved: Starved, policy: Policy, now: Instant) -> NodeName | None:
        tried = [row for name in starved.tried if (row := self._nodes.row_of.get(name)) is not None]
        with self._room.beside(pod.priority):
            rows = self._placing.fitting_elsewhere(pod, np.array(tried, np.intp), now)
        scores = fractions(pod.need, self._ledger.columns, rows, policy.curve)
        # Best first; equal scores in order of row, so that the choice is the same on every run.
        for row in rows[np.lexsort((rows, -scores))]:
            node = self._nodes.by_row[int(row)]
            if node is not None:
                return node.name
        return None

    def ended(self, uid: PodUid, node: NodeName) -> None:
        """The pod was bound to `node`."""
        starved = self._starvation.forget(uid)
        if starved is not None and starved.nominated == node:
            self._tally.nominations_met += 1
