"""The autoscaler's loop: observe, plan, act.

    observe  list the node groups from the providers, and clean up lost instances
    plan     in the planning process, on its replica of the cluster; all plans use the same snapshot
    act      request from the providers the part of the plan that the limits allow; send Events; write the status

Scale-up is planned and acted on before scale-down, which may take far longer to plan.

A loop begins every `interval_seconds`. It begins earlier if pods have become unschedulable or nodes ready, and when pods that
were too young to be planned for are old enough. Each loop writes one log line and one record. It needs no state of an earlier
process. After a failed loop the pause is longer.
"""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Final, TypeVar

import anyio
import structlog

from slackwater.cluster.nodegroups.registry import NodeGroupRegistry
from slackwater.cluster.nodegroups.status import GroupCleanup, Grow, ScaleUpInfo
from slackwater.controllers.consolidation.loop import ConsolidationLoop
from slackwater.controllers.consolidation.outcome import ConsolidationPlan
from slackwater.controllers.loop_plans import Inquiry, Plans, ScaleUpRules
from slackwater.controllers.scaledown.loop import ScaleDownLoop
from slackwater.controllers.scaledown.replica_plan import ScaleDownProposal
from slackwater.controllers.scaleup.outcome import PlanFailure, ScaleUp
from slackwater.controllers.scaleup.plan_events import Announcer, stuck, stuck_note, triggered
from slackwater.controllers.slack.report import slack_problems
from slackwater.model.authority import Capability, Withholds, withhold_nothing
from slackwater.model.auxiliary import AuxiliaryObjects
from slackwater.model.changes import Changes
from slackwater.model.effects import Effect
from slackwater.model.events import ComingNodes, NodesPlanned
from slackwater.model.exponential_backoff import ExponentialBackoff
from slackwater.model.ids import Generation, Instant, NodeName, PodKey, UnixTime
from slackwater.model.objects import Pod
from slackwater.model.placeholders import NO_HEADROOM_REQUESTS, is_placeholder
from slackwater.model.start_time_slo import Observed
from slackwater.ports.clock import Clocks, Watch
from slackwater.ports.protocols import GroupReader
from slackwater.runtime.autoscaler.group_observations import GroupObserver
from slackwater.runtime.autoscaler.loop_record import LoopCounts, LoopDurations, LoopRecord, NeededBy, is_healthy
from slackwater.runtime.autoscaler.provider_calls import Actor
from slackwater.runtime.autoscaler.status_document import log_loop
from slackwater.runtime.planner.messages import LoopPlanner
from slackwater.runtime.state_machine import StateMachine

_log = structlog.get_logger(__name__)

_STATUS_OBJECT: Final = PodKey("kube-system", "slackwater-autoscaler-status")
#: The longest pause after consecutive failures, as a multiple of the interval.
_LONGEST_BACKOFF: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """Settings of the loop.

    A loop that becomes due early begins once pods and nodes have been quiet for `settle_seconds`, but after at most
    `longest_settle_seconds`. `whole_bursts`: every loop waits so, while pods come, and not while the schedulers `bypassed`
    refuse them, whose pods count without that. `call_seconds` bounds one provider call. Kubernetes Events that concern no pod
    or node are written about `status_object`.
    """

    interval_seconds: float = 10.0
    settle_seconds: float = 1.0
    longest_settle_seconds: float = 5.0
    whole_bursts: bool = False
    bypassed: tuple[str, ...] = ()
    call_seconds: float = 30.0
    status_object: PodKey = _STATUS_OBJECT


_Call = TypeVar("_Call", bound=Grow | GroupCleanup)

#: Writes the status object. Does not raise errors of the API server.
StatusWriter = Callable[[LoopRecord], Awaitable[None]]


async def _nothing() -> Sequence[str]:
    return ()


