"""Records that cannot all be true: found once, when everything has been listed.

No process lets the records of a node say more than its Total (`records`), as far as it knows them. But a write of a process
that died may arrive after its successor has listed, and after that one has given the room away. Nobody learned of what it
says: an agent is answered when its write is known to have arrived. So where the records of a node, and what is bound there,
are more than it has, those of the oldest epochs are in doubt: they stay Reserved, as Buffer, until their agents have spoken
(docs/adr/0011).
"""

from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from slackwater.cluster.cluster_state import ClusterState
from slackwater.model.ids import NodeName, PodUid, Row


class PermitConflicts:
    """Looks at every node, and at the pods only of those over Total."""

    def __init__(self, cluster_state: ClusterState) -> None:
        self._ledger = cluster_state.ledger
        self._nodes = cluster_state.nodes
        self._reservations = cluster_state.reservations
        self._vertical_pods = cluster_state.vertical_pods

    def settle(self) -> None:
        """Puts records in doubt until what is certain fits, or no record is left."""
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
