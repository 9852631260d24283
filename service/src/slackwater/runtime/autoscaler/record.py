"""The record of one autoscaler loop: what it observed and did. Feeds the log, the status object, `/dumpstate` and metrics."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slackwater.cluster.nodegroups.status import Grow, NodeGroupStatus, Queued
from slackwater.controllers.scaledown.loop import ScaleDownRecord
from slackwater.model.ids import Generation, Instant, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.ports.protocols import ProviderError
from slackwater.runtime.autoscaler.planning import PendingCounts
from slackwater.runtime.autoscaler.slack_planning import SlackPlan

#: As in Cluster Autoscaler (ok-total-unready-count, max-total-unready-percentage): more unready nodes than both are an outage.
_FEW_UNREADY = 3
_UNREADY_SHARE = 0.45


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Durations within one loop in seconds. `serving` is how long the event loop was blocked in total, `longest` at a time."""

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
    """The record of one loop. `asked`: scale-up calls, with the error if one failed. `planned`: nodes of the whole scale-up
    plan, by group. `silent`: providers that did not answer."""

    number: int
    at: UnixTime
    #: The same moment on the monotonic clock, for comparison with times in `group_status`.
    instant: Instant
    generation: Generation
    group_status: Mapping[GroupName, NodeGroupStatus] = field(default_factory=dict)
    pending: PendingCounts = field(default_factory=PendingCounts)
    planned: Mapping[GroupName, int] = field(default_factory=dict)
    asked: tuple[tuple[Grow, ProviderError | None], ...] = ()
    queued: tuple[Queued, ...] = ()
    deleted: Mapping[GroupName, int] = field(default_factory=dict)
    lowered: Mapping[GroupName, int] = field(default_factory=dict)
    #: How many of the deleted instances had which error code.
    failed: Mapping[str, int] = field(default_factory=dict)
    silent: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    events_left_out: int = 0
    spent: Spent = field(default_factory=Spent)
    #: None if scale-down is off or was not planned.
    scale_down: ScaleDownRecord | None = None
    #: None if slack is off.
    slack: SlackPlan | None = None

    @property
    def healthy(self) -> bool:
        """False if so many nodes are unready that the cause must be an outage; then no node is removed."""
        return is_healthy(self.group_status.values())

    @property
    def in_creation(self) -> int:
        return sum(group_status.in_creation for group_status in self.group_status.values())


def is_healthy(group_status: Iterable[NodeGroupStatus]) -> bool:
    """Are few enough nodes of these groups unready (`LoopRecord.healthy`)?"""
    known = list(group_status)
    unready = sum(len(each.unready) for each in known)
    there = unready + sum(len(each.ready) for each in known)
    return unready <= _FEW_UNREADY or unready <= _UNREADY_SHARE * there
