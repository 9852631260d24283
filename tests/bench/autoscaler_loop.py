"""What the autoscaler's loop costs whoever waits for filter: at 5,000 nodes, 150,000 running and 22,000 pending pods.

The service's own parts in this process: state machine, extender on a real socket, loop, node group registry; plans are made in
a process of their own, as `serve` does it. The cloud is a double whose machines never come, so that every
loop plans all over again. A client in a process of its own asks filter over 5,000 names again and again, first with nobody
planning, then while one loop follows the other. Then loops with a few changes each.
"""

import gc
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import anyio
import anyio.lowlevel
from anyio.streams.buffered import BufferedByteReceiveStream
from msgspec import structs

from slackwater.cluster.nodegroups.registry import NodeGroupRegistry
from slackwater.cluster.nodegroups.status import NodeGroupPolicy
from slackwater.controllers.loop_plans import ScaleUpRules
from slackwater.model.effects import Effect
from slackwater.model.events import NodeSeen, PodSeen
from slackwater.model.ids import Instant, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.ports.clock import Clocks
from slackwater.runtime.autoscaler.cycle import Autoscaler, LoopConfig
from slackwater.runtime.autoscaler.loop_record import LoopCounts, LoopRecord
from slackwater.runtime.planner.messages import LoopPlanner
from slackwater.runtime.planner.process import PlanningProcess, resident_bytes
from slackwater.runtime.planner.replica_feed import ReplicaFeed
from tests.bench.asking import FIRST_ANSWERED
from tests.bench.options import PATIENCE_SECONDS, BenchFailed, Options, WriteFrame
from tests.bench.report import Goal, Measurement, Report
from tests.bench.simulation.inputs import Pending, a_node, full
from tests.support import installed
from tests.support.cloud import Cloud
from tests.support.planners import PIECES
from tests.support.scaling import Time, a_consolidation_loop, an_actor, switched_off
from tests.support.service import Service, a_service

NAME: Final = "autoscaler-loop"

_GROUPS: Final = 10
_KINDS: Final = 200
_EACH: Final = 30
#: Between two questions, as kube-scheduler is busy with other things.
_PAUSE_SECONDS: Final = 0.002
_QUIET_SECONDS: Final = 5.0
_LOOPS: Final = 5
_TIMEOUT: Final = 600.0
#: Until a filter call has been answered while one of them ran.
_MOST_LOOPS: Final = 200
_P99, _SERVING, _WHOLE = Goal(at_most=10.0), Goal(at_most=50.0), Goal(at_most=1.0)


