"""Pods whose whole sample was rejected although another node would do (seen with kube-scheduler 1.36), and the nominations that
answer it.

kube-scheduler stops looking after a share of the nodes and asks the extender about those alone. When our accounting rejects all
of them, the pod is unschedulable although it would fit elsewhere. We nominate a node that fits: the next cycle tries that one
first and alone. A wrong nomination (an in-tree filter we do not know refuses it) costs time, never correctness; each node is
tried once for a pod until the pod was bound or forgotten.
"""

from dataclasses import dataclass, field
from typing import Final

from slackwater.model.ids import Instant, NodeName, PodKey, PodUid

#: Nodes tried for one pod before it is left to kube-scheduler's own retries; each costs two writes.
MAX_NOMINATIONS: Final = 16
#: A starved pod that was never heard of again is forgotten.
_FORGET_SECONDS: Final = 300.0


@dataclass(slots=True)
class SampleMiss:
    """`due` is when to nominate next; None while a nomination is under way or none is wanted."""

    key: PodKey
    tried: dict[NodeName, None] = field(default_factory=dict)
    due: Instant | None = None
    nominated: NodeName | None = None
    forget_at: Instant = Instant(0.0)


class SampleMisses:
    """The starved pods. Which node is nominated is decided by the caller."""

    def __init__(self) -> None:
        self._pods: dict[PodUid, SampleMiss] = {}

    def report(self, uid: PodUid, key: PodKey, due: Instant) -> None:
        """The pod's sample was rejected, and some other node would do."""
        sample_miss = self._pods.setdefault(uid, SampleMiss(key))
        sample_miss.nominated = None
        sample_miss.forget_at = Instant(due + _FORGET_SECONDS)
        sample_miss.due = due if len(sample_miss.tried) < MAX_NOMINATIONS else None

    def passed(self, uid: PodUid) -> None:
        """A filter let the pod pass: no nomination is wanted now."""
        sample_miss = self._pods.get(uid)
        if sample_miss is not None:
            sample_miss.due = None

    def hasten(self, uid: PodUid, now: Instant) -> None:
        """kube-scheduler has written the end of the failed cycle: the nomination may go out at once."""
        sample_miss = self._pods.get(uid)
        if sample_miss is not None and sample_miss.due is not None:
            sample_miss.due = min(sample_miss.due, now)

    def due(self, now: Instant) -> list[tuple[PodUid, SampleMiss]]:
        return [(uid, s) for uid, s in self._pods.items() if s.due is not None and s.due <= now]

    def nominated(self, uid: PodUid, node: NodeName) -> None:
        sample_miss = self._pods[uid]
        sample_miss.tried[node] = None
        sample_miss.nominated, sample_miss.due = node, None

    def put(self, uid: PodUid, sample_miss: SampleMiss) -> None:
        self._pods[uid] = sample_miss

    def get(self, uid: PodUid) -> SampleMiss | None:
        return self._pods.get(uid)

    def forget(self, uid: PodUid) -> SampleMiss | None:
        return self._pods.pop(uid, None)

    def expire(self, now: Instant) -> None:
        for uid in [uid for uid, sample_miss in self._pods.items() if sample_miss.forget_at <= now]:
            del self._pods[uid]

    def items(self) -> list[tuple[PodUid, SampleMiss]]:
        return list(self._pods.items())
