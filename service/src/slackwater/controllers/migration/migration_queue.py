"""The migration queue: which virtual machines may leave each node, in the order in which they should leave."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

from slackwater.model.ids import NodeName, PodUid


class Rank(NamedTuple):
    """The rank of a machine in its node's migration queue; the machine of the lowest rank leaves first.

    Ranks compare by: 1. machines with a known load before those without;  2. lower one-minute load (in millionths), since that
    disturbs least;  3. lower join number. Join numbers differ, so machines of equal load never change places.
    """

    without_load: bool
    load1_micro: int
    joined: int


def rank(load1_micro: int | None, joined: int) -> Rank:
    return Rank(load1_micro is None, load1_micro or 0, joined)


class MigrationQueue:
    """The migration queues of all nodes; a pod is in at most one queue.

    A machine joins its node's queue with its agent's first request, and stays there until it may no longer migrate.
    """

    def __init__(self) -> None:
        self._queues: dict[NodeName, list[tuple[Rank, PodUid]]] = {}
        self._places: dict[PodUid, tuple[NodeName, Rank]] = {}
        self._joined = 0

    def put(self, uid: PodUid, node: NodeName, load1_micro: int | None) -> None:
        """Adds the pod to the node's queue. A pod that is in the queue keeps its join number, and gets the rank of this
        load."""
        place = self._places.get(uid)
        joined = place[1].joined if place is not None and place[0] == node else self._joined
        self.enter(uid, node, load1_micro, joined)

    def enter(self, uid: PodUid, node: NodeName, load1_micro: int | None, joined: int) -> None:
        """Adds the pod to the node's queue with this join number."""
        self.drop(uid)
        self._joined = max(self._joined, joined + 1)
        ranked = rank(load1_micro, joined)
        self._places[uid] = (node, ranked)
        insort(self._queues.setdefault(node, []), (ranked, uid))

    def drop(self, uid: PodUid) -> None:
        place = self._places.pop(uid, None)
        if place is None:
            return
        queue = self._queues[place[0]]
        del queue[bisect_left(queue, (place[1], uid))]
        if not queue:
            del self._queues[place[0]]

    def __contains__(self, uid: PodUid) -> bool:
        return uid in self._places

    def on_node(self, node: NodeName) -> Iterator[PodUid]:
        """The pods of the node's queue in order. Do not change the queue while iterating."""
        return (uid for _, uid in self._queues.get(node, ()))

    def entries(self) -> list[tuple[NodeName, PodUid, int | None, int]]:
        """All entries as (node, pod, load, join number), sorted by node and rank. The load is in millionths; None if
        unknown."""
        return [
            (node, uid, None if ranked.without_load else ranked.load1_micro, ranked.joined)
            for node in sorted(self._queues)
            for ranked, uid in self._queues[node]
        ]

    def __len__(self) -> int:
        return len(self._places)
