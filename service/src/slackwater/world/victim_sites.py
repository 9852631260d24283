"""Which nodes are worth a look for victims: those that would take the preemptor, were there room.

Asked of nodes that kube-scheduler's own filters let pass: only our accounting refuses them, so nothing but room is lacking.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from slackwater.decide.preemption.victims import Site
from slackwater.model.columns import Codes, Rows
from slackwater.model.ids import Instant
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater.world.books import Books
from slackwater.world.occupants import Occupants

_FULL: Final = np.array([Reason.NOT_ENOUGH_CPU, Reason.NOT_ENOUGH_MEMORY, Reason.HELD_FOR_OTHERS], np.uint8)
#: Nodes looked at for one pod, as kube-scheduler does: a tenth of them, but no fewer than this.
_LEAST_SITES: Final = 100
_SHARE_OF_SITES: Final = 10


class VictimSites:
    """Yields sites, as many as a choice needs."""

    def __init__(self, books: Books, occupants: Occupants) -> None:
        self._nodes = books.nodes
        self._pods = books.pods
        self._claims = books.claims
        self._denials = books.denials
        self._admitting = books.admitting
        self._occupants = occupants
        #: Where the next search begins: not always the same nodes are looked at, where there are many.
        self._begin = 0

    def of(self, pod: Pod, rows: Rows, codes: Codes, now: Instant) -> Iterator[Site]:
        """The sites among `rows`, which were judged `codes`. Only rows where our accounting is the stricter one: elsewhere
        kube-scheduler finds victims by itself, and what seems full to us alone is about to change."""
        wanted = rows[np.isin(codes, _FULL)]
        wanted = wanted[self._nodes.stricter[wanted] & self._admitting.of(pod.kind)[wanted]]
        denied = set(self._denials.nodes_denied(pod.uid, now))
        most = max(_LEAST_SITES, len(wanted) // _SHARE_OF_SITES)
        self._begin += 1
        first = self._begin % len(wanted) if len(wanted) > most else 0
        found = 0
        for row in [*wanted[first:].tolist(), *wanted[:first].tolist()]:
            node = self._nodes.by_row[row]
            if node is None or node.name in denied:
                continue
            site = self._occupants.site(pod, node.name, self._claims.on_node(node.name), now)
            if site.occupants:
                found += 1
                yield site
            if found >= most:
                return

    def anybody_below(self, priority: int) -> bool:
        """Is there any pod of lower priority at all?"""
        return any(found < priority for found in self._pods.priorities)
