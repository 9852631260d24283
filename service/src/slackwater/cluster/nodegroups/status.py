"""The status of a node group: its nodes and instances that have started, are upcoming or failed. Values only."""

from dataclasses import dataclass, field
from typing import Final

from slackwater.cluster.nodegroups.backoff import NodeGroupBackoff
from slackwater.model.ids import Instant, NodeName
from slackwater.model.nodegroups import GroupName, Instance, NodeGroup
from slackwater.model.nodetaints import TaintId


@dataclass(frozen=True, slots=True)
class Marks:
    """Taints that keep pods away, and devices: a node that has not started may have too many taints, or lack devices."""

    taints: frozenset[TaintId] = frozenset()
    devices: frozenset[str] = frozenset()


NO_MARKS: Final = Marks()


@dataclass(frozen=True, slots=True)
class NodeObservation:
    """A Node as the node group registry needs it.

    `started`: it is ready for pods, with everything that its group's template has; `ready`: at least its kubelet is. `used`: it
    has pods that do not belong to the node; `taken`: one of them does not tolerate every taint. Both are computed for nodes
    that are new or have not started. `born_at` is None where it is not known. `lacks` says what keeps a ready node from having
    started.
    """

    name: NodeName
    started: bool
    born_at: Instant | None
    ready: bool = False
    used: bool = False
    taken: bool = False
    lacks: tuple[str, ...] = ()
    marks: Marks = NO_MARKS

    @property
    def was_started(self) -> bool:
        """Whether the node is in use and not ready, so that it must have started before."""
        return self.used and not self.ready


@dataclass(frozen=True, slots=True)
class Lost:
    """An instance that will not become a node, or not in time. `code` as in `NodeGroupBackoff`."""

    instance: Instance
    code: str
    message: str
    #: The provider itself has given it up; otherwise it may still be booting, and counts as in creation until it is gone.
    given_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupStatus:
    """The status of one group, by observation and by the requests that were made.

    - `unready` nodes were ready once.
    - `starting` are Nodes that have never been ready, and `coming` are requested nodes without a Node; both are in time.
    - `missing` of the coming are those that the provider does not even list yet.
    - `overdue` were requested and never created, long after their time: they are among the missing, and no longer among the
      coming.
    - `known` is false while the provider does not answer: this is then its last status, and the group may not be changed.
    - `held` of the lost are not replaced yet: their deletion has to succeed first, or fail for a while.
    - `failing` of the held were not given up by the provider.
    - `late` nodes have not started in time and cannot be replaced, since they have pods: they are among the ready, as they are.
    """

    group: NodeGroup
    known: bool
    ready: tuple[NodeName, ...]
    unready: tuple[NodeName, ...]
    starting: tuple[NodeName, ...]
    coming: int
    missing: int
    lost: tuple[Lost, ...]
    leaving: int
    held: int = 0
    failing: int = 0
    late: tuple[Lost, ...] = ()
    overdue: int = 0
    backoff: NodeGroupBackoff | None = None
    doubtful: bool = False  #: a growth call was not answered; its nodes are among the coming
    off: bool = False  #: not to be changed by us
    starts: tuple[float, ...] = ()  #: seconds that its last nodes took to start, the newest last

    @property
    def name(self) -> GroupName:
        return self.group.name

    @property
    def upcoming(self) -> int:
        """How many nodes will come without another request."""
        return self.coming + len(self.starting) + self.held

    @property
    def in_time(self) -> int:
        """The nodes that count for the limits of the cluster and of the provider: failing ones of one group do not block other
        groups."""
        return self.coming + len(self.starting)

    @property
    def in_creation(self) -> int:
        """The nodes that count for the group's own limit: a lost machine may still boot until it has been deleted, or for a
        while."""
        return self.in_time + self.failing

    @property
    def stuck(self) -> int:
        """How many nodes are past their time, exist or were requested, and do not count as in creation."""
        return len(self.late) + self.overdue + len(self.lost) - self.held

    def closed(self, now: Instant) -> str | None:
        """Why the group may not grow, or None."""
        if self.off:
            return "switched off"
        if not self.known:
            return "its provider does not answer"
        if self.backoff is not None and self.backoff.holds(now):
            return f"backing off after: {self.backoff.code}"
        if self.doubtful:
            return "a growth of it was not answered yet"
        if self.group.target >= self.group.max_size:
            return "at its maximum size"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grow:
    """A request that a group has `to` nodes where it has `seen`. `priority` is the highest of the pods that the nodes are
    for."""

    group: GroupName
    provider: str
    seen: int
    to: int
    priority: int = 0
    again: bool = False  #: repeats a call that was not answered

    @property
    def nodes(self) -> int:
        return self.to - self.seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Lower:
    """A request to give up nodes that never appeared."""

    group: GroupName
    provider: str
    seen: int
    to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """A request to delete lost instances; the group's target falls by their number, and later plans replace them where
    needed."""

    group: GroupName
    provider: str
    lost: tuple[Lost, ...]


Chore = Lower | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The nodes that a plan wants to add to a group."""

    group: GroupName
    nodes: int
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """Nodes of a wish that have to wait, and what for."""

    group: GroupName
    nodes: int
    priority: int
    waits_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """The scale-ups that may be requested now, highest priority first, and the nodes that have to wait."""

    scale_ups: tuple[Grow, ...] = field(default=())
    queued: tuple[Queued, ...] = field(default=())
