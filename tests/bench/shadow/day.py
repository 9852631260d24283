"""A day of a shadow: does the memory of its two processes stay flat, and does its event loop stand still for longer than that
of a service that serves?

    python -m tests.bench.shadow.day [--nodes 100] [--hours 24] [--scan-interval 60s] [--step 1] [--only shadow]

Two runs on the same changes, one after the other: `slackwater serve --shadow`, and a service that serves. The latter writes and
decides as ever. But what it decides about nodes is withheld (`shadow.capabilities`), since that would change the cluster; and
others bind the pods. Each run is the whole program with its planning process; the cluster is in another process. A dashboard is
open, and metrics are read each minute. Nobody waits (`skipping`): time jumps by a `--step` of seconds at least.
"""

import argparse
import asyncio
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from asyncio import events
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from random import Random
from statistics import median
from types import SimpleNamespace
from typing import Any, Final

import anyio
import yaml
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.memory import MemoryObjectSendStream

from slackwater.adapters.api_calls import Call, Params, Response
from slackwater.adapters.kube.errors import refused
from slackwater.app.observing import ObservingService
from slackwater.app.process import serve, serve_shadow
from slackwater.app.settings import Settings, loads
from slackwater.ports import clock
from slackwater.sandbox.free_ports import LOOPBACK, FreePorts
from tests.bench import machine
from tests.bench.contenders import HEADER
from tests.bench.procstat import cpu_seconds, resident_bytes
from tests.bench.shadow import cluster_process
from tests.bench.shadow.cluster_process import (
    EPOCH,
    GROUP_NAME,
    HEAD,
    NODE_CPU,
    NODE_MEMORY,
    Message,
    Reply,
    Until,
    Unwatch,
    Watch,
    framed,
)
from tests.bench.shadow.skipping import SkippingLoop
from tests.faults.play import silence_logs

