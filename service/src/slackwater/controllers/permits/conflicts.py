"""Records that cannot all be true: found once, when everything has been listed.

No process lets the records of a node say more than its Total (`records`), as far as it knows them. But a write of a process
that died may arrive after its successor has listed, and after that one has given the room away. Nobody was told of what it
says: an agent is answered when its write is known to have arrived. So where the records of a node, and what is bound there,
are more than it has, those of the oldest epochs are in doubt: they stay Reserved, as Buffer, until their agents have spoken
(docs/adr/0011).
"""

from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from slackwater.cluster.cluster_state import Books
from slackwater.model.ids import NodeName, PodUid, Row


class Contradictions:
    """Looks at every node, and at the pods only of those over Total."""

    def __init__(self, books: Books) -> None:
        self._ledger = books.ledger
        self._nodes = books.nodes
        self._claims = books.claims
        self._standings = books.standings

    def settle(self) -> None:
        """Puts records in doubt until what is certain fits, or no record is left."""
        for row, node in self._nodes:
            if not self._fits(row):
                self._settle_node(row, node.name)

    def _fits(self, row: Row) -> bool:
        numbers = self._ledger.numbers(row)
        return numbers.reserved.minus(numbers.buffer).within(numbers.total)

    def _settle_node(self, row: Row, name: NodeName) -> None:
        epochs = [(epoch, uid) for uid in self._claims.on_node(name) if (epoch := self._standings.epoch_of(uid)) is not None]
        for _, group in groupby(sorted(epochs), key=itemgetter(0)):
            if self._fits(row):
                return
            for _, uid in group:
                self._doubt(uid)

    def _doubt(self, uid: PodUid) -> None:
        standing, claim = self._standings.get(uid), self._claims.get(uid)
        assert standing is not None
        assert claim is not None
        standing.doubtful = True
        self._claims.recount(uid, replace(claim.account, buffer=claim.account.reserved))
