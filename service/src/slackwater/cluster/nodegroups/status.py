"""The status of a node group, and the rules by which a node counts as started. Values and pure functions only.

- `NodeGroupStatus`: the nodes and instances of a group that have started, are upcoming or failed.
- `NodeGroupBackoff`, `after_failure`: the back-off of a group after failures.
- `Grow`, `LowerTarget`, `Delete`: requests to the provider.
- `Marks`, `usual_of`, `differs`: compare the taints and devices of a new node with those of the group's other nodes.
- `NodeGroupPolicy`, `BackoffPolicy`: limits and time-outs, which the configuration file sets.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from slackwater.model.ids import Instant, NodeName, Seconds
from slackwater.model.node_taints import DEFAULT_TAINT_RULES, TaintId, TaintRules, repels, taint_id
from slackwater.model.nodegroups import GroupName, Instance, NodeGroup
from slackwater.model.objects import Node, Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffPolicy:
    """Durations of a group's back-off after failures. The back-off doubles from `initial` up to `max`, as long as failures
    follow one another within `reset`. The defaults are Cluster Autoscaler's."""

    initial: Seconds = 300.0
    max: Seconds = 1800.0
    reset: Seconds = 10_800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupPolicy:
    """Limits on the nodes that may be upcoming at the same time (0: no limit), and time-outs.

    `in_group` are limits by name; other groups have the limit `in_other_groups`.
    `provision_seconds`: how long an instance may take to register, and its node to start. `doubt_seconds`: for how long a
    scale-up whose call was not answered is requested again. `replace_seconds`: for how long a lost machine whose deletion fails
    is not replaced, and counts as in creation. `off`: groups that are not changed. `handed_over`: groups that are changed
    though another autoscaler marks them as its own; None: such marks do not count. `listed`: the groups in Cluster Autoscaler's
    status. `taints` says which taints mean that a node has not started.
    """

    in_cluster: int = 100
    in_group: Mapping[GroupName, int] = field(default_factory=dict)
    in_other_groups: int = 100
    provision_seconds: float = 900.0
    doubt_seconds: float = 60.0
    replace_seconds: float = 60.0
    backoff: BackoffPolicy = field(default_factory=BackoffPolicy)
    #: After refused deletions: of one lost machine, and of nodes of a group.
    refusal_backoff: BackoffPolicy = BackoffPolicy(max=14_400.0, reset=86_400.0)
    off: frozenset[GroupName] = frozenset()
    handed_over: frozenset[GroupName] | None = None
    listed: frozenset[str] = frozenset()
    taints: TaintRules = DEFAULT_TAINT_RULES

    def provision_timeout_of(self, group: NodeGroup) -> float:
        """How long an instance of the group may take to register, and its node to start."""
        own = group.options.provision_seconds
        return self.provision_seconds if own is None else own

    def owner_of(self, group: NodeGroup, mark: str) -> str:
        """Why the group is left alone to the other autoscaler whose mark it has, as a text; empty if it is not. What the
        provider knows counts whatever the configuration names."""
        if not mark or self.handed_over is None:
            return ""
        if group.held_by:
            return mark
        return "" if group.name in self.handed_over else f"{mark}, and autoscaler.handedOver does not name the group"


#: The same limit as in Cluster Autoscaler's status.
_LONGEST_MESSAGE, _TRUNCATED = 500, ".. <truncated>"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupBackoff:
    """The back-off of a node group: it does not grow before `until`. `code` is the provider's code for the failure, or one of
    ours: timeout, no-answer.

    The back-off is exponential, as in Cluster Autoscaler. Success does not end it.
    """

    until: Instant
    seconds: float
    failed_at: Instant
    code: str
    message: str

    def holds(self, now: Instant) -> bool:
        return now < self.until


