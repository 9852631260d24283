"""Agents' requests per second and their latency, while filter calls run on the same event loop.

First every agent asks once, as after a start. Then by the clock: 10,000 agents, each with its own last permit, 1,500
requests a second, beside it filter calls over 5,000 names as a busy kube-scheduler makes them. Then as fast as it goes,
with nothing else to do. The server has one core, the client another. In the same run an echo on the same stack, which
reads nothing, shows what of this is HTTP.
"""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio.to_thread

from slackwater_protocol.agent import AgentRequest, Metrics, PodName, Resources
from tests.bench.keepalive import a_request
from tests.bench.openloop import Stream, drive
from tests.bench.options import PATIENCE_SECONDS, BenchFailed, Options, WriteFrame
from tests.bench.report import Bounds, Goal, Measurement, Ratio, Report, ratio_of
from tests.support.bodies import filter_args
from tests.support.builders import a_pod

NAME: Final = "agents"

_ROOT: Final = Path(__file__).parents[2]
_RATE, _FILTERS = 1500.0, 50.0
_CONNECTIONS: Final = 500
_PODS: Final = 64
_GIB: Final = 2**30
_P99: Final = Goal(at_most=10.0)
_FASTEST: Final = Goal(at_least=_RATE)
#: More than any server answers: what leaves is bounded by the connections.
_AS_FAST_AS_IT_GOES: Final = 1e6
_BOUNDS: Final = Bounds(low=0.02, high=1.2, why="an agent's request costs a few times what an empty one does, and never less")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """Latencies in seconds, and answers per second."""

    agents: list[float]
    filters: list[float]
    echoes: list[float]
    fastest: float
    echo: float


async def measure(options: Options, tell: WriteFrame) -> Report:
    """A round is a few seconds by the clock, and as long for each of the two servers as fast as it goes."""
    nodes, agents = options.nodes or 5000, options.pods or (200 if options.quick else 10_000)
    rounds, seconds = options.rounds or (1 if options.quick else 5), 2.0 if options.quick else 10.0
    results = []
    with _server("--nodes", nodes, "--agents", agents, "--pods", _PODS) as ports:
        asked = _Asked(nodes, agents)
        first = await anyio.to_thread.run_sync(partial(_first_contact, ports, asked, agents))
        tell(f"{NAME}: {agents} agents have asked once, {agents / first:.0f} a second")
        by_the_clock = []
        for number in range(1, rounds + 1):
            by_the_clock.append(await anyio.to_thread.run_sync(partial(_by_the_clock, ports, asked, seconds)))
            tell(f"{NAME}: by the clock, round {number} of {rounds} done")
        for number, (agents_seconds, filters_seconds) in enumerate(by_the_clock, start=1):
            work = partial(_round, ports, asked, seconds, agents=agents_seconds, filters=filters_seconds)
            results.append(await anyio.to_thread.run_sync(work))
            tell(f"{NAME}: as fast as it goes, round {number} of {rounds} done")
    return Report(
        bench=NAME,
        quick=options.quick,
        parameters={"agents": agents, "nodes": nodes, "rounds": rounds, "seconds of each part": str(seconds)},
        measurements=(*_measurements(results), _first(agents / first)),
        ratios=tuple(_ratios(results)),
        notes=(
            f"By the clock: {_RATE:g} agent requests a second over {_CONNECTIONS} connections and {_FILTERS:g} filter calls a "
            f"second over {nodes} names, on one event loop. Latencies count from when a request was due. "
            "The echo has the same filter calls beside it: what it shows above a millisecond is them, and the machine.",
            f"First contact: each agent's first request after a start, due at {_RATE:g} a second; each permit is written then.",
            "As fast as it goes: 32 connections. Permit service, state machine and dispatcher are the service's own; "
            "what stands for the API server takes 3 ms for each permit that is written.",
        ),
    )


class _Asked:
    """Bytes made beforehand: each agent's request, one step up and one down in turn; and filter's questions."""

    def __init__(self, nodes: int, agents: int) -> None:
        self.up_and_down = [_of_agent(n, units) for units in (5, 4) for n in range(agents)]
        names = [f"node-{n}" for n in range(nodes)]
        pods = [a_pod(f"p-{n}", version=1) for n in range(_PODS)]
        self.filters = [a_request("/scheduler/filter", json.dumps(filter_args(pod, *names)).encode()) for pod in pods]
        self.echoes = [a_request("/40", request.partition(b"\r\n\r\n")[2]) for request in self.up_and_down[:64]]


