"""What the loop asks its planners, and what they answer; and the plans themselves, made on a mirror of the cluster.

What flows through: an `Inquiry` of frozen values goes in, `Plans` come out, and then the `ShrinkPlan` of the same inquiry. All
plans, for growing, for slack and for shrinking, are made on one picture, one after the other. The loop asks for the last one by
itself, so that growth never waits for it. Deliberately absent: what is done about them, and where they are made
(`planning_thread`, `run.planner`).
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from slackwater.cluster.nodegroups.status import Census
from slackwater.controllers.scaleup.outcome import Growth, ScaleUpPlan
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.slack.rule import SlackPolicy
from slackwater.model.buffers import NO_ASKERS, Askers
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
    ShrinkInquiry,
    ShrinkPlan,
    plan_shrinking,
    room_needed_again,
    staying,
)
from slackwater.runtime.autoscaler.slack_planning import Planned, SlackPlan
from slackwater.snapshot.replica import Mirror


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthRules:
    """How nodes are added, as configured now. `slack` is None where no room is kept for pods to come. Pods of the scheduler
    `strict_for` that lack a request are refused by our own filter, whatever the node; None: no pod is."""

    policy: ScaleUpPolicy
    slack: SlackPolicy | None = None
    strict_for: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """What is to be planned for. `barred` says of groups that may not grow why. `daemons` are pods of DaemonSets. `askers`
    want placeholders that are like pods. `observed` are the classes of pods that something was promised for."""

    changes: Changes
    rules: GrowthRules
    census: Mapping[GroupName, Census]
    barred: Mapping[GroupName, str] = field(default_factory=dict)
    daemons: tuple[Pod, ...] = ()
    askers: Askers = NO_ASKERS
    observed: tuple[Observed, ...] = ()
    now: UnixTime
    #: None: nothing is to be removed.
    shrink: ShrinkInquiry | None = None


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
class GrowthAnswer:
    """A plan of growth as far as the loop acts on it: tens of thousands of pods that nobody helps are Events and counts.

    `refused` are Events for pods that no group helps, `left_out` how many more there would have been.
    """

    growths: tuple[Growth, ...] = ()
    pending: PendingCounts = field(default_factory=PendingCounts)
    refused: tuple[Announce, ...] = ()
    left_out: int = 0
    notes: tuple[str, ...] = ()
    again_at: UnixTime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """`seconds`: of taking in the changes, and of the plan. `given_up`: nodes whose removal is to be given up, since pods need
    their room. `notes`: what people should know of where plans are made."""

    scale_up: GrowthAnswer
    seconds: Mapping[str, float]
    slack: SlackPlan | None = None
    given_up: tuple[NodeName, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerSight:
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

    async def shrink(self, watch: Watch) -> ShrinkPlan | None:
        """Which nodes to remove, by the inquiry that was planned last. None: it asked for no removals, or is forgotten."""
        ...

    def forget(self) -> None: ...

    def sight(self) -> PlannerSight: ...

    async def run(self) -> None:
        """What has to go on as long as plans are wanted."""
        ...


class ScaleUpPlanner(Protocol):
    """Plans growth, and slack, on the mirror's picture, which is as before afterwards. `stop` cuts it off."""

    def __call__(self, mirror: Mirror, inquiry: Inquiry, stop: Callable[[], bool]) -> Planned: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grown:
    """What the plan to shrink rests on: the inquiry, the plan of growth, and the nodes whose removal it gives up."""

    inquiry: Inquiry
    found: Planned
    given_up: tuple[NodeName, ...]


class PlanMaker:
    """Owns the mirror, and makes the plans."""

    def __init__(self, scale_up: ScaleUpPlanner) -> None:
        self._scale_up = scale_up
        self._announcer = Announcer()
        self._grown: _Grown | None = None
        self.mirror = Mirror()

    def forget(self) -> None:
        """The next inquiry has to hold everything."""
        self.mirror, self._grown = Mirror(), None

    def make(self, inquiry: Inquiry, stop: Callable[[], bool]) -> Plans:
        """Takes the changes in and plans growth. It ends soon after `stop` says so."""
        began, mirror, self._grown = time.perf_counter(), self.mirror, None
        mirror.take(inquiry.changes)
        taken = time.perf_counter()
        grown = self._grow(mirror, inquiry, stop)
        self._grown = grown
        return Plans(
            scale_up=self._answer(grown.found.plan, inquiry.now),
            seconds={"mirror": taken - began, "scaleUp": time.perf_counter() - taken},
            slack=grown.found.slack,
            given_up=grown.given_up,
        )

    def _grow(self, mirror: Mirror, inquiry: Inquiry, stop: Callable[[], bool]) -> _Grown:
        """Where removals are given up for pods, growth is planned again with their nodes."""
        found, given_up = self._scale_up(mirror, inquiry, stop), tuple[NodeName, ...]()
        if inquiry.shrink is not None:
            mirror.learn([eviction.pod for eviction in inquiry.shrink.state.recent_evictions], more=True)
            given_up = room_needed_again(mirror, inquiry.shrink, found.plan)
        if given_up:
            with staying(mirror, given_up):
                found = self._scale_up(mirror, inquiry, stop)
        return _Grown(inquiry=inquiry, found=found, given_up=given_up)

    def shrink(self, stop: Callable[[], bool]) -> ShrinkPlan | None:
        """As `Planning.shrink`."""
        grown = self._grown
        if grown is None or grown.inquiry.shrink is None:
            return None
        inquiry, mirror = grown.inquiry, self.mirror
        evictions = [eviction.pod for eviction in grown.inquiry.shrink.state.recent_evictions]
        mirror.learn(evictions, more=True)  # planning growth again may have replaced them
        with staying(mirror, grown.given_up):
            return plan_shrinking(
                mirror, grown.inquiry.shrink, inquiry.census, grown.found, grown.given_up, now=inquiry.now, stop=stop
            )

    def _answer(self, plan: ScaleUpPlan, now: UnixTime) -> GrowthAnswer:
        refused, left_out = self._announcer.select(not_triggered(plan.unhelpable), now)
        return GrowthAnswer(
            growths=plan.growths,
            pending=_counts(plan),
            refused=tuple(refused),
            left_out=left_out,
            notes=plan.notes,
            again_at=plan.again_at,
        )


def _counts(plan: ScaleUpPlan) -> PendingCounts:
    return PendingCounts(
        helped=sum(not is_placeholder(pod) for growth in plan.growths for pods in growth.nodes for pod in pods),
        schedulable=len(plan.schedulable),
        unhelpable=sum(len(found.pods) for found in plan.unhelpable),
        passed_over=len(plan.passed_over),
        not_looked_at=len(plan.not_looked_at),
    )
