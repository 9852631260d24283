"""Reservations: which pod counts on which node, and by how much. A reservation begins at bind, or when the watch shows a pod
that another scheduler bound.

    bind   -> binding -> bound -> seen      the usual way: the API server accepts, then the watch shows the pod on its node
              binding -> unsure -> doubted  no answer came, and the watch shows nothing: the pod is read, and the read decides
    watch  -> seen                          bound by kube-scheduler on filter's answer, by others, or before our start

Invariant: what is Reserved on a row is the sum over the reservations of its node, in the ledger and in its shares by priority;
a reservation of a node without a row counts nowhere. A bind that may have happened counts: only the watch, a read of the pod or
the API server's refusal ends a reservation. Who opens or closes a row has to call `node_opened` or `node_closing`, and only an
audit sets sums past this table (`recompute_row`).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from msgspec import Struct, structs

from slackwater.cluster.journal import ChangeJournal
from slackwater.cluster.nodes import NodeTable
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid, Row
from slackwater.model.ledger import Ledger, PriorityShares
from slackwater.model.objects import Pod
from slackwater.model.pod_resources import PodResources
from slackwater.model.resources import MOST_PODS_ON_NODE, NOTHING, Amounts

#: - binding: the API call is under way.
#: - repeated: a call is under way, and an earlier call had no answer, so the earlier one may have succeeded.
#: - bound: the API server has accepted the bind, the watch has not shown it yet.
#: - unsure: no answer came.
#: - doubted: a deadline passed, and the pod is being read; if it is unbound, the reservation ends.
#: - seen: the watch shows the pod on the node. This is the only state without a deadline.
ReservationState = Literal["binding", "repeated", "bound", "unsure", "doubted", "seen"]


class Reservation(Struct, frozen=True, kw_only=True, gc=False):
    """The room that counts for a pod on a node. `deadline` is when to read the pod from the API server; None in state
    "seen"."""

    key: PodKey
    node: NodeName
    pod_resources: PodResources
    state: ReservationState
    deadline: Instant | None
    priority: int
    vertical: bool = False  #: the pod counts by other amounts than its requests

    @classmethod
    def of(
        cls, pod: Pod, node: NodeName, pod_resources: PodResources, state: ReservationState, deadline: Instant | None
    ) -> "Reservation":
        """The reservation of the pod, with the pod's own name, priority and kind of growth."""
        key, priority, vertical = pod.key, pod.priority, pod.vertical is not None
        return cls(
            key=key,
            node=node,
            pod_resources=pod_resources,
            state=state,
            deadline=deadline,
            priority=priority,
            vertical=vertical,
        )


class PlacedPod(Struct, frozen=True, kw_only=True, gc=False):
    """A pod that counts on a node with a row: the row, and what is Reserved for the pod."""

    row: Row
    reserved: Amounts


def as_counted(pod: Pod, reservation: Reservation | None) -> Pod:
    """The pod as decisions count it: on its reservation's node, with at least its reservation's amounts.

    A vertical pod without a reservation counts with at least its `need`. Only for pods that have not ended.
    """
    if reservation is None:
        return pod if pod.vertical is None else _taking(pod, pod.need)
    if reservation.node != pod.node:
        pod = pod.on(reservation.node)
    return _taking(pod, reservation.pod_resources.reserved)


def _taking(pod: Pod, amounts: Amounts) -> Pod:
    if amounts.within(pod.kind.requests):
        return pod
    return structs.replace(pod, kind=replace(pod.kind, requests=pod.kind.requests.at_least(amounts)))


