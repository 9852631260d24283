"""The record of one autoscaler loop, and counts over all loops.

- `LoopRecord`: what one loop observed and did. It feeds the log, the status object, `/dumpstate` and metrics.
- `LoopCounts`: counts that only grow; the metrics endpoint reads them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final, Literal, get_args

from slackwater.cluster.nodegroups.status import GroupCleanup, Grow, NodeGroupStatus, ScaleUpInfo
from slackwater.controllers.consolidation.loop import ConsolidationRecord
from slackwater.controllers.consolidation.running_moves import Outcome
from slackwater.controllers.loop_plans import PendingCounts
from slackwater.controllers.scaledown.loop import ScaleDownRecord
from slackwater.controllers.scaleup.costs import GroupCost
from slackwater.controllers.scaleup.outcome import PlanFailure, ScaleUp
from slackwater.controllers.slack.scale_up import SlackPlan
from slackwater.model.histogram import Spread
from slackwater.model.ids import Generation, Instant, PodKey, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.placeholders import is_placeholder
from slackwater.ports.protocols import ProviderError

#: As Cluster Autoscaler's ok-total-unready-count and max-total-unready-percentage: more unready nodes than both mean an outage.
_FEW_UNREADY = 3
_UNREADY_SHARE = 0.45
#: How many pods a record names as the reason of a scale-up.
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopDurations:
    """Durations within one loop in seconds. `serving` is how long the loop blocked the event loop in total, `longest` how long
    at most without a break."""

    sense: float = 0.0
    plan: float = 0.0
    act: float = 0.0
    serving: float = 0.0
    longest: float = 0.0

    @property
    def whole(self) -> float:
        return self.sense + self.plan + self.act


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededBy:
    """What a planned scale-up is for: `n_pods` pods, placeholders included. `first` names the most important real pods.
    `for_placeholders`: the most important of all pods is a placeholder, so the nodes are for pods to come."""

    n_pods: int
    first: tuple[PodKey, ...]
    for_placeholders: bool = False

    @classmethod
    def of(cls, scale_up: ScaleUp) -> "NeededBy":
        pods = tuple(islice(chain.from_iterable(scale_up.nodes), _MOST_NAMED))
        return cls(
            n_pods=sum(map(len, scale_up.nodes)),
            first=tuple(pod.key for pod in pods if not is_placeholder(pod)),
            for_placeholders=bool(pods) and is_placeholder(pods[0]),
        )


@dataclass(slots=True, kw_only=True)
class LoopRecord:
    """The record of one loop, which fills it as it runs. `planned`: how many nodes the scale-up plan adds to each group;
    `needed_by`: what they are for. `costs`: what each group costs; empty without prices. `asked`: the scale-up calls to
    providers, each with its error or None. `withheld`: calls that were decided and are not made. `queued`: scale-ups that wait
    for a limit. `deleted`: lost instances that were deleted, by group. `problems` are errors, those of providers that did not
    answer first; `notes` other remarks for people."""

    number: int
    at: UnixTime
    #: The loop's end on the monotonic clock, for comparison with times in `group_status`.
    instant: Instant = Instant(0.0)
    #: That of the cluster state for which the plans were made.
    generation: Generation
    group_status: Mapping[GroupName, NodeGroupStatus] = field(default_factory=dict)
    pending: PendingCounts = field(default_factory=PendingCounts)
    planned: Mapping[GroupName, int] = field(default_factory=dict)
    needed_by: Mapping[GroupName, NeededBy] = field(default_factory=dict)
    costs: Mapping[GroupName, GroupCost] = field(default_factory=dict)
    asked: list[tuple[Grow, ProviderError | None]] = field(default_factory=list)
    withheld: list[Grow | GroupCleanup] = field(default_factory=list)
    queued: tuple[ScaleUpInfo, ...] = ()
    deleted: Counter[GroupName] = field(default_factory=Counter)
    #: The number of deleted instances by error code.
    failed: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    #: What was left out of the scale-up plan because of an error.
    failures: tuple[PlanFailure, ...] = ()
    events_left_out: int = 0
    spent: LoopDurations = field(default_factory=LoopDurations)
    #: None if scale-down is off or was not planned.
    scale_down: ScaleDownRecord | None = None
    #: None if scale-down was not planned.
    consolidation: ConsolidationRecord | None = None
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


def node_counts(group_status: Iterable[NodeGroupStatus]) -> dict[str, int]:
    """The nodes of these groups by state, in the words of Cluster Autoscaler."""
    every = list(group_status)
    return {
        "ready": sum(len(each.ready) for each in every),
        "unready": sum(len(each.unready) for each in every),
        "notStarted": sum(len(each.starting) for each in every),
        "unregistered": sum(each.coming for each in every),
        "longUnregistered": sum(not lost.given_up for each in every for lost in each.lost),
    }


#: Parts of a loop, in the words of Cluster Autoscaler.
Function = Literal["main", "cloudProviderRefresh", "scaleUp", "findUnneeded", "scaleDown:empty", "scaleDown:drain"]
FUNCTIONS: Final[tuple[Function, ...]] = get_args(Function)
#: Upper bounds of the buckets in seconds; one more bucket has no bound.
_SECONDS: Final = tuple(0.01 * 2**power for power in range(18))
_LATE: Final = "timeout"


#: How the note of a group that cannot be read begins; its reason follows.
LEFT_OUT: Final = "left out: "


@dataclass(slots=True)
class LoopCounts:
    """Counts over all loops of this process. `errors` is by Cluster Autoscaler's error types, `failed_scale_ups` and
    `failed_nodes` by error code (of the provider or our own). `last_activity` is the Unix time of each activity's last run."""

    loops: int = 0
    failed_loops: int = 0
    nodes_asked: int = 0
    late_removed: int = 0
    #: By the state of the node before its removal: empty, underutilized or unready.
    nodes_removed: Counter[str] = field(default_factory=Counter)
    gpu_nodes_removed: Counter[str] = field(default_factory=Counter)
    #: Rolled-back drains, by reason.
    removals_given_up: Counter[str] = field(default_factory=Counter)
    pods_evicted: int = 0
    #: Moves of consolidations that ended, by outcome.
    moves_ended: Counter[Outcome] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    #: What was left out of plans because of errors, by part.
    left_out_of_plans: Counter[str] = field(default_factory=Counter)
    failed_scale_ups: Counter[str] = field(default_factory=Counter)
    failed_nodes: Counter[str] = field(default_factory=Counter)
    last_activity: dict[str, UnixTime] = field(default_factory=dict)
    durations: dict[Function, Spread] = field(default_factory=lambda: {name: Spread(_SECONDS) for name in FUNCTIONS})

    def begun(self, at: UnixTime) -> None:
        self.last_activity["main"] = at

    def failed(self) -> None:
        self.failed_loops += 1
        self.errors["internalError"] += 1

    def ended(self, record: LoopRecord) -> None:
        self.loops += 1
        for name in ("mainSuccessful", "autoscaling", "scaleUp"):
            self.last_activity[name] = record.at
        spent = record.spent
        self.durations["main"].note(spent.whole)
        self.durations["cloudProviderRefresh"].note(spent.sense)
        self.durations["scaleUp"].note(spent.plan)
        self.errors["cloudProviderError"] += len(record.problems)
        self.left_out_of_plans.update(failure.part for failure in record.failures)
        self.failed_nodes.update(record.failed)
        self.late_removed += record.failed.get(_LATE, 0)
        if record.scale_down is not None:
            self._shrunk(record.scale_down)
        if record.consolidation is not None:
            self.moves_ended.update(each.end.outcome for each in record.consolidation.ended if each.end is not None)
        for call, problem in record.asked:
            if problem is None:
                self.nodes_asked += 0 if call.again else call.nodes
            else:
                self.failed_scale_ups[problem.kind] += 1

    def _shrunk(self, scale_down: ScaleDownRecord) -> None:
        self.durations["findUnneeded"].note(scale_down.seconds)
        self.last_activity["scaleDown"] = self.last_activity["main"]
        for end in scale_down.ended:
            self.pods_evicted += end.evicted
            if end.outcome == "rolled-back":
                self.removals_given_up[str(end.unremovable_reason)] += 1
                continue
            order = end.order
            what = "empty" if order.empty else "underutilized" if order.ready else "unready"
            self.nodes_removed[what] += 1
            self.gpu_nodes_removed[what] += order.gpu
            self.durations["scaleDown:empty" if order.empty else "scaleDown:drain"].note(end.seconds)
