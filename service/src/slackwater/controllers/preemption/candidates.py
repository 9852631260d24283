"""Which nodes are worth a look for victims: those that would take the preemptor, were there room.

Asked of nodes that kube-scheduler's own filters let pass: only our accounting refuses them, so nothing but room is lacking.
All of them are compared at once by the least important pods that could make room; the best few are looked at pod by pod.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from slackwater.cluster.cluster_state import Books
from slackwater.cluster.priority_shares import NEVER
from slackwater.controllers.preemption.potential_victims import Occupants
from slackwater.controllers.preemption.state import Preemptions
from slackwater.controllers.preemption.victims import Site
from slackwater.model.columns import Codes, Rows
from slackwater.model.ids import Instant
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason

_FULL: Final = np.array([Reason.NOT_ENOUGH_CPU, Reason.NOT_ENOUGH_MEMORY, Reason.HELD_FOR_OTHERS], np.uint8)
#: Nodes looked at together, and for one pod at most; kube-scheduler compares a hundred too, or a tenth of them.
_FEW: Final = 8
_MOST_SITES: Final = 100


class VictimSites:
    """Yields sites, the most promising first."""

    def __init__(self, books: Books, occupants: Occupants, preemptions: Preemptions) -> None:
        self._ledger = books.ledger
        self._nodes = books.nodes
        self._pods = books.pods
        self._claims = books.claims
        self._denials = books.denials
        self._admitting = books.admitting
        self._occupants = occupants
        self._preemptions = preemptions
        #: Of nodes that promise the same, not always the same ones are looked at.
        self._turn = 0

    def of(self, pod: Pod, rows: Rows, codes: Codes, now: Instant) -> Iterator[list[Site]]:
        """The sites among `rows`, which were judged `codes`, a few at a time. Better ones never come later, unless a budget
        would be violated, or pods may not be taken. Only rows where our accounting is the stricter one:
        elsewhere kube-scheduler finds victims by itself, and what seems full to us alone is about to change."""
        wanted = rows[np.isin(codes, _FULL)]
        wanted = wanted[self._nodes.stricter[wanted] & self._admitting.of(pod.kind)[wanted]]
        denied = {self._nodes.row_of[name] for name in self._denials.nodes_denied(pod.uid, now)}
        found: list[Site] = []
        looked_at = 0
        for row in self._best_first(pod, wanted).tolist():
            node = self._nodes.by_row[row]
            if node is None or row in denied:
                continue
            found.append(self._occupants.site(pod, node.name, self._claims.on_node(node.name), now))
            looked_at += 1
            if len(found) == _FEW or looked_at == _MOST_SITES:
                yield found
                found = []
            if looked_at == _MOST_SITES:
                return
        if found:
            yield found

    def _best_first(self, pod: Pod, rows: Rows) -> Rows:
        """Where pods are leaving already, then by the priority that has to go; without those where nothing would help."""
        columns = self._ledger.columns
        free = columns.total[:, rows] - columns.reserved[:, rows] - columns.held[:, rows]
        levels = self._claims.shares.levels(pod.need, free, rows, below=pod.priority)
        self._turn += 1
        turned = (np.arange(len(rows)) + self._turn) % max(len(rows), 1)
        order = np.lexsort((turned, levels, ~np.isin(rows, self._rows_left())))
        best: Rows = rows[order][levels[order] != NEVER]
        return best

    def _rows_left(self) -> list[int]:
        """Rows that some pod is about to leave."""
        leaving = self._pods.leaving | self._preemptions.flights.awaited_by.keys()
        return [placed.row for uid in leaving if (placed := self._claims.placed.get(uid)) is not None]

    def anybody_below(self, priority: int) -> bool:
        """Is there any pod of lower priority at all?"""
        return any(found < priority for found in self._pods.priorities)
