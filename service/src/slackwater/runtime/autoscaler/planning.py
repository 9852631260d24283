"""Defines what the autoscaler's loop asks its planner and what the planner answers, and makes the plans (`PlanMaker`).

The planner collects the changes of the cluster; the loop adds its own state and makes an `Inquiry` of both. The answers are
`Plans` and then the `ScaleDownProposal` of the same inquiry. Scale-up, slack and scale-down are planned one after the other on
one snapshot. The loop requests the scale-down plan separately, so that scale-up never waits for it. Deliberately absent: acting
on the plans, and the planning process (`runtime.planner`).
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.scaleup.failures import failure_of
from slackwater.controllers.scaleup.groups import SkipReason
from slackwater.controllers.scaleup.outcome import PlanFailure, ScaleUp, ScaleUpPlan, Unhelpable
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.slack.policy import SlackPolicy
from slackwater.model.auxiliary import AuxiliaryObjects
from slackwater.model.changes import Changes
from slackwater.model.effects import Announce
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater.model.placeholders import NO_HEADROOM_REQUESTS, HeadroomRequests, is_placeholder
from slackwater.model.start_time_slo import Observed
from slackwater.ports.clock import Watch
from slackwater.runtime.autoscaler.plan_events import Announcer, headroom_cut, not_triggered
from slackwater.runtime.autoscaler.scaledown_planning import (
    ScaleDownInquiry,
    ScaleDownProposal,
    drains_to_roll_back,
    propose_scale_down,
    with_drains_rolled_back,
)
from slackwater.runtime.autoscaler.slack_planning import LoopPlans, SlackPlan
from slackwater.snapshot.snapshot_replica import SnapshotReplica


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpRules:
    """The configured rules of scale-up. `slack` is None if slack is off. `strict_for` names the scheduler for whose pods our
    filter rejects every node if they lack a request; None: it rejects none for that."""

    policy: ScaleUpPolicy
    slack: SlackPolicy | None = None
    strict_for: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """The input of one loop's plans. `changes`: those of the cluster since the last inquiry. `barred`: the reason of each group
    that may not grow. `daemons`: one pod for each DaemonSet. `headroom_requests`: the API objects that request placeholders.
    `observed`: the arrivals of each pod class with a start-time SLO."""

    changes: Changes
    rules: ScaleUpRules
    group_status: Mapping[GroupName, NodeGroupStatus]
    barred: Mapping[GroupName, str] = field(default_factory=dict)
    daemons: tuple[Pod, ...] = ()
    headroom_requests: HeadroomRequests = NO_HEADROOM_REQUESTS
    observed: tuple[Observed, ...] = ()
    now: UnixTime
    #: None: no scale-down is planned.
    scale_down: ScaleDownInquiry | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCounts:
    """The numbers of pending pods by what the plan found; each pod counts once.

    `helped`: new nodes are planned for them. `schedulable`: they fit on existing or upcoming nodes. `unhelpable`: no group
    helps. `passed_over`: not planned for now (too young, gated, room is kept already ...). `not_looked_at`: beyond the limit.
    `limited`: by group, how many of the unhelpable pods a new node of the group would take if its limit allowed one.
    """

    helped: int = 0
    schedulable: int = 0
    unhelpable: int = 0
    passed_over: int = 0
    not_looked_at: int = 0
    limited: Mapping[GroupName, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return self.helped + self.schedulable + self.unhelpable + self.passed_over + self.not_looked_at


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpResult:
    """The part of a scale-up plan that the loop acts on. Pods that no group helps may be tens of thousands, so the loop gets
    only their Events and their number.

    `refused` are the Events for pods that no group helps, `left_out` the number of further such Events. `failures`: what was
    left out of the plan because of an error. `again_at`: when pods that are too young now are old enough; None if there are
    none.
    """

    scale_ups: tuple[ScaleUp, ...] = ()
    pending: PendingCounts = field(default_factory=PendingCounts)
    refused: tuple[Announce, ...] = ()
    left_out: int = 0
    notes: tuple[str, ...] = ()
    failures: tuple[PlanFailure, ...] = ()
    again_at: UnixTime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """The answer to an inquiry. `seconds`: the durations of applying the changes and of planning. `given_up`: nodes whose drain
    is to be rolled back, because pods need their room. `notes`: remarks about the planning process for the status, such as
    a restart."""

    scale_up: ScaleUpResult
    seconds: Mapping[str, float]
    slack: SlackPlan | None = None
    given_up: tuple[NodeName, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerObservation:
    """Figures of the planning process: how often it was restarted, its resident memory in bytes, and for how many seconds it
    has given no sign of progress while it makes a plan."""

    restarts: int = 0
    resident_bytes: int = 0
    silent_seconds: float = 0.0


#: Makes the inquiry of the collected changes and the auxiliary objects. Called while the state machine is in the state to which
#: the changes lead; called again if the planning process ends before it has answered.
MakeInquiry = Callable[[Changes, AuxiliaryObjects], Inquiry]


class LoopPlanner(Protocol):
    """Makes plans for the loop. Only one task at a time may call `plan` and `scale_down`. `watch` measures for how long these
    block the event loop.

    The loop calls `forget` after a failed plan, because it is then unknown which changes were applied. The next inquiry then
    contains the whole cluster.
    """

    async def plan(self, make: MakeInquiry, watch: Watch) -> Plans:
        """Returns the plans for scale-up and slack, for the inquiry that `make` makes."""
        ...

    async def scale_down(self, watch: Watch) -> ScaleDownProposal | None:
        """The scale-down plan for the last inquiry. None: that inquiry requested none, or has been forgotten."""
        ...

    def forget(self) -> None: ...

    def observation(self) -> PlannerObservation: ...


class ScaleUpPlanner(Protocol):
    """Plans scale-up and slack on the replica's snapshot, and leaves the snapshot unchanged."""

    def __call__(self, replica: SnapshotReplica, inquiry: Inquiry) -> LoopPlans: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grown:
    """The input of the scale-down plan: the inquiry, the plans made before, and the nodes whose drains those plans roll
    back."""

    inquiry: Inquiry
    found: LoopPlans
    given_up: tuple[NodeName, ...]