def after_failure(
    before: NodeGroupBackoff | None, policy: BackoffPolicy, *, code: str, message: str, now: Instant
) -> NodeGroupBackoff:
    """The back-off after a failure. A failure during a back-off starts it again with the same length; a failure after it,
    within `reset`, doubles the length, up to the longest."""
    seconds = policy.initial
    if before is not None and now - before.failed_at <= policy.reset:
        seconds = before.seconds if before.holds(now) else min(2 * before.seconds, policy.max)
    if len(message) > _LONGEST_MESSAGE:
        message = message[: _LONGEST_MESSAGE - len(_TRUNCATED)] + _TRUNCATED
    return NodeGroupBackoff(until=Instant(now + seconds), seconds=seconds, failed_at=now, code=code, message=message)


@dataclass(frozen=True, slots=True)
class Marks:
    """The taints of a node that keep pods away, and its devices. A node that has not started yet may have more taints, or fewer
    devices, than it will have."""

    taints: frozenset[TaintId] = frozenset()
    devices: frozenset[str] = frozenset()


NO_MARKS: Final = Marks()


@dataclass(frozen=True, slots=True)
class NodeObservation:
    """A Node as the node group registry needs it.

    `ready`: its kubelet is ready. `started`: it is ready for pods, with everything that its group's template has. `used`: it
    has pods that do not belong to the node itself. `taken`: one of these pods does not tolerate every taint. `used` and `taken`
    are computed only for nodes that are new or have not started. `created_at` is None if it is not known. `lacks` says why a
    ready node has not started. `daemons`: its DaemonSet and mirror pods; None if they were not looked at.
    """

    name: NodeName
    started: bool
    created_at: Instant | None
    ready: bool = False
    used: bool = False
    taken: bool = False
    lacks: tuple[str, ...] = ()
    marks: Marks = NO_MARKS
    node: Node | None = None
    daemons: tuple[Pod, ...] | None = None


@dataclass(frozen=True, slots=True)
class LostInstance:
    """An instance that failed, or whose node did not register or start in time. `code` is as in `NodeGroupBackoff`."""

    instance: Instance
    code: str
    message: str
    #: Whether it is certainly not booting, for example because the provider reported its failure. Otherwise it may still be
    #: booting, and counts as in creation until it is gone.
    given_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BoughtNode:
    """A node of a group's last purchase as it was seen last, without taints that it got after its start. `running_pods`: its
    DaemonSet and mirror pods. `there`: it still exists."""

    node: Node
    running_pods: tuple[Pod, ...] = ()
    there: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupStatus:
    """The status of one group, by what was observed and what was requested.

    - `ready` nodes have started, and take pods.
    - `unready` nodes had started before and are not ready now.
    - `starting` are Nodes that have not started yet, but are within the provision timeout.
    - `coming` is the number of requested nodes without a Node, apart from lost and overdue ones.
    - `missing` is how many of the requested nodes the provider does not list as instances yet.
    - `overdue` is how many of the missing are so long past the provision timeout that they do not count as coming any more.
    - `lost` are the instances that failed, or did not become a started node within the provision timeout.
    - `held` is how many of the lost are not replaced yet: their deletion has to succeed first, or to fail for a while.
    - `failing` is how many of the held the provider has not reported as failed.
    - `late` are nodes that are in use although they did not start within the provision timeout. They cannot be replaced because
      of their pods, and are among `ready` too.
    - `leaving` is how many instances are being deleted.
    - `bought` are nodes of the last purchase that has come, whether they still exist or not.
    - `known` is false while the provider does not answer, or cannot read the group: this is then its last status, and the group
      may not be changed.
    """

    group: NodeGroup
    known: bool
    ready: tuple[NodeName, ...]
    unready: tuple[NodeName, ...]
    starting: tuple[NodeName, ...]
    coming: int
    missing: int
    lost: tuple[LostInstance, ...]
    leaving: int
    held: int = 0
    failing: int = 0
    late: tuple[LostInstance, ...] = ()
    overdue: int = 0
    backoff: NodeGroupBackoff | None = None
    doubtful: bool = False  #: a scale-up call was not answered; its nodes are among the coming
    off: bool = False  #: the policy says not to change the group
    mark: str = ""  #: by what another autoscaler marks the group as its own, as a text; empty if none does
    owner: str = ""  #: why the group is left alone for that mark, as a text; empty if it is not
    bought: tuple[BoughtNode, ...] = ()
    starts: tuple[float, ...] = ()  #: seconds that its last nodes took to start, the newest last

    @property
    def name(self) -> GroupName:
        return self.group.name

    @property
    def answered(self) -> bool:
        """Whether the provider has answered, if only that it cannot read the group."""
        return self.known or bool(self.group.unreadable)

    @property
    def upcoming(self) -> int:
        """How many nodes will come without a further request."""
        return self.coming + len(self.starting) + self.held

    @property
    def in_time(self) -> int:
        """How many nodes count for the limits of the cluster and of the provider. Nodes past their time do not, so one group's
        failures do not block other groups."""
        return self.coming + len(self.starting)

    @property
    def in_creation(self) -> int:
        """How many nodes count for the group's own limit. This includes lost machines that may still boot (`failing`)."""
        return self.in_time + self.failing

    @property
    def dead(self) -> int:
        """How many nodes count in the target and have to be replaced: lost machines, once they are not upcoming any more, and
        requested nodes that never appeared. They do not count for the group's minimum."""
        return len(self.lost) - self.held + self.overdue

    @property
    def stuck(self) -> int:
        """How many existing or requested nodes are past their time and do not count as in creation."""
        return len(self.late) + self.dead

    def closed(self, now: Instant) -> str | None:
        """Why the group may not grow, as a text; None if it may."""
        if self.off or self.owner:
            return self.owner or "switched off"
        if not self.known:
            return f"it cannot be read: {self.group.unreadable}" if self.group.unreadable else "its provider does not answer"
        if self.backoff is not None and self.backoff.holds(now):
            return f"backing off after: {self.backoff.code}"
        if self.doubtful:
            return "a growth of it was not answered yet"
        if self.group.target >= self.group.max_size:
            return "at its maximum size"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grow:
    """A request to the provider to change a group's size from `seen`, the present one, to `to`."""

    group: GroupName
    provider: str
    seen: int
    to: int
    again: bool = False  #: repeats a call that was not answered

    @property
    def nodes(self) -> int:
        return self.to - self.seen


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerTarget:
    """A request to the provider to lower a group's size from `seen` to `to`, because requested nodes never appeared."""

    group: GroupName
    provider: str
    seen: int
    to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """A request to the provider to delete lost instances. The group's target falls by their number, and later plans replace
    them if needed. `replace`: the target stays, and the provider creates a machine in place of each."""

    group: GroupName
    provider: str
    lost: tuple[LostInstance, ...]
    replace: bool = False


