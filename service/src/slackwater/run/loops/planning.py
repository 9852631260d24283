"""What the loop asks its planners, and what they answer; and the plans themselves, made on a mirror of the cluster.

What flows through: an `Inquiry` of frozen values goes in, `Plans` come out. All plans, for growing, for slack and for
shrinking, are made on one picture, one after the other. Deliberately absent: what is done about them, and where they are made
(`planning_thread`, `run.planner`).
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from slackwater.decide.scaleup.outcome import Growth, ScaleUpPlan
from slackwater.decide.scaleup.policy import ScaleUpPolicy
from slackwater.decide.slack.rule import SlackPolicy
from slackwater.model.buffers import NO_ASKERS, Askers
from slackwater.model.changes import Changes
from slackwater.model.effects import Announce
from slackwater.model.ids import UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater.model.placeholders import is_placeholder
from slackwater.model.promises import Observed
from slackwater.run.loops.announcing import Announcer, not_triggered
from slackwater.run.loops.clocks import Watch
from slackwater.run.loops.shrink_planning import ShrinkInquiry, ShrinkPlan, plan_shrinking, room_needed_again, staying
from slackwater.run.loops.slack_planning import Planned, SlackPlan
from slackwater.simulate.mirror import Mirror
from slackwater.world.fleet.census import Census


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
    """`seconds`: of taking in the changes, and of each plan. `notes`: what people should know of where plans are made."""

    scale_up: GrowthAnswer
    seconds: Mapping[str, float]
    slack: SlackPlan | None = None
    shrink: ShrinkPlan | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerSight:
    """A planning process as seen from outside: how often one ended and was started again, and what it takes of memory."""

    restarts: int = 0
    resident_bytes: int = 0


class Planning(Protocol):
    """Where plans are made. `plan` is called by one task at a time; what it takes of the serving loop is told to `watch`.

    After `forget`, the next inquiry holds everything: a plan failed, and what had been taken in is not known.
    """

    async def plan(self, inquiry: Inquiry, watch: Watch) -> Plans: ...

    def forget(self) -> None: ...

    def sight(self) -> PlannerSight: ...

    async def run(self) -> None:
        """What has to go on as long as plans are wanted."""
        ...


class ScaleUpPlanner(Protocol):
    """Plans growth, and slack, on the mirror's picture, which is as before afterwards. `stop` cuts it off."""

    def __call__(self, mirror: Mirror, inquiry: Inquiry, stop: Callable[[], bool]) -> Planned: ...


class PlanMaker:
    """Owns the mirror, and makes the plans."""

    def __init__(self, scale_up: ScaleUpPlanner) -> None:
        self._scale_up = scale_up
        self._announcer = Announcer()
        self.mirror = Mirror()

    def forget(self) -> None:
        """The next inquiry has to hold everything."""
        self.mirror = Mirror()

    def make(self, inquiry: Inquiry, stop: Callable[[], bool]) -> Plans:
        """Takes the changes in and plans. It ends soon after `stop` says so."""
        began, mirror = time.perf_counter(), self.mirror
        mirror.take(inquiry.changes)
        taken = time.perf_counter()
        found, shrink = self._scale_up(mirror, inquiry, stop), None
        planned = time.perf_counter()
        seconds = {"mirror": taken - began, "scaleUp": planned - taken}
        if inquiry.shrink is not None:
            found, shrink = self._shrink(mirror, inquiry, inquiry.shrink, found, stop)
            seconds["scaleDown"] = time.perf_counter() - planned
        return Plans(scale_up=self._answer(found.plan, inquiry.now), seconds=seconds, slack=found.slack, shrink=shrink)

    def _shrink(
        self, mirror: Mirror, inquiry: Inquiry, shrink: ShrinkInquiry, found: Planned, stop: Callable[[], bool]
    ) -> tuple[Planned, ShrinkPlan]:
        """Where removals are given up for pods, growth is planned anew with their nodes."""
        mirror.learn([eviction.pod for eviction in shrink.state.recent_evictions], more=True)
        given_up = room_needed_again(mirror, shrink, found.plan)
        with staying(mirror, given_up):
            if given_up:
                found = self._scale_up(mirror, inquiry, stop)
            plan = plan_shrinking(mirror, shrink, inquiry.census, found, given_up, now=inquiry.now, stop=stop)
        return found, plan

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
