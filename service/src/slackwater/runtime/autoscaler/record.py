"""What one loop of the autoscaler saw and did: for the log, the status object, `/dumpstate` and metrics. Values only."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slackwater.cluster.nodegroups.status import Grow, NodeGroupStatus, Queued
from slackwater.controllers.scaledown.loop import ScaleDownRecord
from slackwater.model.ids import Generation, Instant, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.ports.protocols import ProviderError
from slackwater.runtime.autoscaler.planning import PendingCounts
from slackwater.runtime.autoscaler.slack_planning import SlackPlan

#: Cluster Autoscaler's: more unready nodes than both are an outage, not a reason to change the cluster's size.
_FEW_UNREADY = 3
_UNREADY_SHARE = 0.45


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Seconds of one loop. `serving` is what was taken from the event loop, `longest` the longest piece of it."""

    sense: float = 0.0
    plan: float = 0.0
    act: float = 0.0
    serving: float = 0.0
    longest: float = 0.0

    @property
    def whole(self) -> float:
        return self.sense + self.plan + self.act


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopRecord:
    """`asked` are growths that were called, with the error of those that failed. `planned` is the whole plan by group."""

    number: int
    at: UnixTime
    #: The same moment on the monotonic clock: what the node groups' status' times compare with.
    instant: Instant
    generation: Generation
    group_status: Mapping[GroupName, NodeGroupStatus] = field(default_factory=dict)
    pending: PendingCounts = field(default_factory=PendingCounts)
    planned: Mapping[GroupName, int] = field(default_factory=dict)
    asked: tuple[tuple[Grow, ProviderError | None], ...] = ()
    queued: tuple[Queued, ...] = ()
    deleted: Mapping[GroupName, int] = field(default_factory=dict)
    lowered: Mapping[GroupName, int] = field(default_factory=dict)
    #: Of the deleted: how many for which code.
    failed: Mapping[str, int] = field(default_factory=dict)
    silent: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    events_left_out: int = 0
    spent: Spent = field(default_factory=Spent)
    #: None where no nodes are removed.
    scale_down: ScaleDownRecord | None = None
    #: None where no slack is planned.
    slack: SlackPlan | None = None

    @property
    def healthy(self) -> bool:
        """False while so many nodes are unready that none is removed: the cause must be elsewhere."""
        return is_healthy(self.group_status.values())

    @property
    def in_creation(self) -> int:
        return sum(group_status.in_creation for group_status in self.group_status.values())


def is_healthy(group_status: Iterable[NodeGroupStatus]) -> bool:
    """See `LoopRecord.healthy`."""
    known = list(group_status)
    unready = sum(len(each.unready) for each in known)
    there = unready + sum(len(each.ready) for each in known)
    return unready <= _FEW_UNREADY or unready <= _UNREADY_SHARE * there
