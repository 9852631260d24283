"""What explanations cost whoever waits for filter: at 5,000 nodes and 150,000 running pods, one question after another.

The service's own parts in this process: state machine, extender on a real socket, the explainer; the replica is in the planning
process, as `serve` has it. A client in a process of its own asks filter over 5,000 names again and again, first with nobody
else asking, then while pods and nodes are explained, and then while plans are made beside that.
"""

import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import cycle
from typing import Final

import anyio
import msgspec
from msgspec import structs

from slackwater.app.explain.service import ExplainService
from slackwater.app.settings import Settings
from slackwater.model.events import PodSeen
from slackwater.model.ids import UnixTime
from slackwater.model.objects import Pod
from slackwater.model.resources import Amounts
from slackwater.ports.protocols import Explained
from slackwater.runtime.planner.process import PlanningProcess, resident_bytes
from slackwater_protocol.units import Bytes, MilliCpu
from tests.bench.autoscaler_loop import an_autoscaler, asking, fill, latencies, planning_process, spare_the_collector
from tests.bench.options import BenchFailed, Options, WriteFrame
from tests.bench.report import Goal, Measurement, Report
from tests.support.builders import a_pod
from tests.support.service import Service, a_service

NAME: Final = "explaining"

_EACH: Final = 30
_QUIET_SECONDS: Final = 5.0
_P99: Final = Goal(at_most=10.0)
_LARGE: Final = Amounts(MilliCpu(20_000), Bytes(1 << 30))


async def measure(options: Options, tell: WriteFrame) -> Report:
    """One run; its questions are the rounds."""
    nodes = options.nodes or (100 if options.quick else 5000)
    pending = options.pods or (400 if options.quick else 22_000)
    rounds = options.rounds or (4 if options.quick else 60)
    async with a_service() as service, _running(planning_process(service)) as process:
        await fill(service, nodes, pending)
        service.state_machine.apply(PodSeen(_large()), service.clock())
        spare_the_collector()
        alone = resident_bytes(os.getpid())
        explaining = ExplainService(
            service.state_machine,
            process,
            group_registry=lambda: None,
            settings=Settings,
            held_back=lambda _node, _group: (None, ()),
            clock=service.clock,
            steady=lambda: UnixTime(2e9),
        )
        async with asking(service, nodes) as calm:
            await anyio.sleep(_QUIET_SECONDS)
        async with asking(service, nodes) as at_first:
            first = await _asked(explaining, "pod", "large")
        tell(f"{NAME}: the first answer took {first:.1f} s")
        async with asking(service, nodes) as busy:
            took = await _all_asked(explaining, service, rounds)
        async with _planning(service, process), asking(service, nodes) as busiest:
            beside = await _all_asked(explaining, service, rounds)
        memory = (resident_bytes(os.getpid()), process.observation().resident_bytes)
    return Report(
        bench=NAME,
        quick=options.quick,
        parameters={"nodes": nodes, "running pods": nodes * _EACH, "pending pods": pending, "questions at least": rounds},
        measurements=(
            *latencies("filter, nobody asks", calm, None),
            *latencies("filter, during the first answer", at_first, None),
            *latencies("filter, while something is explained", busy, _P99),
            *latencies("filter, while plans are made too", busiest, _P99),
            Measurement(subject="first answer", quantity="whole", unit="s", samples=(first,)),
            *_answers(took, ""),
            *_answers(beside, ", while plans are made"),
            _memory("service before the first question", alone),
            _memory("service", memory[0]),
            _memory("planning process", memory[1]),
        ),
        ratios=(),
        notes=(
            "The first answer pays for the start of the planning process and for the replica of the whole cluster. Both end "
            "when nobody has asked for five minutes and no autoscaler runs.",
            "memory of the service is this process', with the bench in it.",
        ),
    )


def _answers(took: Sequence[float], when: str) -> tuple[Measurement, ...]:
    return (
        Measurement(subject=f"a pod that fits nowhere{when}", quantity="whole", unit="s", samples=tuple(took[::2])),
        Measurement(subject=f"a node{when}", quantity="whole", unit="s", samples=tuple(took[1::2])),
    )


def _memory(subject: str, size: int) -> Measurement:
    return Measurement(subject=f"memory, {subject}", quantity="resident", unit="MiB", samples=(size / 2**20,))


@asynccontextmanager
async def _running(process: PlanningProcess) -> AsyncIterator[PlanningProcess]:
    async with anyio.create_task_group() as group:
        group.start_soon(process.run)
        yield process
        group.cancel_scope.cancel()


@asynccontextmanager
async def _planning(service: Service, process: PlanningProcess) -> AsyncIterator[None]:
    """One loop of the autoscaler follows the other."""
    autoscaler = an_autoscaler(service, process)

    async def loops() -> None:
        while True:
            await autoscaler.run_once()

    async with anyio.create_task_group() as group:
        group.start_soon(loops)
        yield
        group.cancel_scope.cancel()


async def _all_asked(explaining: ExplainService, service: Service, rounds: int) -> list[float]:
    """So many questions at least, and for as long as nobody asked."""
    until, took = time.perf_counter() + _QUIET_SECONDS, list[float]()
    for what, name in cycle(_questions(service)):
        if len(took) >= rounds and time.perf_counter() > until:
            break
        took.append(await _asked(explaining, what, name))
    return took


def _large() -> Pod:
    pod = a_pod("large")
    return structs.replace(pod, kind=replace(pod.kind, requests=_LARGE))


def _questions(service: Service) -> list[tuple[Explained, str]]:
    return [("pod", "large"), ("node", next(iter(service.state_machine.state.nodes.row_of)))]


async def _asked(explaining: ExplainService, what: Explained, name: str) -> float:
    began = time.perf_counter()
    answer = msgspec.json.decode(await explaining(what, "default" if what == "pod" else "", name))
    if not answer["reasons"] or (what == "pod" and not answer["remedies"]):
        raise BenchFailed(f"{what} {name}: got {answer}, want reasons, and a remedy for the pod")
    return time.perf_counter() - began
