"""New nodes that are on their way, and room on them for the pods that they were bought for.

A plan says which nodes come, and for which pods (`expect`). Once such a node is there, holds of the cause "plan" keep its room
for these pods (`node_opened`), and filter names it for them. Otherwise kube-scheduler's scores would place pods differently
from the plan, and the pods left over would need a further node. A pod of a higher priority may use the room, as with a
nominee's hold. The room ends when the pod is placed or gone, and `KEPT_SECONDS` after the node has become ready at the latest.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec import structs

from slackwater.cluster.holds import Hold, HoldKey, Holds
from slackwater.cluster.nodes import NodeTable
from slackwater.cluster.pods import PodTable
from slackwater.fit.plugins.node_accounting import fits_on
from slackwater.model.events import ComingNodes
from slackwater.model.ids import Instant, NodeName, PodUid, Row
from slackwater.model.ledger import Ledger
from slackwater.model.objects import Node
from slackwater.model.resources import Amounts

#: How long the room of a ready node is kept. kube-scheduler tries a pod again within seconds of a node's becoming ready.
KEPT_SECONDS: Final = 60.0


class _Group(NamedTuple):
    """Expected nodes of one group, with what all of them have."""

    labels: Mapping[str, str]
    allocatable: Amounts
    nodes: deque[tuple[PodUid, ...]]

    def may_have(self, node: Node) -> bool:
        return all(node.labels.get(key, value) == value for key, value in self.labels.items())

    def distance(self, node: Node) -> tuple[int, ...]:
        return tuple(abs(one - other) for one, other in zip(node.allocatable, self.allocatable, strict=True))


class PlannedNodes:
    """The nodes that are on their way, by group in the order of their coming."""

    def __init__(self, ledger: Ledger, nodes: NodeTable, pods: PodTable, holds: Holds) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._pods = pods
        self._holds = holds
        self._coming: list[_Group] = []
        #: When the nodes of these pods came, after the state of which the last plan was made.
        self._came: dict[PodUid, Instant] = {}

    def expect(self, coming: Iterable[ComingNodes], as_of: Instant) -> None:
        """Replaces what is expected by what a plan expects, of the state `as_of`: less the nodes that have come since."""
        self._came = {uid: at for uid, at in self._came.items() if at >= as_of}
        groups = (_Group(dict(each.labels), each.allocatable, deque(filter(self._is_awaited, each.nodes))) for each in coming)
        self._coming = [group for group in groups if group.nodes]

    def _is_awaited(self, uids: Iterable[PodUid]) -> bool:
        return not any(uid in self._came or uid in self._holds.planned for uid in uids)

    def node_opened(self, node: Node, row: Row, now: Instant) -> None:
        """Keeps the new node's room, as far as it suffices, for the pods of the first expected node whose labels do not differ;
        of several such groups, the one whose nodes are most like it."""
        likely = (group for group in self._coming if group.nodes and group.may_have(node))
        group = min(likely, key=lambda group: group.distance(node), default=None)
        for uid in () if group is None else group.nodes.popleft():
            self._came[uid] = now
            pod = self._pods.known(uid)
            waits = pod is not None and pod.pending and not self._holds.has(uid)
            if pod is not None and waits and fits_on(pod.need, self._ledger.columns, row):
                self._holds.put(HoldKey(uid, "plan"), Hold(key=pod.key, row=row, amounts=pod.need, nominee=pod.priority))

    def node_ready(self, row: Row, now: Instant) -> None:
        """Ends the room on the node, which has become ready, after `KEPT_SECONDS`."""
        deadline = Instant(now + KEPT_SECONDS)
        for uid in [uid for uid, hold in self._holds.planned.items() if hold.row == row]:
            self._holds.put(HoldKey(uid, "plan"), structs.replace(self._holds.planned[uid], deadline=deadline))

    def places(self) -> dict[PodUid, NodeName]:
        """The node of each pod for which room is kept on a new node, or that filter has named a node for."""
        held = ((key.uid, self._nodes.by_row[hold.row]) for key, hold in self._holds if key.cause in ("plan", "bind"))
        return {uid: node.name for uid, node in held if node is not None}
