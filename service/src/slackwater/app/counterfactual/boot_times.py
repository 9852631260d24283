"""How long new nodes take, as seen in the real cluster: from the arrival of the pods that waited for a node, the middle one of
them, until the node was ready.

That includes a part of the time in which the other autoscaler decides. Of Karpenter the second is known for which it waits
until no more pods come (its batchIdleDuration); nothing shows the rest. Where the provider of a group lists its machines, the
autoscaler measures better (`NodeGroupStatus.starts`).
"""

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName

#: A pod that gets a node so soon after it is ready had waited for it.
_SOON: Final = 4.0
#: For how many seconds who buys nodes waits for further pods.
_WAITS: Final = {"Karpenter": 1.0}
_MOST_SEEN: Final = 20
_MOST_PODS: Final = 64


@dataclass(slots=True)
class _NewNode:
    group: GroupName
    ready_at: UnixTime
    decided_after: float
    #: When its first pods were made.
    waited_since: list[UnixTime] = field(default_factory=list)


@dataclass(slots=True)
class BootTimes:
    """`of_groups`: the median of a group's newest nodes, in seconds. `of_all`: that of all groups; None before the first."""

    of_groups: dict[GroupName, float] = field(default_factory=dict)
    of_all: float | None = None
    _new: dict[NodeName, _NewNode] = field(default_factory=dict)
    _seen: dict[GroupName, deque[float]] = field(default_factory=dict)

    def ready(self, node: NodeName, group: GroupName, at: UnixTime, buyer: str = "") -> None:
        """A node that came was ready for the first time. `buyer`: who bought it, as far as that is known."""
        self._new[node] = _NewNode(group, at, _WAITS.get(buyer, 0.0))

    def bound(self, node: NodeName, created_at: UnixTime) -> None:
        """A pod got this node."""
        new = self._new.get(node)
        if new is not None and created_at < new.ready_at and len(new.waited_since) < _MOST_PODS:
            new.waited_since.append(created_at)

    def pass_time(self, now: UnixTime) -> None:
        """Takes the nodes into account whose first pods are there."""
        for name in [name for name, new in self._new.items() if now - new.ready_at > _SOON]:
            new = self._new.pop(name)
            if not new.waited_since:
                continue
            seen = self._seen.setdefault(new.group, deque(maxlen=_MOST_SEEN))
            seen.append(max(new.ready_at - median(new.waited_since) - new.decided_after, 0.0))
            self.of_groups[new.group] = median(seen)
            self.of_all = median(seconds for each in self._seen.values() for seconds in each)
