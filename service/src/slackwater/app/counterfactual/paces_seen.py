"""How long pods take to start and nodes to go, as seen in the real cluster: medians of the newest ones.

The start of a pod takes from when it has a node until it is ready. The removal of a node takes from when it is known, or from
when its last pod is gone, if that is later, until the node is gone.
"""

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from slackwater.app.counterfactual.boot_times import BootTimes
from slackwater.app.rounds.virtual_drains import DEFAULT_PACE, Pace
from slackwater.model.ids import NodeName, PodUid, UnixTime
from slackwater.model.objects import Pod

_MOST_SEEN: Final = 64


def _newest() -> deque[float]:
    return deque(maxlen=_MOST_SEEN)


@dataclass(slots=True)
class PacesSeen:
    """`boot_times`: those of new nodes."""

    boot_times: BootTimes = field(default_factory=BootTimes)
    #: When each pod that is not ready yet got its node.
    _starting: dict[PodUid, UnixTime] = field(default_factory=dict)
    #: The nodes of pods that are being deleted.
    _leaving: dict[PodUid, NodeName] = field(default_factory=dict)
    #: Since when nothing keeps each node that somebody removes.
    _going: dict[NodeName, UnixTime] = field(default_factory=dict)
    _starts: deque[float] = field(default_factory=_newest)
    _removals: deque[float] = field(default_factory=_newest)

    @property
    def pace(self) -> Pace:
        """With the usual values of what has not been seen yet."""
        usual, boots = DEFAULT_PACE, self.boot_times
        return Pace(
            pod_start=median(self._starts) if self._starts else usual.pod_start,
            node_boot=usual.node_boot if boots.of_all is None else boots.of_all,
            node_removal=median(self._removals) if self._removals else usual.node_removal,
            boots=boots.of_groups,
        )

    def bound(self, uid: PodUid, at: UnixTime) -> None:
        """A pod got a node."""
        self._starting[uid] = at

    def leaves(self, uid: PodUid, node: NodeName) -> None:
        """A pod is being deleted, or gone."""
        self._starting.pop(uid, None)
        self._leaving[uid] = node

    def gone(self, uid: PodUid, at: UnixTime) -> None:
        """A pod is gone."""
        node = self._leaving.pop(uid, None)
        if node is not None and node in self._going:
            self._going[node] = at

    def see(self, pod: Pod, at: UnixTime) -> None:
        """A pod as it is now."""
        if pod.ready and not pod.starting and (since := self._starting.pop(pod.uid, None)) is not None:
            self._starts.append(at - since)

    def removing(self, node: NodeName, at: UnixTime) -> None:
        """Somebody is about to remove a node."""
        self._going[node] = at

    def stays(self, node: NodeName) -> None:
        """A removal was given up."""
        self._going.pop(node, None)

    def went(self, node: NodeName, at: UnixTime) -> None:
        """A node is gone."""
        since = self._going.pop(node, None)
        if since is not None:
            self._removals.append(at - since)
