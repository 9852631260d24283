"""The nodes that were tried for each pod that is not bound yet.

- `ChosenNodes`: the nodes that filter named.
- `SampleMisses`: the nodes that we nominated after a sample miss.

kube-scheduler may fail to bind a pod to the node that filter named (a plug-in of others refuses it, or a volume does not come),
and asks again. Nodes that were not named yet then come first, since the same cause would strike again.

Sample misses are pods whose whole sample of nodes was refused although another node fits (seen with kube-scheduler 1.36).

kube-scheduler stops looking after a share of the nodes and asks the extender about those alone. If our accounting refuses all
of them, the pod is unschedulable although it would fit elsewhere. We then nominate a node that fits: the next cycle tries that
node first and alone. A wrong nomination (an in-tree filter that we do not know refuses the node) costs time, never correctness.
Each node is tried once for a pod, until the pod is bound or forgotten.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from slackwater.model.ids import Instant, NodeName, PodKey, PodUid

#: The most nodes tried for one pod before it is left to kube-scheduler's own retries; each costs two writes.
MAX_NOMINATIONS: Final = 16
#: A pod is forgotten if it had no other sample miss for this long.
_FORGET_SECONDS: Final = 300.0


@dataclass(slots=True)
class SampleMiss:
    """The sample misses of one pod. `due` is when to nominate the next node; None while a nomination is under way or none is
    wanted. `tried` are the nodes nominated so far."""

    key: PodKey
    tried: dict[NodeName, None] = field(default_factory=dict)
    due: Instant | None = None
    nominated: NodeName | None = None
    forget_at: Instant = Instant(0.0)


class SampleMisses:
    """The pods with sample misses. The caller chooses the node to nominate."""

    def __init__(self) -> None:
        self._pods: dict[PodUid, SampleMiss] = {}

    def report(self, uid: PodUid, key: PodKey, due: Instant) -> None:
        """Notes that the whole sample of the pod was refused although another node fits. A nomination becomes due at `due`."""
        sample_miss = self._pods.setdefault(uid, SampleMiss(key))
        sample_miss.nominated = None
        sample_miss.forget_at = Instant(due + _FORGET_SECONDS)
        sample_miss.due = due if len(sample_miss.tried) < MAX_NOMINATIONS else None

    def passed(self, uid: PodUid) -> None:
        """Notes that filter found the pod feasible: no nomination is wanted now."""
        sample_miss = self._pods.get(uid)
        if sample_miss is not None:
            sample_miss.due = None

    def nominate_now(self, uid: PodUid, now: Instant) -> None:
        """Makes the nomination due now, because kube-scheduler has reported the end of the failed cycle."""
        sample_miss = self._pods.get(uid)
        if sample_miss is not None and sample_miss.due is not None:
            sample_miss.due = min(sample_miss.due, now)

    def waits(self, uid: PodUid) -> bool:
        """Is a nomination of the pod due or under way?"""
        sample_miss = self._pods.get(uid)
        return sample_miss is not None and (sample_miss.due is not None or sample_miss.nominated is not None)

    def due(self, now: Instant) -> list[tuple[PodUid, SampleMiss]]:
        return [(uid, s) for uid, s in self._pods.items() if s.due is not None and s.due <= now]

    def nominated(self, uid: PodUid, node: NodeName) -> None:
        sample_miss = self._pods[uid]
        sample_miss.tried[node] = None
        sample_miss.nominated, sample_miss.due = node, None

    def put(self, uid: PodUid, sample_miss: SampleMiss) -> None:
        self._pods[uid] = sample_miss

    def forget(self, uid: PodUid) -> SampleMiss | None:
        return self._pods.pop(uid, None)

    def expire(self, now: Instant) -> None:
        for uid in [uid for uid, sample_miss in self._pods.items() if sample_miss.forget_at <= now]:
            del self._pods[uid]

    def items(self) -> list[tuple[PodUid, SampleMiss]]:
        return list(self._pods.items())


class ChosenNodes:
    """The nodes named for each pod. `made`: how often filter named one node; `met`: how many pods were then bound there."""

    def __init__(self) -> None:
        self._named: dict[PodUid, list[NodeName]] = {}
        self.made = self.met = 0

    def tried(self, uid: PodUid) -> Sequence[NodeName]:
        """The nodes named for the pod so far; kube-scheduler has bound it to none of them."""
        return self._named.get(uid, ())

    def choose(self, uid: PodUid, node: NodeName) -> None:
        """Notes that filter named the node."""
        named = self._named.setdefault(uid, [])
        if node in named:
            named.remove(node)
        named.append(node)
        self.made += 1

    def ended(self, uid: PodUid, node: NodeName | None) -> None:
        """Notes that the pod is bound to a node, or gone (None)."""
        named = self._named.pop(uid, None)
        self.met += named is not None and named[-1] == node