async def measure(options: Options, tell: WriteFrame) -> Report:
    """One run; its loops are the rounds."""
    nodes = options.nodes or (300 if options.quick else 5000)
    pending = options.pods or (1500 if options.quick else 22_000)
    loops = options.rounds or (2 if options.quick else _LOOPS)
    async with a_service() as service:
        await fill(service, nodes, pending)
        spare_the_collector()
        async with asking(service, nodes) as calm:
            await anyio.sleep(_QUIET_SECONDS)
        size = _Size(nodes=nodes, pending=pending, loops=loops)
        shipped = await _played(service, planning_process(service), size, tell)
    return Report(
        bench=NAME,
        quick=options.quick,
        parameters={"nodes": nodes, "running pods": nodes * _EACH, "pending pods": pending, "groups": _GROUPS, "loops": loops},
        measurements=(
            *latencies("filter, nobody plans", calm, None),
            *latencies("filter, first loop", shipped.at_first, None),
            *latencies("filter, while plans are made", shipped.meanwhile, _P99),
            *_spent("first loop", [shipped.first], None),
            *_spent("loop, nothing changed", shipped.planned, _SERVING),
            *_spent("loop, 2,000 pods changed", shipped.changed, _SERVING),
            *_memory(shipped),
        ),
        ratios=(),
        notes=(
            "serving is what a loop takes of the event loop that answers kube-scheduler, longest the longest piece of it.",
            "memory of the service is this process', with the bench in it.",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    nodes: int
    pending: int
    loops: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Played:
    """Loops, what filter took meanwhile, and bytes of memory at the end."""

    first: LoopRecord
    planned: Sequence[LoopRecord]
    changed: Sequence[LoopRecord]
    at_first: Sequence[float]
    meanwhile: Sequence[float]
    service_bytes: int
    planner_bytes: int


def planning_process(service: Service) -> PlanningProcess:
    """The planning process as the service has it."""
    feed = ReplicaFeed(service.state_machine)
    return PlanningProcess(
        feed, clock=lambda: Instant(time.monotonic()), plan_seconds=_TIMEOUT, silent_seconds=_TIMEOUT, pieces=PIECES
    )


async def _played(service: Service, planning: PlanningProcess, size: _Size, tell: WriteFrame) -> _Played:
    autoscaler = an_autoscaler(service, planning)
    async with anyio.create_task_group() as group:
        group.start_soon(planning.run)
        async with asking(service, size.nodes) as at_first:
            first = await autoscaler.run_once()
        spare_the_collector()
        tell(f"{NAME}: the first loop took {first.spent.whole:.1f} s, {1000 * first.spent.serving:.0f} ms of the loop")
        async with asking(service, size.nodes) as busy:
            planned: list[LoopRecord] = []
            # Small loops may be over before anybody has asked: then there is nothing to compare.
            while len(planned) < size.loops or (not busy and len(planned) < _MOST_LOOPS):
                planned.append(await autoscaler.run_once())
        if not busy:
            raise BenchFailed(f"{len(planned)} loops are over, and no filter call has ended meanwhile")
        changed = []
        for number in range(size.loops):
            _change(service, size.nodes, number)
            changed.append(await autoscaler.run_once())
        planner_bytes = planning.observation().resident_bytes
        group.cancel_scope.cancel()
    _check(first, planned, size.pending)
    return _Played(
        first=first,
        planned=planned,
        changed=changed,
        at_first=at_first,
        meanwhile=busy,
        service_bytes=resident_bytes(os.getpid()),
        planner_bytes=planner_bytes,
    )


def _memory(played: _Played) -> Iterator[Measurement]:
    each = (("service", played.service_bytes), ("planning process", played.planner_bytes))
    for subject, found in (*each, ("both", played.service_bytes + played.planner_bytes)):
        yield Measurement(subject=f"memory, {subject}", quantity="resident", unit="MiB", samples=(found / 2**20,))


def _check(first: LoopRecord, planned: Sequence[LoopRecord], pending: int) -> None:
    helped = first.pending.helped + first.pending.schedulable
    if helped != pending or any(not record.planned for record in planned):
        raise BenchFailed(f"{helped} of {pending} pods were planned for, want all of them, in every loop")


def latencies(subject: str, seconds: Sequence[float], goal: Goal | None) -> Iterator[Measurement]:
    for quantity, share, wanted in (("p50", 0.5, None), ("p99", 0.99, goal), ("max", 1.0, None)):
        value = 1000 * _share(seconds, share)
        yield Measurement(subject=subject, quantity=quantity, unit="ms", samples=(value,), goal=wanted)
    yield Measurement(subject=subject, quantity="calls", unit="", samples=(float(len(seconds)),))


def _share(seconds: Sequence[float], share: float) -> float:
    return sorted(seconds)[max(math.ceil(share * len(seconds)) - 1, 0)]


def _spent(subject: str, records: Sequence[LoopRecord], serving: Goal | None) -> Iterator[Measurement]:
    whole = None if serving is None else _WHOLE
    yield Measurement(subject=subject, quantity="whole", unit="s", samples=tuple(r.spent.whole for r in records), goal=whole)
    yield Measurement(subject=subject, quantity="plan", unit="s", samples=tuple(r.spent.plan for r in records))
    for quantity, values, goal in (
        ("serving", [r.spent.serving for r in records], serving),
        ("longest", [r.spent.longest for r in records], None),
    ):
        samples = tuple(1000 * value for value in values)
        yield Measurement(subject=subject, quantity=quantity, unit="ms", samples=samples, goal=goal)


@asynccontextmanager
async def asking(service: Service, nodes: int) -> AsyncIterator[list[float]]:
    """Asks filter until the block ends; the list is filled then. The first call is answered when the block begins: on a busy
    machine the process takes seconds to start."""
    port, found = service.http.base_url.port, list[float]()
    command = [sys.executable, "-m", "tests.bench.asking", str(port), str(nodes), str(_PAUSE_SECONDS)]
    async with await anyio.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        said = BufferedByteReceiveStream(process.stdout)
        with anyio.fail_after(PATIENCE_SECONDS):
            await said.receive_until(f"{FIRST_ANSWERED}\n".encode(), 100)
        yield found
        await process.stdin.aclose()
        reported = b"".join([chunk async for chunk in said])
        if await process.wait():
            raise BenchFailed("the client that asks filter failed")
    found.extend(json.loads(reported))


# --- the stage ------------------------------------------------------------------------------------------------------------


async def fill(service: Service, nodes: int, pending: int) -> None:
    """Nodes that are nearly full, and pods for which new ones are needed."""
    state_machine, now = service.state_machine, service.clock()
    for number in range(nodes):
        state_machine.apply(NodeSeen(a_node(number)), now)
    for pod in full(nodes, _EACH, free_cpu=500):
        state_machine.apply(PodSeen(pod), now)
    for pod in Pending(count=pending, groups=_KINDS).pods():
        state_machine.apply(PodSeen(structs.replace(pod, unschedulable_message="no node fits")), now)
    await anyio.lowlevel.checkpoint()


def spare_the_collector() -> None:
    """As `serve` does once everything is listed, and after the first loop."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def an_autoscaler(service: Service, planning: LoopPlanner) -> Autoscaler:
    """The loop, with a cloud whose machines never come."""
    clock = time.monotonic
    cloud = Cloud(clock)
    for number in range(_GROUPS):
        template = structs.replace(a_node(100_000 + number), labels={"pool": "a", "size": str(number)})
        cloud.has(f"group-{number}", template=template).boot_outcome = lambda _: "silent"
    policy = replace(installed.SCALE_UP, pending=installed.PENDING, max_nodes_per_scale_up=0)
    effects: list[Effect] = []
    group_registry = NodeGroupRegistry(NodeGroupPolicy(in_cluster=100, in_group={GroupName("group-0"): 100}))
    return Autoscaler(
        service.state_machine,
        [cloud],
        actor=an_actor([cloud], group_registry, lambda: Instant(clock())),
        group_registry=group_registry,
        planning=planning,
        rules=lambda: ScaleUpRules(policy=policy),
        submit=effects.extend,
        write_status=_write_nothing,
        clocks=Clocks(clock=lambda: Instant(clock()), wall=lambda: UnixTime(2e9), steady=lambda: UnixTime(2e9)),
        counts=LoopCounts(),
        config=LoopConfig(),
        scale_down_loop=switched_off(service.state_machine, group_registry),
        consolidation_loop=a_consolidation_loop(service.state_machine, lambda: installed.CONSOLIDATION, Time()),
    )


async def _write_nothing(_record: LoopRecord) -> None:
    pass


def _change(service: Service, nodes: int, number: int) -> None:
    """Of 2,000 running pods something learns that matters to no plan."""
    state_machine = service.state_machine
    for pod in islice(full(nodes, _EACH, free_cpu=500), number * 2000, (number + 1) * 2000):
        state_machine.apply(PodSeen(structs.replace(pod, resource_version=2 + number)), service.clock())
