"""What a group has, node by node: started, on its way, failed. Values only."""

from dataclasses import dataclass, field
from typing import Final

from slackwater.cluster.nodegroups.backoff import NodeGroupBackoff
from slackwater.model.ids import Instant, NodeName
from slackwater.model.nodegroups import GroupName, Instance, NodeGroup
from slackwater.model.nodetaints import TaintId


@dataclass(frozen=True, slots=True)
class Marks:
    """What a new node may have too many of, or not yet: taints that keep pods away, and devices."""

    taints: frozenset[TaintId] = frozenset()
    devices: frozenset[str] = frozenset()


NO_MARKS: Final = Marks()


@dataclass(frozen=True, slots=True)
class NodeObservation:
    """A Node as the node group registry needs it.

    `started`: it is ready for pods, with everything its group promises of it; `ready`: at least its kubelet is. `used`: pods
    stand there that did not come with it; `taken`: one of them does not tolerate just anything. Both are looked for on nodes
    that are new or have not started. `born_at` is None where nobody knows. `lacks` says what keeps a ready node from having
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
        """It is in use and not ready: so it has been."""
        return self.used and not self.ready


@dataclass(frozen=True, slots=True)
class Lost:
    """An instance that will not become a node, or not in time. `code` as in `NodeGroupBackoff`."""

    instance: Instance
    code: str
    message: str
    #: The provider has given it up itself; else it may still be booting, and counts as in creation until it is gone.
    given_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupStatus:
    """`coming` are nodes that are asked for and have no Node yet, `starting` Nodes that have never been ready, both in time.

    `unready` were ready once. `missing` of the coming are those that the provider does not even list yet. `known` is false
    while the provider does not answer: then this is what was true when it last did, and the group may not be changed. `held` of
    the lost are not replaced yet: their deletion has to succeed first, or fail for a while; `failing` of these were not given
    up by the provider. `late` nodes have not started in time and cannot be replaced, since pods stand there: they are among the
    ready, as they are. `overdue` were asked for and never created, long after their time: they are among the missing, and no
    longer among the coming.
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
        """Nodes that nobody has to ask for again."""
        return self.coming + len(self.starting) + self.held

    @property
    def in_time(self) -> int:
        """What the limits of the cluster and of the provider count: no group's trouble takes another's place."""
        return self.coming + len(self.starting)

    @property
    def in_creation(self) -> int:
        """What the group's own limit counts: a lost machine may still boot until it has been deleted, or for a while."""
        return self.in_time + self.failing

    @property
    def stuck(self) -> int:
        """Nodes past their time that are still there, or asked for, and have no place among those in creation."""
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
    """Ask for a group to have `to` nodes where it has `seen`. `priority` is that of the most important pod it is for."""

    group: GroupName
    provider: str
    seen: int
    to: int
    priority: int = 0
    again: bool = False  #: the same call as before, which was not answered

    @property
    def nodes(self) -> int:
        return self.to - self.seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Lower:
    """Give up on nodes that never appeared."""

    group: GroupName
    provider: str
    seen: int
    to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete lost instances; the group's target falls by their number, and what was wanted of them is planned again."""

    group: GroupName
    provider: str
    lost: tuple[Lost, ...]


Chore = Lower | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a plan would have: so many nodes more."""

    group: GroupName
    nodes: int
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """Nodes of a wish that have to wait, and for what."""

    group: GroupName
    nodes: int
    priority: int
    waits_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """What may be asked for now, most important first, and what has to wait."""

    scale_ups: tuple[Grow, ...] = field(default=())
    queued: tuple[Queued, ...] = field(default=())