class PlanMaker:
    """Makes all plans, on a replica that it keeps up to date with the changes of each inquiry."""

    def __init__(self, scale_up: ScaleUpPlanner, clock: Callable[[], float] = time.monotonic) -> None:
        """Begins with an empty replica. `clock` is read at each step of a scale-down plan."""
        self._scale_up = scale_up
        self._clock = clock
        self._announcer = Announcer()
        self._grown: _Grown | None = None
        self.replica = SnapshotReplica()

    def forget(self) -> None:
        """Discards the replica; the next inquiry has to contain the whole cluster."""
        self.replica, self._grown = SnapshotReplica(), None

    def make(self, inquiry: Inquiry) -> Plans:
        """Applies the changes to the replica, and plans scale-up and slack."""
        began, replica, self._grown = time.perf_counter(), self.replica, None
        replica.take(inquiry.changes)
        taken = time.perf_counter()
        grown = self._grow(replica, inquiry)
        self._grown = grown
        return Plans(
            scale_up=self._answer(grown.found, inquiry.now),
            seconds={"mirror": taken - began, "scaleUp": time.perf_counter() - taken},
            slack=grown.found.slack,
            given_up=grown.given_up,
        )

    def _grow(self, replica: SnapshotReplica, inquiry: Inquiry) -> _Grown:
        """Plans scale-up. If drains are to be rolled back for pods, plans a second time with their nodes available."""
        found, given_up = self._scale_up(replica, inquiry), tuple[NodeName, ...]()
        if inquiry.scale_down is not None:
            replica.learn([eviction.pod for eviction in inquiry.scale_down.state.recent_evictions], more=True)
            try:
                given_up = drains_to_roll_back(replica, inquiry.scale_down, found.plan)
            except Exception as error:  # nodes are bought although a drain could be given up: better than none for anybody
                found = found.without(failure_of("drains", "drains to roll back", error))
        if given_up:
            with with_drains_rolled_back(replica, given_up):
                found = self._scale_up(replica, inquiry)
        return _Grown(inquiry=inquiry, found=found, given_up=given_up)

    def scale_down(self) -> ScaleDownProposal | None:
        """The scale-down plan for the last inquiry; None if this inquiry requested none, or failed, or was forgotten. None too
        if slack was not planned because of an error: it is then unknown which nodes are kept for it."""
        grown = self._grown
        if grown is None or grown.inquiry.scale_down is None:
            return None
        if any(failure.part == "slack" for failure in grown.found.plan.failures):
            return None
        inquiry, replica = grown.inquiry, self.replica
        evictions = [eviction.pod for eviction in grown.inquiry.scale_down.state.recent_evictions]
        replica.learn(evictions, more=True)  # the second scale-up plan may have replaced them
        with with_drains_rolled_back(replica, grown.given_up):
            return propose_scale_down(
                replica,
                grown.inquiry.scale_down,
                inquiry.group_status,
                grown.found,
                grown.given_up,
                now=inquiry.now,
                clock=self._clock,
            )

    def _answer(self, found: LoopPlans, now: UnixTime) -> ScaleUpResult:
        plan, cuts = found.plan, () if found.slack is None else found.slack.cuts_of_headroom
        refused, left_out = self._announcer.select((*not_triggered(plan.unhelpable), *headroom_cut(cuts)), now)
        return ScaleUpResult(
            scale_ups=plan.scale_ups,
            pending=_counts(plan),
            refused=tuple(refused),
            left_out=left_out,
            notes=plan.notes,
            failures=plan.failures,
            again_at=plan.again_at,
        )


def _counts(plan: ScaleUpPlan) -> PendingCounts:
    return PendingCounts(
        helped=sum(not is_placeholder(pod) for scale_up in plan.scale_ups for pods in scale_up.nodes for pod in pods),
        schedulable=len(plan.schedulable),
        unhelpable=sum(len(found.pods) for found in plan.unhelpable),
        limited=_limited(plan.unhelpable),
        passed_over=len(plan.passed_over),
        not_looked_at=len(plan.not_looked_at),
    )


def _limited(unhelpable: Iterable[Unhelpable]) -> dict[GroupName, int]:
    found = Counter[GroupName]()
    for each in unhelpable:
        for name, why in each.groups.items() if each.tried else ():
            if isinstance(why, SkipReason) and why.kind == "limit":
                found[name] += len(each.pods)
    return dict(found)
