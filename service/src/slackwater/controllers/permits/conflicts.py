"""Permit conflicts: finds persisted permits that cannot all be true. Runs once, when everything has been listed.

No process knowingly lets the persisted permits of a node exceed its Total (`permit_limits`). But a write of a process that died
may arrive after its successor has listed and has given the room to another pod. No agent was ever answered by such a write: an
agent is answered only when its write is known to have arrived. So where the persisted permits of a node and the pods bound
there exceed its Total, the permits of the oldest epochs are in doubt: they stay Reserved, as Buffer, until their agents have
asked (docs/adr/0011).
"""

from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from slackwater.cluster.cluster_state import ClusterState
from slackwater.model.ids import NodeName, PodUid, Row


class PermitConflicts:
    """Puts persisted permits in doubt. Looks at every node, and at single pods only on nodes over Total."""

    def __init__(self, cluster_state: ClusterState) -> None:
        self._ledger = cluster_state.ledger
        self._nodes = cluster_state.nodes
        self._reservations = cluster_state.reservations
        self._vertical_pods = cluster_state.vertical_pods

    def settle(self) -> None:
        """Puts permits in doubt until what is certain fits on each node, or no permit is left that could be doubted."""
        for row, node in self._nodes:
            if not self._fits(row):
                self._settle_node(row, node.name)

    def _fits(self, row: Row) -> bool:
        numbers = self._ledger.numbers(row)
        return numbers.reserved.minus(numbers.buffer).within(numbers.total)

    def _settle_node(self, row: Row, name: NodeName) -> None:
        epochs = [
            (epoch, uid) for uid in self._reservations.on_node(name) if (epoch := self._vertical_pods.epoch_of(uid)) is not None
        ]
        for _, group in groupby(sorted(epochs), key=itemgetter(0)):
            if self._fits(row):
                return
            for _, uid in group:
                self._doubt(uid)

    def _doubt(self, uid: PodUid) -> None:
        vertical_pod, reservation = self._vertical_pods.get(uid), self._reservations.get(uid)
        assert vertical_pod is not None
        assert reservation is not None
        vertical_pod.doubtful = True
        self._reservations.recount(uid, replace(reservation.pod_resources, buffer=reservation.pod_resources.reserved))
