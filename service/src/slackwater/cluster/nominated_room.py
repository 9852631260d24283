"""Nominated room: room kept on a node for a preemptor while its victims leave, and until kube-scheduler tries the preemptor
again.

Only pods of higher priority may use this room (`beside`). There is one exception: of two preemptors of equal priority, the
earlier one may use the room of the later one, because the later one chose its victims without counting on the earlier one's
room.

Other nominations keep their room by the pod's hold for its bind. Until kube-scheduler asks about the pod, pods of higher
priority may use that room too (`Hold.nominee`). A preemptor's room is a hold of its own, so that only the end of the preemption
ends it.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np

from slackwater.cluster.drain_destinations import DrainDestinations
from slackwater.cluster.holds import Hold, HoldKey, Holds
from slackwater.cluster.nodes import NodeTable
from slackwater.model.columns import Int64, Rows
from slackwater.model.ids import NodeName, PodUid, Row
from slackwater.model.ledger.ledger import Ledger
from slackwater.model.objects import Pod
from slackwater.model.resources import RESOURCES


@dataclass(frozen=True, slots=True)
class Nominee:
    """A preemptor with nominated room: its node and priority, and the number of its preemption."""

    node: NodeName
    priority: int
    number: int


class NominatedRoom:
    """The nominated room of each preemptor, on at most one node."""

    def __init__(self, ledger: Ledger, nodes: NodeTable, holds: Holds, destinations: DrainDestinations) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._holds = holds
        self._destinations = destinations
        self._nominees: dict[PodUid, Nominee] = {}

    def put(self, pod: Pod, node: NodeName, number: int) -> None:
        """Keeps room for the pod on the node, in place of earlier room of the pod. Keeps none if the node is unknown.

        `number` grows from one preemption to the next.
        """
        uid = pod.uid
        self.drop(uid)
        row = self._nodes.row_of.get(node)
        if row is None:
            return
        self._holds.put(_key(uid), Hold(key=pod.key, row=Row(row), amounts=pod.need))
        self._nominees[uid] = Nominee(node, pod.priority, number)

    def drop(self, uid: PodUid) -> Nominee | None:
        """Ends the pod's nominated room. Returns what it was, None if the pod had none."""
        nominee = self._nominees.pop(uid, None)
        if nominee is not None:
            self._holds.drop(_key(uid))
        return nominee

    def node_of(self, uid: PodUid) -> NodeName | None:
        nominee = self._nominees.get(uid)
        return None if nominee is None else nominee.node

    def kept_on(self, rows: Rows, priority: int) -> Int64:
        """The room on each row that is kept for preemptors of that priority or a higher one; shape (resources, len(rows))."""
        kept = np.zeros((len(RESOURCES), self._ledger.columns.n_rows), np.int64)
        for uid, nominee in self._nominees.items():
            hold = self._holds.get(_key(uid))
            if nominee.priority >= priority and hold is not None:
                kept[:, hold.row] += hold.amounts
        return kept[:, rows]

    def beside(self, pod: Pod, number: int | None = None) -> AbstractContextManager[None]:
        """A context in which the room of nominees with a lower priority than the pod's counts as free, and the room of evicted
        pods that the pod may replace. `number` is that of the pod's own preemption; then the room of later preemptions with the
        same priority counts as free too."""
        nominated_amounts = self._holds.nominated.below(pod.priority, self._ledger.columns.n_rows)
        own = self._destinations.released_to(pod) if len(self._destinations) else []
        return (
            self._without_lower_nominees(pod.priority, number, nominated_amounts, own)
            if self._nominees or nominated_amounts is not None or own
            else nullcontext()
        )

    @contextmanager
    def _without_lower_nominees(
        self, priority: int, number: int | None, nominated_amounts: Int64 | None, own: list[Hold]
    ) -> Iterator[None]:
        found = (
            self._holds.get(_key(uid))
            for uid, nominee in self._nominees.items()
            if nominee.priority < priority or (number is not None and nominee.priority == priority and nominee.number > number)
        )
        lifted = [*own, *(hold for hold in found if hold is not None)]
        for hold in lifted:
            self._ledger.release_held(hold.row, hold.amounts)
        if nominated_amounts is not None:
            self._ledger.hold_on_all(-nominated_amounts)
        try:
            yield
        finally:
            if nominated_amounts is not None:
                self._ledger.hold_on_all(nominated_amounts)
            for hold in lifted:
                self._ledger.hold(hold.row, hold.amounts)

    def __len__(self) -> int:
        return len(self._nominees)


def _key(uid: PodUid) -> HoldKey:
    return HoldKey(uid, "preemption")
