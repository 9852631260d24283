"""What open dashboards cost whoever waits for filter: at 5,000 nodes, 150,000 running and 20,000 pending pods.

The service's own parts in this process: world, extender and ops listener on real sockets. Pods come, and are seen bound, at all
times. A client in a process of its own asks filter over 5,000 names again and again: with nobody looking, with one dashboard
open, and with sixteen, which is as many as there may be.
"""

import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Final

import anyio
import httpx
from anyio.streams.buffered import BufferedByteReceiveStream

from slackwater.adapters.http.dashboard.routes import MOST_LISTENERS
from slackwater.model.events import PodGone, PodSeen
from slackwater.ports.clock import unix_time
from slackwater.runtime.decision_log import DecisionLog
from tests.bench.autoscaler_loop import asking, fill, latencies, spare_the_collector
from tests.bench.looking import ALL_REPORTED
from tests.bench.options import PATIENCE_SECONDS, BenchFailed, Options, WriteFrame
from tests.bench.report import Goal, Report, ratio_of
from tests.support.builders import a_pod
from tests.support.dashboards import served
from tests.support.service import Service, a_service

NAME: Final = "dashboard"

_EACH: Final = 30
_SECONDS: Final = 10.0
_P99: Final = Goal(at_most=10.0)
#: Pods that come and go each time, and how often.
_CHURN, _CHURN_SECONDS = 10, 0.05


async def measure(options: Options, tell: WriteFrame) -> Report:
    """Rounds: of nobody, one, and as many as there may be."""
    nodes = options.nodes or (300 if options.quick else 5000)
    pending = options.pods or (500 if options.quick else 20_000)
    rounds = options.rounds or (1 if options.quick else 3)
    seconds = 2.0 if options.quick else _SECONDS
    found: dict[int, list[list[float]]] = {0: [], 1: [], MOST_LISTENERS: []}
    async with a_service() as service:
        await fill(service, nodes, pending)
        spare_the_collector()
        async with served(service.state_machine, service.clock(), loop=None, decision_log=DecisionLog(unix_time)) as url:
            for number in range(rounds):
                for lookers, rounds_of in found.items():
                    rounds_of.append(await _round(service, url, nodes, lookers, seconds))
                tell(f"{NAME}: round {number + 1} of {rounds}")
    return Report(
        bench=NAME,
        quick=options.quick,
        parameters={"nodes": nodes, "running pods": nodes * _EACH, "pending pods": pending, "rounds": rounds},
        measurements=tuple(
            measurement
            for lookers, rounds_of in found.items()
            for measurement in latencies(_subject(lookers), [*chain(*rounds_of)], _P99 if lookers else None)
        ),
        ratios=tuple(
            ratio_of(f"p99 of {_subject(lookers)} / nobody looks", _p99s(found[lookers]), _p99s(found[0]))
            for lookers in found
            if lookers
        ),
        notes=(
            f"{int(_CHURN / _CHURN_SECONDS)} pods a second come and go all the time; every dashboard is told so each second.",
        ),
    )


def _subject(lookers: int) -> str:
    return "filter, nobody looks" if not lookers else f"filter, {lookers} open"


def _p99s(rounds: list[list[float]]) -> list[float]:
    return [sorted(calls)[int(0.99 * (len(calls) - 1))] for calls in rounds]


async def _round(service: Service, url: str, nodes: int, lookers: int, seconds: float) -> list[float]:
    """So many seconds, and more where a busy machine needs them to tell each dashboard of a change."""
    async with anyio.create_task_group() as group, _looking(url, lookers) as look:
        group.start_soon(_churn, service)
        async with asking(service, nodes) as calls:
            await anyio.sleep(seconds)
            await look.until_all_reported()
        group.cancel_scope.cancel()
    if look.reported.get("board", 0) < lookers or look.reported.get("change", 0) < lookers:
        raise BenchFailed(f"{lookers} dashboards were told {look.reported}, want a board and changes for each")
    return calls


@dataclass(slots=True, kw_only=True)
class _Look:
    """Dashboards that are open; `told`, how often they were told what, is filled in at the end."""

    said: BufferedByteReceiveStream | None = None  #: by the process that looks; None: nobody does
    reported: dict[str, int] = field(default_factory=dict)

    async def until_all_reported(self) -> None:
        """Until each has had a board and a change. Raises BenchFailed."""
        if self.said is None:
            return
        with anyio.move_on_after(PATIENCE_SECONDS):
            await self.said.receive_until(f"{ALL_REPORTED}\n".encode(), 100)
            return
        raise BenchFailed(f"after {PATIENCE_SECONDS:g} s some dashboards had no board or no change, want both for each")


@asynccontextmanager
async def _looking(url: str, lookers: int) -> AsyncIterator[_Look]:
    """Dashboards that are open until the block ends."""
    if not lookers:
        yield _Look()
        return
    command = [sys.executable, "-m", "tests.bench.looking", str(httpx.URL(url).port), str(lookers)]
    async with await anyio.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        look = _Look(said=BufferedByteReceiveStream(process.stdout))
        yield look
        with anyio.CancelScope(shield=True), anyio.fail_after(PATIENCE_SECONDS):
            await process.stdin.aclose()
            said = b"".join([chunk async for chunk in process.stdout])
            if await process.wait():
                raise BenchFailed("the dashboards failed")
    look.reported.update(json.loads(said))


async def _churn(service: Service) -> None:
    names = list(service.state_machine.state.nodes.row_of)
    stamp = time.monotonic_ns()
    for number in count():
        pods = [
            a_pod(f"churn-{stamp}-{number}-{each}", on=names[(number * _CHURN + each) % len(names)]) for each in range(_CHURN)
        ]
        for pod in pods:
            service.state_machine.apply(PodSeen(pod), service.clock())
        await anyio.sleep(_CHURN_SECONDS)
        for pod in pods:
            service.state_machine.apply(PodGone(pod.uid, pod.key), service.clock())
