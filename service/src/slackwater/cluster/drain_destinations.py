"""Destinations of running drains: the room that is kept for each pod of a draining node on the node where it fits.

The room is a hold of its own. Until its pod leaves, no pod of the same or a lower priority may use it;
pods of a higher priority may, as with a nominee's hold. Once the pod leaves, pods of its group may: one of them replaces it,
and nobody knows which, nor where kube-scheduler puts it. So each bound pod of the group ends one such hold, on its own node if
there is one.

In: drains keep and end room; the pod lifecycle says which pods were bound. Invariant: the room ends with the drain of its node.
"""

from collections.abc import Iterator
from typing import NamedTuple

from slackwater.cluster.holds import Hold, HoldKey, Holds
from slackwater.cluster.nodes import NodeTable
from slackwater.cluster.pods import PodTable
from slackwater.fit.plugins.node_accounting import fits_on
from slackwater.model.ids import NodeName, PodUid, Row
from slackwater.model.kept_room import KeptRoom, group_of
from slackwater.model.ledger.ledger import Ledger
from slackwater.model.objects import Pod


class _Kept(NamedTuple):
    pod: Pod
    of: NodeName
    to: NodeName


class DrainDestinations:
    """The kept room of each leaving pod, on one node. `freed`: room has ended since the last `take_freed`."""

    def __init__(self, ledger: Ledger, nodes: NodeTable, holds: Holds, pods: PodTable) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._holds = holds
        self._pods = pods
        self._kept: dict[PodUid, _Kept] = {}
        self._freed = False

    def keep(self, pod: Pod, of: NodeName, to: NodeName) -> bool:
        """Keeps room on the node `to` for the pod of the draining node `of`, in place of its earlier room. Returns False, and
        keeps none, if the node is unknown or has no room."""
        self._drop(pod.uid)
        row = self._nodes.row_of.get(to)
        amounts = pod.need if pod.successor is None else pod.renewed_kind.requests
        if row is None or not fits_on(amounts, self._ledger.columns, Row(row)):
            return False
        self._holds.put(_key(pod.uid), Hold(key=pod.key, row=Row(row), amounts=amounts, nominee=pod.priority))
        self._kept[pod.uid] = _Kept(pod, of, to)
        return True

    def end(self, of: NodeName) -> None:
        """Ends all room that is kept for pods of the node, because its drain has ended or is rolled back."""
        for uid in [uid for uid, kept in self._kept.items() if kept.of == of]:
            self._drop(uid)

    def bound(self, pod: Pod, node: NodeName) -> None:
        """Notes that the pod was bound to the node. If it may be the replacement of a pod that left, that pod's room ends."""
        released = [kept for kept in self._kept.values() if self._is_released_to(kept, pod)]
        if released:
            self._drop(min(released, key=lambda kept: kept.to != node).pod.uid)

    def take_freed(self) -> bool:
        """Whether pods may now use room that was kept before, since the last call."""
        freed, self._freed = self._freed, False
        return freed

    def left(self, uid: PodUid) -> None:
        """Notes that the pod was evicted: pods of its group may use its room now."""
        self._freed |= uid in self._kept

    def released_to(self, pod: Pod) -> list[Hold]:
        """The holds that the pod may use, because it may be the replacement of their pods."""
        found = (self._holds.get(_key(uid)) for uid, kept in self._kept.items() if self._is_released_to(kept, pod))
        return [hold for hold in found if hold is not None]

    def _is_released_to(self, kept: _Kept, pod: Pod) -> bool:
        return kept.pod.uid != pod.uid and group_of(kept.pod) == group_of(pod) and self._is_leaving(kept.pod.uid)

    def _is_leaving(self, uid: PodUid) -> bool:
        pod = self._pods.get(uid)
        return pod is None or pod.deleting or pod.ended

    def _drop(self, uid: PodUid) -> None:
        if self._kept.pop(uid, None) is not None:
            self._holds.drop(_key(uid))
            self._freed = True

    def __iter__(self) -> Iterator[KeptRoom]:
        """What is kept now, in the order in which it was kept; nothing of nodes that are gone."""
        for uid, (pod, of, to) in self._kept.items():
            if self._holds.get(_key(uid)) is not None:
                yield KeptRoom(pod=pod, of=of, to=to, released=self._is_leaving(uid))

    def __len__(self) -> int:
        return len(self._kept)


def _key(uid: PodUid) -> HoldKey:
    return HoldKey(uid, "drain")
