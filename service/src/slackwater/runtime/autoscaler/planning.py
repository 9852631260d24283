"""What the loop asks its planners, and what they answer; and the plans themselves, made on a replica of the cluster.

What flows through: an `Inquiry` of frozen values goes in, `Plans` come out, and then the `ScaleDownProposal` of the same
inquiry. All plans, for growing, for slack and for shrinking, are made on one snapshot, one after the other. The loop asks for
the last one by itself, so that growth never waits for it. Deliberately absent: what is done about them, and where they are made
(`runtime.planner`).
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.scaleup.outcome import ScaleUp, ScaleUpPlan
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.slack.rule import SlackPolicy
from slackwater.model.buffers import NO_HEADROOM_REQUESTS, HeadroomRequests
from slackwater.model.changes import Changes
from slackwater.model.effects import Announce
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater.model.placeholders import is_placeholder
from slackwater.model.promises import Observed
from slackwater.runtime.autoscaler.announcing import Announcer, not_triggered
from slackwater.runtime.autoscaler.clocks import Watch
from slackwater.runtime.autoscaler.scaledown_planning import (
    ScaleDownInquiry,
    ScaleDownProposal,
    propose_scale_down,
    room_needed_again,
    staying,
)
from slackwater.runtime.autoscaler.slack_planning import Planned, SlackPlan
from slackwater.snapshot.replica import SnapshotReplica


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpRules:
    """How nodes are added, as configured now. `slack` is None where no room is kept for pods to come. Pods of the scheduler
    `strict_for` that lack a request are refused by our own filter, whatever the node; None: no pod is."""

    policy: ScaleUpPolicy
    slack: SlackPolicy | None = None
    strict_for: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """What is to be planned for. `barred` says of groups that may not grow why. `daemons` are pods of DaemonSets. `headroom
    requests` want placeholders that are like pods. `observed` are the classes of pods that something was promised for."""

    changes: Changes
    rules: ScaleUpRules
    group_status: Mapping[GroupName, NodeGroupStatus]
    barred: Mapping[GroupName, str] = field(default_factory=dict)
    daemons: tuple[Pod, ...] = ()
    headroom_requests: HeadroomRequests = NO_HEADROOM_REQUESTS
    observed: tuple[Observed, ...] = ()
    now: UnixTime
    #: None: nothing is to be removed.
    scale_down: ScaleDownInquiry | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCounts:
    """Pods without a place, each counted once. `passed_over` do not count now (young, gated, promised ...)."""

    helped: int = 0
    schedulable: int = 0
    unhelpable: int = 0
    passed_over: int = 0
    not_looked_at: int = 0

    @property
    def total(self) -> int:
        return self.helped + self.schedulable + self.unhelpable + self.passed_over + self.not_looked_at


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpResult:
    """A plan of growth as far as the loop acts on it: tens of thousands of pods that nobody helps are Events and counts.

    `refused` are Events for pods that no group helps, `left_out` how many more there would have been.
    """

    scale_ups: tuple[ScaleUp, ...] = ()
    pending: PendingCounts = field(default_factory=PendingCounts)
    refused: tuple[Announce, ...] = ()
    left_out: int = 0
    notes: tuple[str, ...] = ()
    again_at: UnixTime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """`seconds`: of taking in the changes, and of the plan. `given_up`: nodes whose removal is to be given up, since pods need
    their room. `notes`: what people should know of where plans are made."""

    scale_up: ScaleUpResult
    seconds: Mapping[str, float]
    slack: SlackPlan | None = None
    given_up: tuple[NodeName, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerObservation:
    """A planning process as seen from outside: how often one ended and was started again, and what it takes of memory."""

    restarts: int = 0
    resident_bytes: int = 0


class Planning(Protocol):
    """Where plans are made. One task at a time calls `plan` and `shrink`; `watch` counts what they take of the serving loop.

    After `forget`, the next inquiry holds everything: a plan failed, and what had been taken in is not known.
    """

    async def plan(self, inquiry: Inquiry, watch: Watch) -> Plans:
        """Growth and slack."""
        ...

    async def scale_down(self, watch: Watch) -> ScaleDownProposal | None:
        """Which nodes to remove, by the inquiry that was planned last. None: it asked for no removals, or is forgotten."""
        ...

    def forget(self) -> None: ...

    def observation(self) -> PlannerObservation: ...

    async def run(self) -> None:
        """What has to go on as long as plans are wanted."""
        ...


class ScaleUpPlanner(Protocol):
    """Plans growth, and slack, on the replica's snapshot, which is as before afterwards."""

    def __call__(self, replica: SnapshotReplica, inquiry: Inquiry) -> Planned: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grown:
    """What the plan to shrink rests on: the inquiry, the plan of growth, and the nodes whose removal it gives up."""

    inquiry: Inquiry
    found: Planned
    given_up: tuple[NodeName, ...]


