"""Bind back-off: after a denied bind, the pod's next filter calls leave the node out.

Otherwise kube-scheduler would choose the same node again and again. If a bind was denied for lack of room, its back-off ends as
soon as room appears on the node; every back-off ends after some time.
"""

from dataclasses import dataclass

from slackwater.cluster.nodes import NodeTable
from slackwater.model.ids import Instant, NodeName, PodUid


@dataclass(frozen=True, slots=True)
class DeniedBind:
    """A denied bind. `room_version` is that of the node at the time, or None if the bind was not denied for lack of room."""

    room_version: int | None
    deadline: Instant


class BindBackoff:
    """The denied binds of each pod by node, until their back-off ends."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._bind_backoff: dict[PodUid, dict[NodeName, DeniedBind]] = {}

    def add(self, uid: PodUid, node: NodeName, *, for_room: bool, deadline: Instant) -> None:
        row = self._nodes.row_of.get(node)
        version = int(self._nodes.room_version[row]) if for_room and row is not None else None
        self._bind_backoff.setdefault(uid, {})[node] = DeniedBind(version, deadline)

    def has(self, uid: PodUid) -> bool:
        """Whether a bind of the pod was denied and is not forgotten yet."""
        return uid in self._bind_backoff

    def nodes_denied(self, uid: PodUid, now: Instant) -> list[NodeName]:
        """The nodes that filter leaves out for the pod now. Back-offs that ended are forgotten."""
        denied = self._bind_backoff.get(uid)
        if denied is None:
            return []
        for node in [node for node, denied_bind in denied.items() if self._ended(node, denied_bind, now)]:
            del denied[node]
        if not denied:
            del self._bind_backoff[uid]
        return list(denied)

    def still_denied(self, uid: PodUid, now: Instant) -> list[NodeName]:
        """The nodes that filter leaves out for the pod now, as `nodes_denied`, but nothing is forgotten."""
        return [
            node for node, denied_bind in self._bind_backoff.get(uid, {}).items() if not self._ended(node, denied_bind, now)
        ]

    def _ended(self, node: NodeName, denied_bind: DeniedBind, now: Instant) -> bool:
        if denied_bind.deadline <= now:
            return True
        row = self._nodes.row_of.get(node)
        return row is None or (
            denied_bind.room_version is not None and denied_bind.room_version != self._nodes.room_version[row]
        )

    def forget(self, uid: PodUid) -> None:
        self._bind_backoff.pop(uid, None)

    def expire(self, now: Instant) -> list[PodUid]:
        """Forgets back-offs that ended; returns the pods for which filter offers a node again."""
        before = {uid: len(denied) for uid, denied in self._bind_backoff.items()}
        return [uid for uid, count in before.items() if len(self.nodes_denied(uid, now)) < count]

    def left(self, now: Instant) -> list[tuple[PodUid, NodeName, float, bool]]:
        """Each back-off, as (pod, node, seconds that are left at most, whether the bind was denied for lack of room)."""
        return [
            (uid, node, denied_bind.deadline - now, denied_bind.room_version is not None)
            for uid, denied in self._bind_backoff.items()
            for node, denied_bind in denied.items()
            if not self._ended(node, denied_bind, now)
        ]

    def __len__(self) -> int:
        return sum(len(denied) for denied in self._bind_backoff.values())