_MIB: Final = 2**20
#: How often the cluster is asked what happened: changes reach the service so late.
_STEP_SECONDS: Final = 10.0
_SCRAPE_SECONDS: Final = 60.0
_HOUR: Final = 3600.0
#: Shorter steps are not noted; of the others so many tasks' longest.
_NOTED_SECONDS, _MOST_STEPS = 0.002, 6
_WITHHELD: Final = ["slack", "scale-up", "scale-down", "consolidation", "preemption"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`step`: time jumps by so many seconds at least."""

    mode: str
    nodes: int
    hours: int
    scan_interval: str
    step: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """One hour; hour 0 is the start. `resident`, `beside`: MiB of the service and of its counterfactual process at the end.
    `blocks`: those of Python's allocator in the service. `steps`: the longest steps of the event loop by task, in CPU ms, the
    longest first. `seconds`: how long it took; `cpu`: CPU seconds of the service."""

    hour: int
    nodes: int
    pods: int
    resident: float
    beside: float
    blocks: int
    steps: list[tuple[float, str]]
    seconds: float
    cpu: float


class Cluster:
    """The service's client of the cluster in another process. Implements `adapters.api_calls.ApiPort`."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, BufferedByteReceiveStream(process.stdout)
        self._one, self._numbers = anyio.Lock(), count()
        self._watches: dict[int, MemoryObjectSendStream[list[bytes] | Response | None]] = {}

    async def follow_time(self) -> None:
        """Lets time pass there as it does here, until cancelled."""
        began = anyio.current_time()
        while True:
            await anyio.sleep(_STEP_SECONDS)
            await self._ask(Until(anyio.current_time() - began))

    async def send(self, call: Call) -> Response:
        answer = (await self._ask(call)).answer
        assert answer is not None
        return answer

    async def stream(self, path: str, *, params: Params, silence_seconds: float) -> AsyncGenerator[list[bytes], None]:
        del silence_seconds
        number = next(self._numbers)
        self._watches[number], arriving = anyio.create_memory_object_stream[list[bytes] | Response | None](10_000)
        try:
            await self._ask(Watch(number, path, dict(params)))
            async for lines in arriving:
                if lines is None:
                    return
                if isinstance(lines, Response):
                    raise refused(f"watch {path}", lines)
                yield lines
        finally:
            arriving.close()
            del self._watches[number]
            await self._ask(Unwatch(number))

    async def _ask(self, message: Message) -> Reply:
        with anyio.CancelScope(shield=True):
            async with self._one:
                await self._in.send(framed(message))
                (length,) = HEAD.unpack(await self._out.receive_exactly(HEAD.size))
                reply: Reply = pickle.loads(await self._out.receive_exactly(length))
        for number, lines in reply.lines:
            if number in self._watches:
                self._watches[number].send_nowait(lines)
        return reply


class Steps:
    """The longest steps since `take`."""

    def __init__(self) -> None:
        self._longest: defaultdict[str, float] = defaultdict(float)

    def note(self, step: events.Handle, seconds: float) -> None:
        if seconds > _NOTED_SECONDS:
            name = _name_of(step)
            self._longest[name] = max(self._longest[name], 1000 * seconds)

    def take(self) -> list[tuple[float, str]]:
        found = sorted(((round(ms, 1), name) for name, ms in self._longest.items()), reverse=True)
        self._longest.clear()
        return found[:_MOST_STEPS]


def _name_of(step: events.Handle) -> str:
    callback: Any = getattr(step, "_callback", None)
    task = getattr(callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        return repr(callback)
    name = task.get_name()
    return getattr(task.get_coro(), "__qualname__", name) if name.startswith("Task-") else name


def settings_of(asked: Asked, folder: Path, port: int, ports: FreePorts) -> Settings:
    """Of a shadow, or of a service that serves and withholds. `port`: that of the dashboard."""
    amounts = {"cpu": NODE_CPU, "memory": NODE_MEMORY, "pods": "110"}
    template = {"metadata": {"labels": {"slackwater.dev/node-group": GROUP_NAME}}, "status": {"allocatable": amounts}}
    group = {"name": GROUP_NAME, "provider": "kwok", "maxSize": 2 * asked.nodes, "template": template}
    addresses = {"extender": ports.take(), "agents": ports.take(), "ops": port}
    document = {
        "mode": asked.mode,
        "listeners": {name: {"address": f"{LOOPBACK}:{number}"} for name, number in addresses.items()},
        "autoscaler": {"enabled": True, "scanInterval": asked.scan_interval, "nodeGroups": [group]},
    }
    if asked.mode == "shadow":
        document |= {"history": {"file": str(folder / "history")}, "report": {"file": str(folder / "report")}}
    else:
        document |= {"shadow": {"capabilities": _WITHHELD}}
    return loads(HEADER + yaml.safe_dump(document))


async def a_day(asked: Asked, steps: Steps) -> None:
    """Makes one run, and prints a line of JSON for each hour."""
    ports, began = FreePorts(Random()), anyio.current_time()
    # All clocks of the service follow the loop's.
    of_loop = SimpleNamespace(
        monotonic=anyio.current_time,
        clock_gettime=lambda _: EPOCH + anyio.current_time() - began,
        CLOCK_REALTIME=time.CLOCK_REALTIME,
    )
    module: Any = clock
    module.time, port = of_loop, ports.take()
    # Not `-m`: the classes of messages would be those of another module there.
    command = [sys.executable, "-c", f"from {cluster_process.__name__} import main; main({asked.nodes})"]
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_of(asked, Path(folder), port, ports)
        async with await anyio.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None) as process:
            cluster = Cluster(process)
            async with anyio.create_task_group() as group:
                group.start_soon(cluster.follow_time)

                async def ready(service: ObservingService) -> None:
                    await anyio.sleep(1.0)  # what was under way when it was ready belongs to the start
                    group.start_soon(_look, port)
                    group.start_soon(_scrape, port)
                    await _hours(service, asked.hours, steps)
                    group.cancel_scope.cancel()

                run: Any = serve_shadow if asked.mode == "shadow" else serve
                await run(settings, config_path=None, kubeconfig=None, api=_opened(cluster), on_ready=ready)
                group.cancel_scope.cancel()  # it was ended by a signal


@asynccontextmanager
async def _opened(cluster: Cluster) -> AsyncIterator[Cluster]:
    yield cluster


async def _hours(service: ObservingService, hours: int, steps: Steps) -> None:
    state, pid, began, used = service.state_machine.state, os.getpid(), time.monotonic(), 0.0
    for number in range(hours + 1):
        if number:
            await anyio.sleep(_HOUR)
        beside = service.report_log
        hour = Hour(
            hour=number,
            nodes=len(state.nodes),
            pods=len(state.pods),
            resident=round(resident_bytes(pid) / _MIB, 1),
            beside=0.0 if beside is None or not beside.process.pid else round(resident_bytes(beside.process.pid) / _MIB, 1),
            blocks=sys.getallocatedblocks(),
            steps=steps.take(),
            seconds=round(time.monotonic() - began, 1),
            cpu=round(cpu_seconds(pid) - used, 1),
        )
        began, used = time.monotonic(), cpu_seconds(pid)
        print(json.dumps(asdict(hour)), flush=True)


async def _look(port: int) -> None:
    """An open dashboard. Its stream ends after half an hour, and the browser connects again."""
    while True:
        async with await anyio.connect_tcp(LOOPBACK, port) as stream:
            await stream.send(b"GET /dashboard/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            async for _ in stream:
                pass


async def _scrape(port: int) -> None:
    """Prometheus."""
    while True:
        async with await anyio.connect_tcp(LOOPBACK, port) as stream:
            await stream.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            parts = [part async for part in stream]
        if not parts or b" 200 " not in parts[0][:20]:
            raise RuntimeError(f"/metrics was answered with {b''.join(parts)[:200]!r}")
        await anyio.sleep(_SCRAPE_SECONDS)


def _alone(asked: Asked) -> None:
    silence_logs()
    steps = Steps()
    loop = SkippingLoop(steps.note, least_seconds=asked.step)
    with loop.watched():
        anyio.run(a_day, asked, steps, backend_options={"loop_factory": lambda: loop})


def _in_process(mode: str, arguments: Sequence[str]) -> list[Hour]:
    """A run in a process of its own. Its lines go to standard error too."""
    command = [sys.executable, "-m", "tests.bench.shadow.day", "--only", mode, *arguments]
    hours = list[Hour]()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", file=sys.stderr, flush=True)
            hours.append(Hour(**json.loads(line)))
    if process.returncode:
        sys.exit(f"the run `{mode}` failed with {process.returncode}")
    return hours


def table(shadow: Sequence[Hour], served: Sequence[Hour]) -> Iterator[str]:
    """Markdown."""
    yield "| | shadow | serving |"
    yield "|---|---:|---:|"
    marks = sorted({1, *(hour for hour in range(0, len(shadow), 6) if hour), len(shadow) - 1})
    yield f"| MiB after {', '.join(map(str, marks))} h | {_at(shadow, marks, 'resident')} | {_at(served, marks, 'resident')} |"
    yield f"| MiB of the counterfactual then | {_at(shadow, marks, 'beside')} | |"
    for name, of in (("median", median), ("most", max)):
        steps = (of(hour.steps[0][0] for hour in side[1:] if hour.steps) for side in (shadow, served))
        yield f"| longest step in an hour, {name} (CPU ms) | {' | '.join(f'{ms:.1f}' for ms in steps)} |"
    yield f"| longest step of the start (CPU ms) | {' | '.join(f'{side[0].steps[0][0]:.1f}' for side in (shadow, served))} |"
    yield f"| minutes | {' | '.join(f'{sum(hour.seconds for hour in side) / 60:.0f}' for side in (shadow, served))} |"


def _at(hours: Sequence[Hour], marks: Sequence[int], what: str) -> str:
    return ", ".join(f"{getattr(hours[mark], what):.0f}" for mark in marks if mark < len(hours))


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.shadow.day", description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--scan-interval", default="60s")
    parser.add_argument("--step", type=float, default=1.0)
    parser.add_argument("--only", choices=["shadow", "serve"])
    asked = parser.parse_args(arguments)
    if asked.only:
        _alone(Asked(mode=asked.only, nodes=asked.nodes, hours=asked.hours, scan_interval=asked.scan_interval, step=asked.step))
        return 0
    passed = sys.argv[1:] if arguments is None else arguments
    shadow, served = (_in_process(mode, passed) for mode in ("shadow", "serve"))
    context = machine.described() | {"nodes": asked.nodes, "scan interval": asked.scan_interval, "step": asked.step}
    print(machine.page(table(shadow, served), context))
    return 0


if __name__ == "__main__":
    sys.exit(main())