class PlanMaker:
    """Owns the replica, and makes the plans."""

    def __init__(self, scale_up: ScaleUpPlanner) -> None:
        self._scale_up = scale_up
        self._announcer = Announcer()
        self._grown: _Grown | None = None
        self.replica = SnapshotReplica()

    def forget(self) -> None:
        """The next inquiry has to hold everything."""
        self.replica, self._grown = SnapshotReplica(), None

    def make(self, inquiry: Inquiry) -> Plans:
        """Takes the changes in and plans growth."""
        began, replica, self._grown = time.perf_counter(), self.replica, None
        replica.take(inquiry.changes)
        taken = time.perf_counter()
        grown = self._grow(replica, inquiry)
        self._grown = grown
        return Plans(
            scale_up=self._answer(grown.found.plan, inquiry.now),
            seconds={"mirror": taken - began, "scaleUp": time.perf_counter() - taken},
            slack=grown.found.slack,
            given_up=grown.given_up,
        )

    def _grow(self, replica: SnapshotReplica, inquiry: Inquiry) -> _Grown:
        """Where removals are given up for pods, growth is planned again with their nodes."""
        found, given_up = self._scale_up(replica, inquiry), tuple[NodeName, ...]()
        if inquiry.scale_down is not None:
            replica.learn([eviction.pod for eviction in inquiry.scale_down.state.recent_evictions], more=True)
            given_up = room_needed_again(replica, inquiry.scale_down, found.plan)
        if given_up:
            with staying(replica, given_up):
                found = self._scale_up(replica, inquiry)
        return _Grown(inquiry=inquiry, found=found, given_up=given_up)

    def scale_down(self) -> ScaleDownProposal | None:
        """As `Planning.scale_down`."""
        grown = self._grown
        if grown is None or grown.inquiry.scale_down is None:
            return None
        inquiry, replica = grown.inquiry, self.replica
        evictions = [eviction.pod for eviction in grown.inquiry.scale_down.state.recent_evictions]
        replica.learn(evictions, more=True)  # planning growth again may have replaced them
        with staying(replica, grown.given_up):
            return propose_scale_down(
                replica, grown.inquiry.scale_down, inquiry.group_status, grown.found, grown.given_up, now=inquiry.now
            )

    def _answer(self, plan: ScaleUpPlan, now: UnixTime) -> ScaleUpResult:
        refused, left_out = self._announcer.select(not_triggered(plan.unhelpable), now)
        return ScaleUpResult(
            scale_ups=plan.scale_ups,
            pending=_counts(plan),
            refused=tuple(refused),
            left_out=left_out,
            notes=plan.notes,
            again_at=plan.again_at,
        )


def _counts(plan: ScaleUpPlan) -> PendingCounts:
    return PendingCounts(
        helped=sum(not is_placeholder(pod) for scale_up in plan.scale_ups for pods in scale_up.nodes for pod in pods),
        schedulable=len(plan.schedulable),
        unhelpable=sum(len(found.pods) for found in plan.unhelpable),
        passed_over=len(plan.passed_over),
        not_looked_at=len(plan.not_looked_at),
    )