GroupCleanup = LowerTarget | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpInfo:
    """The nodes that a plan wants to add to a group. `waits_for`: the limit that they have to wait for; "" before that is
    known."""

    group: GroupName
    nodes: int
    priority: int = 0
    waits_for: str = ""


T = TypeVar("T")

#: This character marks the names of devices, which drivers provide.
_DEVICE_MARK = "/"


def marks_of(node: Node, rules: TaintRules) -> Marks:
    """What one node shows about its group: its devices, and the taints that keep pods away, without start-up and status
    taints."""
    taints = frozenset(taint_id(taint) for taint in node.taints if repels(taint) and not rules.is_own(taint.key))
    return Marks(taints, frozenset(name for name, amount in node.scalars if amount and _DEVICE_MARK in name))


def usual_of(started: Sequence[Marks], before: Marks | None) -> Marks | None:
    """The marks that more than half of the started nodes have; `before` if no node has started."""
    if not started:
        return before
    half = len(started) / 2
    return Marks(_most((each.taints for each in started), half), _most((each.devices for each in started), half))


def _most(sets: Iterable[frozenset[T]], half: float) -> frozenset[T]:
    counts = Counter(each for some in sets for each in some)
    return frozenset(each for each, count in counts.items() if count > half)


def differs(marks: Marks, usual: Marks | None) -> bool:
    """Whether a node has taints that are not usual, or lacks devices that are: then it has not started yet.

    A driver's taint may have any key, and its device appears minutes after the node is ready. The group's other nodes show what
    is usual, so no list of names is needed. If neither nodes nor a template show it (`usual` is None), no node differs.
    """
    return usual is not None and not (marks.taints <= usual.taints and usual.devices <= marks.devices)
