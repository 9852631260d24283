"""The autoscaler: sense, plan, act, again and again.

    sense   the providers' groups, what is lost of them, and what changed in the world since the last loop
    plan    elsewhere, on a mirror of the cluster; all plans see the same picture
    act     what the limits leave of the plan is asked of the providers; people are told

Growth is planned and acted on first, then removals, which may take far longer to plan.

It runs each `interval_seconds`, and earlier when pods have become unschedulable or nodes that others wait behind have become
ready, a moment after the last of them, or when pods that were too young have come of age. One log line and one record for each
loop. A loop that fails is logged, and the next one comes later. Nothing it remembers has to outlive the process: see
`world.fleet`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Final

import anyio
import structlog

from slackwater.cluster.nodegroups.registry import Fleet
from slackwater.cluster.nodegroups.status import Wish
from slackwater.controllers.scaledown.loop import Shrinking, ShrinkRecord
from slackwater.controllers.scaleup.outcome import Growth
from slackwater.model.effects import Effect
from slackwater.model.ids import Generation, Instant, NodeName, PodKey, UnixTime
from slackwater.model.objects import Pod
from slackwater.model.placeholders import is_placeholder
from slackwater.model.promises import Observed
from slackwater.runtime.autoscaler.acting import Actor, Done
from slackwater.runtime.autoscaler.announcing import Announcer, stuck, stuck_note, triggered
from slackwater.runtime.autoscaler.clocks import Clocks, Watch
from slackwater.runtime.autoscaler.counts import LoopCounts
from slackwater.runtime.autoscaler.planning import GrowthAnswer, GrowthRules, Inquiry, Planning, Plans
from slackwater.runtime.autoscaler.record import LoopRecord, Spent, is_healthy
from slackwater.runtime.autoscaler.scaledown_planning import ShrinkPlan
from slackwater.runtime.autoscaler.sensing import Senses, Sensor
from slackwater.runtime.autoscaler.slack_planning import SlackPlan
from slackwater.runtime.autoscaler.slack_report import slack_problems

_log = structlog.get_logger(__name__)

_STATUS_OBJECT: Final = PodKey("kube-system", "slackwater-autoscaler-status")
#: After failures in a row the next loop comes later, at most by this factor.
_LONGEST_BACKOFF: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """`settle_seconds`: so long nothing more must have happened before an early loop, `longest_settle_seconds` at the most.
    Events that are about no pod or node are about `status_object`."""

    interval_seconds: float = 10.0
    settle_seconds: float = 1.0
    longest_settle_seconds: float = 5.0
    call_seconds: float = 30.0
    status_object: PodKey = _STATUS_OBJECT


#: Writes the status object. Never raises for what the API server answers; None: there is none.
StatusWriter = Callable[[LoopRecord], Awaitable[None]]


async def _nothing() -> Sequence[str]:
    return ()


class Autoscaler:
    """See the module."""

    def __init__(
        self,
        senses: Senses,
        *,
        fleet: Fleet,
        planning: Planning,
        rules: Callable[[], GrowthRules],
        submit: Callable[[Iterable[Effect]], None],
        write_status: StatusWriter,
        clocks: Clocks,
        counts: LoopCounts,
        config: LoopConfig,
        leading: Callable[[], bool] = lambda: True,
        prepare: Callable[[], Awaitable[Sequence[str]]] = _nothing,
        shrinking: Shrinking | None = None,
        observed: Callable[[], tuple[Observed, ...]] = tuple,
    ) -> None:
        """`rules` are asked for once a loop, `leading` before whatever changes something. `prepare` runs before each plan, and
        may say something. `observed` tells of the pods that something was promised for."""
        self._world = senses.world
        self.fleet = fleet
        self._planning = planning
        self._rules = rules
        self._submit = submit
        self._write_status = write_status
        self._clocks = clocks
        self.counts = counts
        self._config = config
        self._leading = leading
        self._prepare = prepare
        self._shrinking = shrinking
        self._observed = observed
        self._announcer = Announcer()
        providers, seconds = {provider.name: provider for provider in senses.providers}, config.call_seconds
        self._actor = Actor(providers, fleet, clock=clocks.clock, leading=leading, timeout_seconds=seconds)
        self._sensor = Sensor(senses, fleet, self._actor, clocks=clocks, timeout_seconds=seconds)
        self._woken = anyio.Event()
        self._seen_stuck = self._seen_ready = 0
        #: The last loop that came to its end, None before the first.
        self.last: LoopRecord | None = None
        self._loops = 0
        self._failures_in_a_row = 0
        #: When pods that were passed over for their age begin to count.
        self._again_at: UnixTime | None = None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            if self._leading():
                await self._one_loop()
            await self._until_due()

    def look(self) -> None:
        """To be called after whatever happened in the world: a loop may be due earlier. Costs two comparisons."""
        stuck, ready = self._world.pods.became_stuck, self._world.nodes.became_ready
        if stuck != self._seen_stuck or (ready != self._seen_ready and self.fleet.queued):
            self._seen_stuck, self._seen_ready = stuck, ready
            self._woken.set()

    async def _one_loop(self) -> None:
        try:
            record = await self.run_once()
        except Exception:  # whatever went wrong: the cluster needs the next loop
            self.counts.failed()
            self._failures_in_a_row += 1
            _log.exception("autoscaler loop failed", in_a_row=self._failures_in_a_row)
            return
        self._failures_in_a_row = 0
        self.counts.ended(record)
        _tell(record)
        await self._write_status(record)

    async def _until_due(self) -> None:
        """After a failure nothing wakes us before the time."""
        if self._failures_in_a_row:
            await anyio.sleep(self._config.interval_seconds * min(2**self._failures_in_a_row, _LONGEST_BACKOFF))
            return
        with anyio.move_on_after(self._pause()):
            await self._woken.wait()
            await self._settled()

    def _pause(self) -> float:
        interval = self._config.interval_seconds
        if self._again_at is None:
            return interval
        return min(interval, max(self._again_at - self._clocks.steady(), self._config.settle_seconds))

    async def _settled(self) -> None:
        """A burst is planned for as a whole."""
        with anyio.move_on_after(self._config.longest_settle_seconds):
            quiet = False
            while not quiet:
                self._woken = anyio.Event()
                with anyio.move_on_after(self._config.settle_seconds) as scope:
                    await self._woken.wait()
                quiet = scope.cancelled_caught

    # --- one loop ---------------------------------------------------------------------------------------------------------

    async def run_once(self) -> LoopRecord:
        """One loop, whoever leads. Raises what went wrong, but for what providers answer."""
        self._loops += 1
        self._seen_stuck, self._seen_ready = self._world.pods.became_stuck, self._world.nodes.became_ready
        self._woken = anyio.Event()
        turn = _Turn(number=self._loops, at=self._clocks.wall(), watch=Watch(self._clocks.clock))
        self.counts.begun(turn.at)
        marks = [self._clocks.clock()]
        inquiry = await self._sense(turn)
        marks.append(self._clocks.clock())
        plans = await self._plan(inquiry, turn.watch)
        self._again_at = plans.scale_up.again_at
        marks.append(self._clocks.clock())
        turn.events_left_out = await self._grow(plans.scale_up, turn.done, turn.watch)
        given_up = self._give_up(plans, turn.watch)
        marks.append(self._clocks.clock())
        shrink = await self._plan_shrinking(turn)
        marks.append(self._clocks.clock())
        turn.shrink = self._shrink(shrink, given_up, turn.watch)
        marks.append(self._clocks.clock())
        self.last = turn.record(self.fleet, inquiry.changes.generation, plans, marks)
        return self.last

    async def _sense(self, turn: "_Turn") -> Inquiry:
        """One snapshot for every plan."""
        turn.silent = await self._sensor.look(turn.done, turn.watch)
        turn.notes = await self._prepare()
        changes = await self._sensor.collect(turn.watch)
        census, now = dict(self.fleet.census), self._clocks.clock()
        return Inquiry(
            changes=changes,
            rules=self._rules(),
            census=census,
            barred={name: why for name, each in census.items() if (why := each.closed(now)) is not None},
            daemons=self._sensor.daemons,
            askers=self._sensor.askers,
            observed=self._observed(),
            now=self._clocks.steady(),
            shrink=None if self._shrinking is None else self._shrinking.sense(census, self._sensor.replicas),
        )

    async def _plan(self, inquiry: Inquiry, watch: Watch) -> Plans:
        try:
            return await self._planning.plan(inquiry, watch)
        except Exception:
            self._begin_again()
            raise

    async def _plan_shrinking(self, turn: "_Turn") -> ShrinkPlan | None:
        """A failure must not delay the growth of the next loops, as that of a whole loop would."""
        if self._shrinking is None:
            return None
        try:
            return await self._planning.shrink(turn.watch)
        except Exception as error:
            _log.exception("planning of removals failed")
            self.counts.errors["internalError"] += 1
            self._begin_again()
            turn.notes = (*turn.notes, f"removals were not planned: {type(error).__name__}")
            return None

    def _begin_again(self) -> None:
        self._planning.forget()
        self._sensor.begin_again()

    def _give_up(self, plans: Plans, watch: Watch) -> tuple[NodeName, ...]:
        if self._shrinking is None:
            return ()
        with watch:
            return self._shrinking.give_up(plans.given_up)

    def _shrink(self, plan: ShrinkPlan | None, given_up: tuple[NodeName, ...], watch: Watch) -> ShrinkRecord | None:
        if plan is None or self._shrinking is None:
            return None
        with watch:
            healthy = is_healthy(self.fleet.census.values())
            return self._shrinking.act(plan, self.fleet.census, healthy=healthy, given_up=given_up)

    async def _grow(self, plan: GrowthAnswer, done: Done, watch: Watch) -> int:
        """Asks for what may be asked for; how many Events were left out."""
        with watch:
            growths = [waiting for growth in plan.growths if (waiting := self._still_wanted(growth)).count]
            granted = self.fleet.grant([wish for growth in growths for wish in _wishes(growth)], self._clocks.clock())
        await self._actor.grow(granted.growths, done)
        by_group = {growth.group: growth for growth in growths}
        told = [
            (by_group[call.group], call, self.fleet.census[call.group].group.max_size)
            for call, problem in done.asked
            if problem is None and not call.again and call.group in by_group
        ]
        with watch:
            words = (*triggered(told), *stuck(self.fleet.census.values(), self._config.status_object))
            chosen, left_out = self._announcer.select(words, self._clocks.clock())
            self._submit((*chosen, *plan.refused))
        return left_out + plan.left_out

    def _still_wanted(self, growth: Growth) -> Growth:
        """The world went on while the plan was made: nodes whose pods have all found a place are not asked for."""
        nodes = tuple(pods for pods in growth.nodes if self._is_wanted(pods))
        return growth if len(nodes) == growth.count else Growth(group=growth.group, nodes=nodes)

    def _is_wanted(self, pods: Sequence[Pod]) -> bool:
        """Nodes for a group's minimum, and for placeholders alone, have no pods that could find a place elsewhere.

        Mostly the first pod decides: looking through all of tens of thousands would take the serving loop milliseconds.
        """
        served = False
        for pod in pods:
            if not is_placeholder(pod):
                if self._waits(pod):
                    return True
                served = True
        return not served

    def _waits(self, pod: Pod) -> bool:
        now = self._world.pods.known(pod.uid)
        return now is not None and now.node is None and not now.ended and self._world.claims.get(pod.uid) is None


@dataclass(slots=True, kw_only=True)
class _Turn:
    """What one loop comes to, piece by piece."""

    number: int
    at: UnixTime
    watch: Watch
    done: Done = field(default_factory=Done)
    silent: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    events_left_out: int = 0
    shrink: ShrinkRecord | None = None

    def record(self, fleet: Fleet, generation: Generation, plans: Plans, marks: Sequence[Instant]) -> LoopRecord:
        """`marks`: when it began, had sensed, had planned growth, had acted on it, had planned removals, and was done."""
        sense, grown, growing, shrunk, shrinking = (after - before for before, after in pairwise(marks))
        planned, act = grown + shrunk, growing + shrinking
        watch, done, plan = self.watch, self.done, plans.scale_up
        return LoopRecord(
            number=self.number,
            at=self.at,
            instant=marks[-1],
            generation=generation,
            census=dict(fleet.census),
            pending=plan.pending,
            planned={growth.group: growth.count for growth in plan.growths},
            asked=tuple(done.asked),
            queued=fleet.queued,
            deleted=done.deleted,
            lowered=done.lowered,
            failed=done.failed,
            silent=tuple(sorted(self.silent)),
            problems=(*self.silent.values(), *done.problems),
            notes=(
                *self.notes,
                *(stuck_note(census) for census in fleet.census.values() if census.stuck),
                *plans.notes,
                *plan.notes,
                *(slack_problems(plans.slack) if plans.slack else ()),
            ),
            events_left_out=self.events_left_out,
            spent=Spent(sense=sense, plan=planned, act=act, serving=watch.total, longest=watch.longest),
            shrink=self.shrink,
            slack=plans.slack,
        )


def _wishes(growth: Growth) -> list[Wish]:
    """The plan puts the most important nodes first, and on each its most important pod."""
    priorities = (pods[0].priority if pods else 0 for pods in growth.nodes)
    return [Wish(group=growth.group, nodes=len(list(run)), priority=priority) for priority, run in groupby(priorities)]


def _tell(record: LoopRecord) -> None:
    """The one line."""
    pending = record.pending
    asked = {call.group: f"{call.seen}->{call.to}" if problem is None else str(problem) for call, problem in record.asked}
    _log.info(
        "autoscaler loop",
        generation=record.generation,
        seconds=round(record.spent.whole, 3),
        planning=round(record.spent.plan, 3),
        pending=pending.total,
        schedulable=pending.schedulable,
        unhelpable=pending.unhelpable,
        not_looked_at=pending.not_looked_at,
        planned=dict(record.planned),
        asked=asked,
        in_creation=record.in_creation,
        queued=sum(queued.nodes for queued in record.queued),
        deleted=dict(record.deleted),
        problems=list(record.problems),
        **({} if record.shrink is None else _told(record.shrink)),
        **({} if record.slack is None else _told_slack(record.slack)),
    )


def _told(shrink: ShrinkRecord) -> dict[str, object]:
    return {
        "scale_down": shrink.status,
        "unneeded": dict(shrink.unneeded),
        "begun": list(shrink.begun),
        "given_up": list(shrink.given_up),
        "ended": {end.order.node: str(end.hindrance or end.outcome) for end in shrink.ended},
        "under_way": shrink.under_way[0],
        "homeless": shrink.homeless,
    }


def _told_slack(slack: SlackPlan) -> dict[str, object]:
    placeholders = slack.state.placeholders
    return {
        "slack": len(placeholders),
        "slack_placed": sum(each.place is not None for each in placeholders),
        "slack_coming": len(slack.coming),
        "slack_pushed": len(slack.pushed),
        "nodes_for_slack": slack.alone,
    }
