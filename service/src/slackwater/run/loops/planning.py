"""Plans are made in a worker thread, on a mirror of the cluster that this thread alone touches.

What flows through: an `Inquiry` of frozen values goes in, `Plans` come out. Both plans, for growing and for shrinking, are
made on one picture, one after the other. Deliberately absent: what is done about them.
"""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import anyio
import anyio.to_thread
from anyio import get_cancelled_exc_class

from slackwater.decide.scaleup.outcome import ScaleUpPlan
from slackwater.model.buffers import NO_ASKERS, Askers
from slackwater.model.changes import Changes
from slackwater.model.ids import UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater.model.promises import Observed
from slackwater.run.loops.shrink_planning import ShrinkInquiry, ShrinkPlan, plan_shrinking, room_needed_again, staying
from slackwater.run.loops.slack_planning import Planned, SlackPlan
from slackwater.simulate.mirror import Mirror
from slackwater.world.fleet.census import Census

#: While a plan is made in Python, the serving loop waits for its turn at most so long, instead of 5 ms.
_SWITCH_SECONDS: Final = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """What is to be planned for. `barred` says of groups that may not grow why. `daemons` are pods of DaemonSets. `askers`
    want placeholders that are like pods. `observed` are the classes of pods that something was promised for."""

    changes: Changes
    census: Mapping[GroupName, Census]
    barred: Mapping[GroupName, str] = field(default_factory=dict)
    daemons: tuple[Pod, ...] = ()
    askers: Askers = NO_ASKERS
    observed: tuple[Observed, ...] = ()
    now: UnixTime
    #: None: nothing is to be removed.
    shrink: ShrinkInquiry | None = None


class ScaleUpPlanner(Protocol):
    """Plans growth, and slack, on the mirror's picture, which is as before afterwards. `stop` cuts it off."""

    def __call__(self, mirror: Mirror, inquiry: Inquiry, stop: Callable[[], bool]) -> Planned: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """`seconds`: of taking in the changes, and of each plan."""

    scale_up: ScaleUpPlan
    seconds: Mapping[str, float]
    slack: SlackPlan | None = None
    shrink: ShrinkPlan | None = None


class Planning:
    """Owns the mirror. `plan` is called by one task at a time."""

    def __init__(self, scale_up: ScaleUpPlanner) -> None:
        self._scale_up = scale_up
        self._mirror = Mirror()
        self._stopped = False
        self._one = anyio.CapacityLimiter(1)

    async def plan(self, inquiry: Inquiry) -> Plans:
        """Cancelled, it gives the thread up, which ends at its next look at `stop`."""
        before = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_SECONDS)
        try:
            return await anyio.to_thread.run_sync(self._plan, inquiry, abandon_on_cancel=True, limiter=self._one)
        except get_cancelled_exc_class():
            self._stopped = True
            raise
        finally:
            sys.setswitchinterval(before)

    def forget(self) -> None:
        """A plan failed, and what the mirror has taken in is not known: the next inquiry has to hold everything."""
        self._mirror = Mirror()

    def _plan(self, inquiry: Inquiry) -> Plans:
        began = time.perf_counter()
        self._mirror.take(inquiry.changes)
        taken = time.perf_counter()
        found, shrink = self._scale_up(self._mirror, inquiry, self._is_stopped), None
        planned = time.perf_counter()
        seconds = {"mirror": taken - began, "scaleUp": planned - taken}
        if inquiry.shrink is not None:
            found, shrink = self._shrink(inquiry, inquiry.shrink, found)
            seconds["scaleDown"] = time.perf_counter() - planned
        return Plans(scale_up=found.plan, seconds=seconds, slack=found.slack, shrink=shrink)

    def _shrink(self, inquiry: Inquiry, shrink: ShrinkInquiry, found: Planned) -> tuple[Planned, ShrinkPlan]:
        """Where removals are given up for pods, growth is planned anew with their nodes."""
        mirror = self._mirror
        mirror.learn([eviction.pod for eviction in shrink.state.recent_evictions], more=True)
        given_up = room_needed_again(mirror, shrink, found.plan)
        with staying(mirror, given_up):
            if given_up:
                found = self._scale_up(mirror, inquiry, self._is_stopped)
            plan = plan_shrinking(mirror, shrink, inquiry.census, found, given_up, now=inquiry.now, stop=self._is_stopped)
        return found, plan

    def _is_stopped(self) -> bool:
        return self._stopped
