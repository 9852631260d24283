"""When the autoscaler's loop runs: by the clock, earlier when pods are stuck, later after a failure, never as a standby."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest
from msgspec import structs

from slackwater.cluster.nodegroups.status import ScaleUpInfo
from slackwater.controllers.loop_plans import ScaleUpRules
from slackwater.model.events import NodeSeen, PodGone, PodSeen
from slackwater.model.ids import Instant, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.ports.clock import Clocks, Watch
from slackwater.runtime.autoscaler.cycle import Autoscaler, LoopConfig
from slackwater.runtime.autoscaler.loop_record import LoopCounts, LoopRecord
from slackwater.runtime.planner.replica_feed import ReplicaFeed
from tests.faults.virtualloop import virtual_time
from tests.support.builders import a_node, a_pod
from tests.support.planners import InlinePlanning, a_feed
from tests.support.scaling import Scenario, an_actor, switched_off
from tests.support.waiting import until

pytestmark = pytest.mark.anyio
__all__ = ["virtual_time"]  # a fixture

SOON, NEVER = 0.01, 3600.0


@dataclass
class Running:
    """An autoscaler that runs; `until` waits for the number of loops that came to their end."""

    scenario: Scenario
    autoscaler: Autoscaler
    feed: ReplicaFeed
    records: list[LoopRecord] = field(default_factory=list)
    _more: anyio.Event = field(default_factory=anyio.Event)

    async def note(self, record: LoopRecord) -> None:
        self.records.append(record)
        self._more.set()
        self._more = anyio.Event()

    async def until(self, loops: int) -> None:
        with anyio.fail_after(60):
            while len(self.records) < loops:
                await self._more.wait()

    def take(self, event: PodSeen | NodeSeen) -> None:
        self.scenario.state_machine.apply(event, Instant(0.0))
        self.autoscaler.after_event()


@asynccontextmanager
async def running(
    *, interval: float, leading: Callable[[], bool] = lambda: True, config: LoopConfig | None = None, **more: Any
) -> AsyncIterator[Running]:
    scenario = Scenario()
    scenario.cloud.has("a")
    feed = a_feed(scenario.state_machine)

    async def note(record: LoopRecord) -> None:
        await found.note(record)

    autoscaler = Autoscaler(
        scenario.state_machine,
        scenario.providers(),
        actor=an_actor(scenario.providers(), scenario.group_registry, lambda: Instant(anyio.current_time()), leading),
        group_registry=scenario.group_registry,
        planning=InlinePlanning(feed),
        rules=lambda: ScaleUpRules(policy=scenario.policy),
        submit=scenario.effects.extend,
        write_status=note,
        clocks=Clocks(clock=lambda: Instant(anyio.current_time()), wall=lambda: UnixTime(2e9), steady=lambda: UnixTime(2e9)),
        counts=LoopCounts(),
        config=config or LoopConfig(interval_seconds=interval, settle_seconds=SOON, longest_settle_seconds=10 * SOON),
        scale_down_loop=switched_off(scenario.state_machine, scenario.group_registry),
        consolidation_loop=scenario.consolidation_loop(),
        leading=leading,
        **more,
    )
    found = Running(scenario, autoscaler, feed)
    async with anyio.create_task_group() as group:
        group.start_soon(autoscaler.run)
        yield found
        group.cancel_scope.cancel()


async def test_it_runs_at_once_and_then_by_the_clock() -> None:
    async with running(interval=SOON) as found:
        await found.until(3)
    assert [record.number for record in found.records[:3]] == [1, 2, 3]


async def test_a_pod_that_fits_nowhere_is_not_kept_waiting_for_the_clock() -> None:
    async with running(interval=NEVER) as found:
        await found.until(1)
        found.take(PodSeen(a_pod("quiet")))
        found.take(PodSeen(a_pod("stuck", message="0/0 nodes are available")))
        await found.until(2)
    assert len(found.records) == 2


WHOLE = LoopConfig(
    interval_seconds=NEVER,
    settle_seconds=SOON,
    longest_settle_seconds=10 * SOON,
    whole_bursts=True,
    bypassed=("slackwater",),
)


async def test_a_burst_is_planned_once_it_is_whole() -> None:
    """The loop waits while pods come, tried or not; refusals of pods that have come neither delay it nor make a further one."""
    async with running(interval=NEVER, config=WHOLE) as found:
        await found.until(1)
        for number in range(6):
            found.take(PodSeen(a_pod(f"p{number}", message=None if number else "0/0 nodes are available")))
            await anyio.sleep(SOON / 2)
        assert len(found.records) == 1
        for number in range(1, 6):
            found.take(PodSeen(a_pod(f"p{number}", message="0/0 nodes are available")))
            await anyio.sleep(SOON / 5)
        assert len(found.records) == 2
        await anyio.sleep(20 * SOON)
        assert len(found.records) == 2


async def test_a_burst_that_does_not_end_is_planned_in_parts() -> None:
    async with running(interval=NEVER, config=WHOLE) as found:
        await found.until(1)
        for number in range(22):
            found.take(PodSeen(a_pod(f"p{number}", message="0/0 nodes are available")))
            await anyio.sleep(SOON / 2)
        assert len(found.records) == 2


async def test_refusals_of_another_scheduler_are_part_of_a_burst() -> None:
    async with running(interval=NEVER, config=replace(WHOLE, bypassed=())) as found:
        await found.until(1)
        for number in range(6):
            found.take(PodSeen(a_pod(f"p{number}")))
        for number in range(6):
            found.take(PodSeen(a_pod(f"p{number}", message="0/0 nodes are available")))
            await anyio.sleep(SOON / 2)
        assert len(found.records) == 1
        await found.until(2)


async def test_the_clock_does_not_cut_a_burst() -> None:
    async with running(interval=NEVER, config=replace(WHOLE, interval_seconds=2 * SOON)) as found:
        await found.until(1)
        for number in range(6):
            found.take(PodSeen(a_pod(f"p{number}")))
            await anyio.sleep(SOON / 2)
        assert len(found.records) == 1
        await found.until(2)


async def test_a_pod_that_was_too_young_is_not_kept_waiting_for_the_clock_either() -> None:
    """It counts two seconds after it was made; the wall clock of this test is half a second before that."""
    stuck = a_pod("young", message="0/0 nodes are available")
    young = structs.replace(stuck, created_at=datetime.fromtimestamp(2e9 - 1.5, UTC).isoformat())
    async with running(interval=NEVER) as found:
        await found.until(1)
        found.take(PodSeen(young))
        await found.until(3)
    assert [record.pending.passed_over for record in found.records[:3]] == [0, 1, 1]


async def test_a_node_that_gets_ready_starts_a_loop_only_where_requests_are_queued() -> None:
    async with running(interval=NEVER) as found:
        await found.until(1)
        found.take(NodeSeen(a_node("n1")))
        assert found.autoscaler.last is found.records[-1]
        found.scenario.group_registry.queued = (ScaleUpInfo(group=GroupName("a"), nodes=1, priority=0, waits_for="x"),)
        found.take(NodeSeen(a_node("n2")))
        await found.until(2)
    assert len(found.records) == 2


async def test_a_loop_that_fails_is_counted_and_followed_by_another() -> None:
    failures = iter([RuntimeError("first"), RuntimeError("second")])

    async def prepare() -> Sequence[str]:
        error = next(failures, None)
        if error is not None:
            raise error
        return ("fine at last",)

    async with running(interval=SOON, prepare=prepare) as found:
        await found.until(1)
    assert found.autoscaler.counts.failed_loops == 2
    assert found.records[0].notes == ("fine at last",)


async def test_who_no_longer_leads_keeps_no_old_pods_for_the_last_plan() -> None:
    """Its planning process goes on to answer questions, with changes of pods."""
    leads, asked = [True], list[bool]()

    def leading() -> bool:
        asked.append(leads[0])
        return leads[0]

    async with running(interval=SOON, leading=leading) as found:
        await found.until(1)
        leads[0] = False
        await until(lambda: asked[-2:] == [False, False])
        feed, machine = found.feed, found.scenario.state_machine
        for number in range(3):
            pod = a_pod(f"p-{number}")
            machine.apply(PodSeen(pod), Instant(0.0))
            await feed.collect(Watch(lambda: Instant(0.0)))
            machine.apply(PodGone(pod.uid, pod.key), Instant(0.0))
            await feed.collect(Watch(lambda: Instant(0.0)))
    assert not feed._planned
    assert not feed._pods


async def test_a_standby_does_nothing() -> None:
    asked = anyio.Event()
    turns = iter([False, False, False])

    def leading() -> bool:
        answer = next(turns, None)
        if answer is None:
            asked.set()
        return False

    async with running(interval=SOON, leading=leading) as found:
        with anyio.fail_after(60):
            await asked.wait()
    assert found.records == []