def _of_agent(number: int, units: int) -> bytes:
    wanted, other = (Resources(milli_cpu=250 * n, memory=n * _GIB) for n in (units, 9 - units))
    request = AgentRequest(
        proto_version=7,
        pod=PodName(namespace="default", name=f"vm-{number}"),
        compute_unit=Resources(milli_cpu=250, memory=_GIB),
        resources=wanted,
        last_permit=other,
        metrics=Metrics(load_avg_1m=number % 97 / 16),
    )
    return a_request("/", request.to_body())


def _first_contact(ports: dict[str, int], asked: _Asked, agents: int) -> float:
    """Every agent asks once, as after a start of the service: each permit is then written. Seconds until all have answers."""
    requests = asked.up_and_down[:agents]
    port = ports["agents"]
    stream = Stream(name="agents", port=port, requests=requests, per_second=_RATE, connections=_CONNECTIONS, once=True)
    started = time.perf_counter()
    drive([stream], PATIENCE_SECONDS)
    if len(stream.seconds) < agents:
        raise BenchFailed(f"{len(stream.seconds)} of {agents} agents answered in {PATIENCE_SECONDS:g} s, want all")
    return time.perf_counter() - started


def _by_the_clock(ports: dict[str, int], asked: _Asked, seconds: float) -> tuple[list[float], list[float]]:
    """Latencies of agents and of filter calls. The rounds follow one another, as nobody's whole fleet falls silent."""
    agents = _stream(ports, "agents", asked.up_and_down)
    filters = _filters(ports, asked)
    drive([agents, filters], seconds)
    return agents.seconds, filters.seconds


def _stream(ports: dict[str, int], name: str, requests: Sequence[bytes]) -> Stream:
    return Stream(name=name, port=ports[name], requests=requests, per_second=_RATE, connections=_CONNECTIONS)


def _filters(ports: dict[str, int], asked: _Asked) -> Stream:
    return Stream(name="filter", port=ports["extender"], requests=asked.filters, per_second=_FILTERS, connections=1)


def _round(ports: dict[str, int], asked: _Asked, seconds: float, *, agents: list[float], filters: list[float]) -> _Round:
    """What was measured by the clock, with an echo by the clock, and both as fast as it goes."""
    echoes = _stream(ports, "echo", asked.echoes)
    drive([echoes, _filters(ports, asked)], seconds)
    rates = []
    for name, port, requests in (("agents", ports["agents"], asked.up_and_down), ("echo", ports["echo"], asked.echoes)):
        fast = Stream(name=name, port=port, requests=requests, per_second=_AS_FAST_AS_IT_GOES, connections=32)
        drive([fast], seconds)
        rates.append(len(fast.seconds) / seconds)
    return _Round(agents=agents, filters=filters, echoes=echoes.seconds, fastest=rates[0], echo=rates[1])


def _measurements(rounds: Sequence[_Round]) -> Iterator[Measurement]:
    subjects = (
        ("agent", [r.agents for r in rounds], _P99),
        ("filter", [r.filters for r in rounds], _P99),
        ("echo", [r.echoes for r in rounds], None),
    )
    for subject, series, p99 in subjects:
        for quantity, share, goal in (("p50", 0.5, None), ("p99", 0.99, p99), ("max", 1.0, None)):
            samples = tuple(1000 * _quantile(seconds, share) for seconds in series)
            yield Measurement(subject=f"{subject}, by the clock", quantity=quantity, unit="ms", samples=samples, goal=goal)
    fastest = tuple(r.fastest for r in rounds)
    yield Measurement(subject="agent, as fast as it goes", quantity="answers", unit="1/s", samples=fastest, goal=_FASTEST)
    yield Measurement(subject="echo, as fast as it goes", quantity="answers", unit="1/s", samples=tuple(r.echo for r in rounds))


def _first(rate: float) -> Measurement:
    return Measurement(subject="agent, first contact", quantity="answers", unit="1/s", samples=(rate,))


def _ratios(rounds: Sequence[_Round]) -> Iterator[Ratio]:
    yield ratio_of("answers: agents / echo", [r.fastest for r in rounds], [r.echo for r in rounds], bounds=_BOUNDS)


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


@contextmanager
def _server(*arguments: object) -> Iterator[dict[str, Any]]:
    """Its ports. It has the first core for itself where there are two; this process takes the others."""
    command = [sys.executable, "-m", "tests.bench.agent_server", *map(str, arguments)]
    cores = sorted(os.sched_getaffinity(0))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=_ROOT) as process:
        try:
            assert process.stdout is not None
            ports = json.loads(process.stdout.readline())
            if len(cores) > 1:
                os.sched_setaffinity(process.pid, cores[:1])
                os.sched_setaffinity(0, cores[1:])
            yield ports
        finally:
            process.kill()
            os.sched_setaffinity(0, cores)