class Autoscaler:
    """Runs the autoscaler's loop until cancelled. `last` is the record of the last completed loop."""

    def __init__(
        self,
        state_machine: StateMachine,
        providers: Sequence[GroupReader],
        *,
        actor: Actor | None,
        group_registry: NodeGroupRegistry,
        planning: LoopPlanner,
        rules: Callable[[], ScaleUpRules],
        submit: Callable[[Iterable[Effect]], None],
        write_status: StatusWriter,
        clocks: Clocks,
        counts: LoopCounts,
        config: LoopConfig,
        scale_down_loop: ScaleDownLoop,
        consolidation_loop: ConsolidationLoop,
        leading: Callable[[], bool] = lambda: True,
        prepare: Callable[[], Awaitable[Sequence[str]]] = _nothing,
        observed: Callable[[], tuple[Observed, ...]] = tuple,
        withholds: Withholds = withhold_nothing,
    ) -> None:
        """Creates the loop; `run` runs it. `rules` is called once per loop, `leading` before each change. `actor` makes the
        calls to providers that `withholds` does not withhold; None if it withholds all. `prepare` runs before each plan and
        returns notes for the status. `observed` returns the observations of pod classes with a start-time SLO.
        """
        self._state_machine = state_machine
        self.group_registry = group_registry
        self._planning = planning
        self._rules = rules
        self._submit = submit
        self._write_status = write_status
        self._clocks = clocks
        self.counts = counts
        self._config = config
        self._leading = leading
        self._prepare = prepare
        self._scale_down_loop = scale_down_loop
        self._consolidation_loop = consolidation_loop
        self._observed = observed
        self._announcer = Announcer()
        self._actor, self._withholds, seconds = actor, withholds, config.call_seconds
        self._sensor = GroupObserver(state_machine, providers, group_registry, clocks=clocks, timeout_seconds=seconds)
        self._woken = anyio.Event()
        self._seen_stuck = self._seen_ready = 0
        #: How much has come that one plan should serve together, and when the last of it came.
        self._seen_coming, self._came_at = 0, -math.inf
        #: That number at the last plan.
        self._planned_coming = 0
        #: The record of the last completed loop; None before the first.
        self.last: LoopRecord | None = None
        #: Whether the last plan expects new nodes.
        self._expecting = False
        #: As of when the last plan was made.
        self._inquired_at = Instant(0.0)
        self._loops = 0
        self._logged: set[tuple[str, str]] = set()
        self._failures_in_a_row = 0
        #: When pods that were too young for the last plan are old enough; None if there are none.
        self._again_at: UnixTime | None = None

    async def run(self) -> None:
        """Runs loops until cancelled. Runs none while this replica is not the leader."""
        planned = False
        while True:
            if self._leading():
                planned = True
                await self._one_loop()
            elif planned:  # while a plan may still be carried out, what it refers to is kept
                planned = False
                self._planning.forget()
            await self._until_due()

    def after_event(self) -> None:
        """Makes the next loop due earlier if pods became unschedulable, or if nodes became ready while scale-ups wait for a
        limit. Cheap; to be called after each event of the state machine."""
        ready, stuck = self._state_machine.state.nodes.became_ready, self._state_machine.state.pods.became_stuck.total()
        served, coming = ready != self._seen_ready and bool(self.group_registry.queued), self._coming()
        if served or coming != self._seen_coming:
            self._seen_coming, self._came_at = coming, self._clocks.clock()
        if served or (stuck != self._seen_stuck and coming != self._planned_coming):
            self._seen_stuck, self._seen_ready = stuck, ready
            self._woken.set()

    def _coming(self) -> int:
        """Counts what one plan should serve together: refusals, or with `whole_bursts` also pods that came, which count without
        a refusal by the schedulers `bypassed`."""
        pods, config = self._state_machine.state.pods, self._config
        bypassed = sum(pods.became_stuck[name] for name in config.bypassed) if config.whole_bursts else 0
        return pods.became_stuck.total() - bypassed + config.whole_bursts * pods.came

    async def _one_loop(self) -> None:
        try:
            record = await self.run_once()
        except Exception:  # after any error the loop must continue
            self.counts.failed()
            self._failures_in_a_row += 1
            _log.exception("autoscaler loop failed", in_a_row=self._failures_in_a_row)
            return
        self._failures_in_a_row = 0
        self.counts.ended(record)
        log_loop(record)
        await self._write_status(record)

    async def _until_due(self) -> None:
        """Waits until the next loop is due. After a failure no event shortens the pause."""
        if self._failures_in_a_row:
            interval = self._config.interval_seconds
            backoff = ExponentialBackoff(first_seconds=2 * interval, longest_seconds=_LONGEST_BACKOFF * interval)
            await anyio.sleep(backoff.seconds(self._failures_in_a_row))
            return
        with anyio.move_on_after(self._pause()):
            await self._woken.wait()
            if not self._config.whole_bursts:
                await self._settled()
        if self._config.whole_bursts:
            await self._settled()

    def _pause(self) -> float:
        interval = self._config.interval_seconds
        if self._again_at is None:
            return interval
        return min(interval, max(self._again_at - self._clocks.steady(), self._config.settle_seconds))

    async def _settled(self) -> None:
        """Waits until nothing new has come for `settle_seconds`, so that one plan serves a burst of pods."""
        with anyio.move_on_after(self._config.longest_settle_seconds):
            left = 1.0
            while left > 0:
                left = self._came_at + self._config.settle_seconds - self._clocks.clock()
                await anyio.sleep(max(left, 0))

    # --- one loop ---------------------------------------------------------------------------------------------------------

    async def run_once(self) -> LoopRecord:
        """Runs one loop and returns its record, without asking `leading` first. Raises all errors except those of providers."""
        self._loops += 1
        state = self._state_machine.state
        self._seen_stuck, self._seen_ready = state.pods.became_stuck.total(), state.nodes.became_ready
        self._planned_coming = self._coming()
        self._woken = anyio.Event()
        record = LoopRecord(number=self._loops, at=self._clocks.wall(), generation=Generation(0))
        watch = Watch(self._clocks.clock)
        self.counts.begun(record.at)
        marks = [self._clocks.clock()]
        silent = await self._observe(record, watch)
        notes = await self._prepare()
        marks.append(self._clocks.clock())
        plans = await self._plan(record, watch)
        self._again_at = plans.again_at
        self._log_failures(plans.failures)
        marks.append(self._clocks.clock())
        record.events_left_out = await self._grow(plans, record, watch)
        with watch:
            given_up = self._scale_down_loop.give_up(plans.given_up)
        marks.append(self._clocks.clock())
        proposal, failed = await self._plan_scale_down(watch)
        consolidation = await self._planning.consolidation(watch)
        if isinstance(consolidation, PlanFailure):
            plans, consolidation = replace(plans, failures=(*plans.failures, consolidation)), None
            self._log_failures(plans.failures)
        elif plans.scale_ups or any(each.upcoming for each in self.group_registry.group_status.values()):
            consolidation = None  # pods have come since it was begun, and their needs come first
        marks.append(self._clocks.clock())
        if proposal is not None:
            with watch:
                self._shrink(proposal, consolidation, record, given_up)
        marks.append(self._clocks.clock())
        record.problems[:0] = silent.values()
        record.notes = (*notes, *failed)
        self._complete(record, plans, marks, watch)
        self.last = record
        return record

    def _shrink(
        self,
        proposal: ScaleDownProposal,
        plan: ConsolidationPlan | None,
        record: LoopRecord,
        given_up: tuple[NodeName, ...],
    ) -> None:
        """Begins removals and moves as planned. `given_up`: nodes whose removal was given up in this loop."""
        groups = self.group_registry.group_status
        healthy = is_healthy(groups.values())
        record.scale_down = self._scale_down_loop.act(proposal, groups, healthy=healthy, given_up=given_up)
        disruptions = {} if plan is None else self._scale_down_loop.disruptions(groups)
        removing = self._state_machine.drains.nodes.keys()
        record.consolidation = self._consolidation_loop.act(
            plan, groups, healthy=healthy, disruptions=disruptions, removing=removing
        )

    async def _observe(self, record: LoopRecord, watch: Watch) -> Mapping[str, str]:
        """Observes the groups. If instances are lost, has the providers delete them, and observes the groups again. Returns the
        errors of providers that did not answer, by the provider's name."""
        silent = await self._sensor.observe(watch)
        due_cleanups = self._allowed("scale-up", self.group_registry.due_cleanups(self._clocks.clock()), record)
        if due_cleanups and self._actor is not None:
            await self._actor.clean(due_cleanups, record)
            silent = {**silent, **await self._sensor.observe(watch)}
        return silent

    def _allowed(self, capability: Capability, calls: Iterable[_Call], record: LoopRecord) -> list[_Call]:
        """The calls to make now. The others are noted as withheld."""
        calls = list(calls)
        record.withheld += (call for call in calls if self._withholds(capability, call.group) is not None)
        return [call for call in calls if self._withholds(capability, call.group) is None]

    async def _plan(self, record: LoopRecord, watch: Watch) -> Plans:
        inquiry: Inquiry | None = None

        def make(changes: Changes, auxiliary: AuxiliaryObjects) -> Inquiry:
            # A restarted planning process gets the same inquiry, with `changes` that contain the whole cluster.
            nonlocal inquiry
            inquiry = self._inquiry(changes, auxiliary) if inquiry is None else replace(inquiry, changes=changes)
            record.generation = changes.generation
            return inquiry

        try:
            return await self._planning.plan(make, watch)
        except Exception:
            self._planning.forget()
            raise

    def _inquiry(self, changes: Changes, auxiliary: AuxiliaryObjects) -> Inquiry:
        """The inquiry for all plans of this loop."""
        group_status = dict(self.group_registry.group_status)
        self._inquired_at = now = self._clocks.clock()
        rules, shrinking = self._rules(), self._scale_down_loop
        replacing = self._consolidation_loop.sense(group_status, shrinking.state)
        scale_down = shrinking.sense(group_status, auxiliary.replicas or {}, replacing)
        return Inquiry(
            changes=changes,
            rules=rules,
            group_status=group_status,
            barred={name: why for name, each in group_status.items() if (why := each.closed(now)) is not None},
            daemons=auxiliary.daemons or (),
            headroom_requests=auxiliary.headroom_requests or NO_HEADROOM_REQUESTS,
            observed=self._observed(),
            places=self._state_machine.state.planned_nodes.places() if self._expecting else {},
            believed=self._state_machine.disagreements.believed() if rules.policy.believe_scheduler else frozenset(),
            now=self._clocks.steady(),
            scale_down=scale_down,
            consolidation=None
            if self._planning.consolidates
            else self._consolidation_loop.inquiry(None if scale_down is None else scale_down.state),
        )

    def _log_failures(self, failures: Sequence[PlanFailure]) -> None:
        """Logs what was left out of the plan, once for as long as it is left out."""
        for failure in failures:
            if (failure.about, failure.error) not in self._logged:
                _log.error("left out of the plan", object=failure.about, traceback=failure.trace)
        self._logged = {(failure.about, failure.error) for failure in failures}

    async def _plan_scale_down(self, watch: Watch) -> tuple[ScaleDownProposal | None, tuple[str, ...]]:
        """The scale-down plan (None if there is none), and notes. An error of planning does not end the loop, because a failed
        loop would delay the next scale-up."""
        try:
            return await self._planning.scale_down(watch), ()
        except Exception as error:
            _log.exception("planning of removals failed")
            self.counts.errors["internalError"] += 1
            self._planning.forget()
            return None, (f"removals were not planned: {type(error).__name__}",)

    async def _grow(self, plan: Plans, record: LoopRecord, watch: Watch) -> int:
        """Requests the scale-ups that the limits allow, and sends Events. Returns how many Events were left out."""
        with watch:
            self._expect(plan.coming)
            wanted = (self._without_slack(self._still_wanted(scale_up), record) for scale_up in plan.scale_ups)
            scale_ups = [scale_up for scale_up in wanted if scale_up.count]
            infos = [info for scale_up in scale_ups for info in _scale_up_infos(scale_up)]
            # One call for a group must not be for pods and for replacements: nobody could tell which of them it grants.
            replacements = [] if infos else self._consolidation_loop.wanted()
            found = self.group_registry.grant([*infos, *replacements], self._clocks.clock())
            granted = self._allowed("scale-up", found, record)
        if self._actor is not None:
            await self._actor.grow(granted, record)
        by_group = {scale_up.group: scale_up for scale_up in scale_ups}
        groups = self.group_registry.group_status
        grown = [
            (by_group[call.group], call, groups[call.group].group.max_size)
            for call, problem in record.asked
            if problem is None and not call.again and call.group in by_group
        ]
        with watch:
            if replacements:
                # A call without an answer is made again by the registry.
                calls = [call for call, problem in record.asked if problem is None or problem.kind == "unknown"]
                self._consolidation_loop.requested(call for call in calls if not call.again)
            self._state_machine.disagreements.bought(
                pod.uid for scale_up, call, _ in grown for pods in scale_up.nodes[: call.nodes] for pod in pods
            )
            events = (*triggered(grown), *stuck(groups.values(), self._config.status_object))
            chosen, left_out = self._announcer.select(events, self._clocks.clock())
            self._submit((*chosen, *plan.refused))
        return left_out + plan.left_out

    def _expect(self, coming: tuple[ComingNodes, ...]) -> None:
        if self._actor is not None and (coming or self._expecting):  # a shadow's nodes do not come
            self._expecting = bool(coming)
            self._submit(self._state_machine.apply(NodesPlanned(coming, self._inquired_at), self._clocks.clock()))

    def _complete(self, record: LoopRecord, plans: Plans, marks: Sequence[Instant], watch: Watch) -> None:
        """Adds to the record what is known at the loop's end. `marks`: the begin of the loop, then the end of each of its five
        phases (observe, plan scale-up, act on it, plan scale-down, act on it)."""
        sense, grown, growing, shrunk, shrinking = (after - before for before, after in pairwise(marks))
        record.instant = marks[-1]
        record.group_status = dict(self.group_registry.group_status)
        record.pending, record.failures, record.slack = plans.pending, plans.failures, plans.slack
        record.planned = {scale_up.group: scale_up.count for scale_up in plans.scale_ups}
        record.needed_by = {scale_up.group: NeededBy.of(scale_up) for scale_up in plans.scale_ups}
        record.costs = plans.costs
        record.queued = self.group_registry.queued
        record.notes += (
            *(stuck_note(group_status) for group_status in record.group_status.values() if group_status.stuck),
            *plans.notes,
            *(f"{failure.about} left out of the plan: {failure.error}" for failure in plans.failures),
            *(slack_problems(plans.slack) if plans.slack else ()),
        )
        record.spent = LoopDurations(
            sense=sense, plan=grown + shrunk, act=growing + shrinking, serving=watch.total, longest=watch.longest
        )

    def _without_slack(self, scale_up: ScaleUp, record: LoopRecord) -> ScaleUp:
        """The scale-up without nodes that only placeholders need, if slack alone is withheld; notes these as withheld."""
        group = self.group_registry.group_status[scale_up.group].group
        if self._withholds("slack", group.name) is None or self._withholds("scale-up", group.name) is not None:
            return scale_up
        nodes = tuple(pods for pods in scale_up.nodes if not pods or not all(map(is_placeholder, pods)))
        if (spare := scale_up.count - len(nodes)) and "scale-up" not in self._state_machine.paused:
            to = group.target + spare
            record.withheld.append(Grow(group=group.name, provider=group.provider, seen=group.target, to=to))
        return ScaleUp(group=scale_up.group, nodes=nodes)

    def _still_wanted(self, scale_up: ScaleUp) -> ScaleUp:
        """The scale-up without the nodes whose pods were all placed while the plan was made. It has no nodes if scale-up is
        paused."""
        paused = "scale-up" in self._state_machine.paused
        nodes = () if paused else tuple(pods for pods in scale_up.nodes if self._is_wanted(pods))
        return scale_up if len(nodes) == scale_up.count else ScaleUp(group=scale_up.group, nodes=nodes)

    def _is_wanted(self, pods: Sequence[Pod]) -> bool:
        """Is a planned node with these pods still wanted? Yes if one of the real pods still waits, or if there are none (nodes
        for a group's minimum, or for placeholders).

        Stops at the first pod that waits, because checking tens of thousands would block the event loop for milliseconds.
        """
        served = False
        for pod in pods:
            if not is_placeholder(pod):
                if self._waits(pod):
                    return True
                served = True
        return not served

    def _waits(self, pod: Pod) -> bool:
        state = self._state_machine.state
        now = state.pods.known(pod.uid)
        return now is not None and now.pending and state.reservations.get(pod.uid) is None


def _scale_up_infos(scale_up: ScaleUp) -> list[ScaleUpInfo]:
    """Splits the scale-up into one entry for each run of consecutive nodes of equal priority. A node's priority is that of its
    first pod, which is the highest of its pods; 0 without pods."""
    priorities = (pods[0].priority if pods else 0 for pods in scale_up.nodes)
    return [ScaleUpInfo(group=scale_up.group, nodes=len(list(run)), priority=priority) for priority, run in groupby(priorities)]