class Reservations:
    """All reservations. A reservation counts in the ledger exactly as long as its node has a row."""

    def __init__(self, ledger: Ledger, nodes: NodeTable, dropped: Callable[[PodUid, Reservation], None]) -> None:
        """Creates an empty table. `dropped` is called with each reservation that ends."""
        #: What is Reserved, by priority.
        self.priority_shares = PriorityShares()
        self._ledger = ledger
        self._nodes = nodes
        self._dropped = dropped
        self._reservations: dict[PodUid, Reservation] = {}
        self._by_node: dict[NodeName, dict[PodUid, None]] = {}
        #: The reservations in another state than "seen"; few, unlike those that the watch shows.
        self._waiting: dict[PodUid, None] = {}
        #: The reservations whose node has a row.
        self.placed: dict[PodUid, PlacedPod] = {}
        #: The UIDs of pods whose node or amounts changed.
        self.journal = ChangeJournal[PodUid]()

    def get(self, uid: PodUid) -> Reservation | None:
        return self._reservations.get(uid)

    def put(self, uid: PodUid, reservation: Reservation) -> None:
        """Counts a pod on a node, in place of the node where it counted before.

        :raises OverflowError: the node already has `MOST_PODS_ON_NODE` other pods; nothing has changed.
        """
        on_node = self._by_node.get(reservation.node, {})
        if len(on_node) >= MOST_PODS_ON_NODE and uid not in on_node:
            raise OverflowError(f"node {reservation.node} has {len(on_node)} pods; {MOST_PODS_ON_NODE} are counted on one node")
        self.drop(uid)
        self.journal.note(uid)
        self._reservations[uid] = reservation
        self._by_node.setdefault(reservation.node, {})[uid] = None
        if reservation.state != "seen":
            self._waiting[uid] = None
        row = self._nodes.row_of.get(reservation.node)
        if row is not None:
            self._admit(uid, reservation, row)

    def drop(self, uid: PodUid) -> Reservation | None:
        """Ends the pod's reservation, so room appears on its node. Returns the reservation, None if there was none."""
        reservation = self._reservations.pop(uid, None)
        if reservation is None:
            return None
        self.journal.note(uid)
        self._waiting.pop(uid, None)
        on_node = self._by_node[reservation.node]
        del on_node[uid]
        if not on_node:
            del self._by_node[reservation.node]
        placed = self.placed.pop(uid, None)
        if placed is not None:
            self._ledger.release(placed.row, reservation.pod_resources)
            gone = NOTHING.minus(reservation.pod_resources.reserved)
            self.priority_shares.add(placed.row, reservation.priority, gone, pods=-1)
            self._nodes.count_vertical(placed.row, -reservation.vertical)
            self._nodes.room_appeared(placed.row)
        self._dropped(uid, reservation)
        return reservation

    def recount(self, uid: PodUid, pod_resources: PodResources) -> None:
        """Replaces the amounts of a reservation; the node stays."""
        reservation = self._reservations[uid]
        self.journal.note(uid)
        self._reservations[uid] = structs.replace(reservation, pod_resources=pod_resources)
        placed = self.placed.get(uid)
        if placed is not None:
            self._ledger.change(placed.row, reservation.pod_resources, pod_resources)
            self.priority_shares.add(
                placed.row, reservation.priority, pod_resources.reserved.minus(reservation.pod_resources.reserved)
            )
            self.placed[uid] = PlacedPod(row=placed.row, reserved=pod_resources.reserved)
            if not reservation.pod_resources.reserved.within(pod_resources.reserved):
                self._nodes.room_appeared(placed.row)

    def settle(self, uid: PodUid, state: ReservationState, deadline: Instant | None) -> None:
        """Replaces the state and the deadline of a reservation."""
        self._reservations[uid] = structs.replace(self._reservations[uid], state=state, deadline=deadline)
        if state == "seen":
            self._waiting.pop(uid, None)

    def node_opened(self, name: NodeName, row: Row) -> None:
        """Adds to the ledger the reservations on a node that were made before the node was seen. Called once, when the node
        gets a row."""
        for uid in self._by_node.get(name, ()):
            self._admit(uid, self._reservations[uid], row)

    def node_closing(self, name: NodeName) -> None:
        """Subtracts the reservations on a node from the ledger, because the node loses its row. The reservations themselves
        stay until the watch shows that their pods are gone."""
        for uid in self._by_node.get(name, ()):
            row, reservation = self.placed.pop(uid).row, self._reservations[uid]
            self._ledger.release(row, reservation.pod_resources)
            gone = NOTHING.minus(reservation.pod_resources.reserved)
            self.priority_shares.add(row, reservation.priority, gone, pods=-1)
            self._nodes.count_vertical(row, -reservation.vertical)

    def recompute_row(self, name: NodeName, row: Row) -> None:
        """Computes again on which row the reservations of a node count, without changing the ledger; only audits call this."""
        for uid in self._by_node.get(name, ()):
            self.placed[uid] = PlacedPod(row=row, reserved=self._reservations[uid].pod_resources.reserved)

    def _admit(self, uid: PodUid, reservation: Reservation, row: Row) -> None:
        self._ledger.admit(row, reservation.pod_resources)
        self.priority_shares.add(row, reservation.priority, reservation.pod_resources.reserved, pods=1)
        self._nodes.count_vertical(row, reservation.vertical)
        self.placed[uid] = PlacedPod(row=row, reserved=reservation.pod_resources.reserved)

    def overdue(self, now: Instant) -> list[tuple[PodUid, Reservation]]:
        waiting = ((uid, self._reservations[uid]) for uid in self._waiting)
        return [
            (uid, reservation)
            for uid, reservation in waiting
            if reservation.deadline is not None and reservation.deadline <= now
        ]

    def on_node(self, name: NodeName) -> list[PodUid]:
        return list(self._by_node.get(name, ()))

    def count_on(self, name: NodeName) -> int:
        return len(self._by_node.get(name, ()))

    def unconfirmed(self) -> int:
        return len(self._waiting)

    def copy(self) -> Mapping[PodUid, Reservation]:
        """A copy of the table of reservations; for 150,000 it takes about 3 ms."""
        return dict(self._reservations)

    def __contains__(self, uid: object) -> bool:
        return uid in self._reservations

    def __len__(self) -> int:
        return len(self._reservations)
