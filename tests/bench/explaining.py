"""What explanations cost whoever waits for filter: at 5,000 nodes and 150,000 running pods, one question after another.

The service's own parts in this process: world, extender on a real socket, the explainer with its mirror. A client in a process
of its own asks filter over 5,000 names again and again, first with nobody else asking, then while pods and nodes are explained.
"""

import time
from dataclasses import replace
from itertools import cycle
from typing import Final

import anyio
import msgspec

from slackwater.app.explaining.answering import Clocks, Explaining
from slackwater.app.settings import Settings
from slackwater.model.events import PodSeen
from slackwater.model.ids import UnixTime
from slackwater.model.objects import Pod
from slackwater.model.resources import Amounts
from slackwater.ports.protocols import Explained
from slackwater_protocol.units import Bytes, MilliCpu
from tests.bench.autoscaler_loop import asking, fill, latencies, spare_the_collector
from tests.bench.options import BenchFailed, Options, Tell
from tests.bench.report import Goal, Measurement, Report
from tests.support.builders import a_pod
from tests.support.service import Service, a_service

NAME: Final = "explaining"

_EACH: Final = 30
_QUIET_SECONDS: Final = 5.0
_P99: Final = Goal(at_most=10.0)
_LARGE: Final = Amounts(MilliCpu(20_000), Bytes(1 << 30))


async def measure(options: Options, tell: Tell) -> Report:
    """One run; its questions are the rounds."""
    nodes = options.nodes or (1000 if options.quick else 5000)
    pending = options.pods or 200
    rounds = options.rounds or (10 if options.quick else 60)
    async with a_service() as service:
        await fill(service, nodes, pending)
        service.state_machine.apply(PodSeen(_large()), service.clock())
        spare_the_collector()
        explaining = Explaining(
            service.state_machine,
            group_registry=lambda: None,
            settings=Settings,
            held_back=lambda _node, _group: (None, ()),
            clocks=Clocks(clock=service.clock, steady=lambda: UnixTime(2e9)),
        )
        first = await _asked(explaining, "pod", "large")
        tell(f"{NAME}: the first answer took {first:.1f} s")
        spare_the_collector()
        async with asking(service, nodes) as calm:
            await anyio.sleep(_QUIET_SECONDS)
        async with asking(service, nodes) as busy:
            took = await _all_asked(explaining, service, rounds)
    return Report(
        bench=NAME,
        quick=options.quick,
        parameters={"nodes": nodes, "running pods": nodes * _EACH, "pending pods": pending, "questions at least": rounds},
        measurements=(
            *latencies("filter, nobody asks", calm, None),
            *latencies("filter, while something is explained", busy, _P99),
            Measurement(subject="first answer", quantity="whole", unit="s", samples=(first,)),
            Measurement(subject="a pod that fits nowhere", quantity="whole", unit="s", samples=tuple(took[::2])),
            Measurement(subject="a node", quantity="whole", unit="s", samples=tuple(took[1::2])),
        ),
        ratios=(),
        notes=("The first answer pays for the mirror of the whole cluster; it is given up when nobody asks for five minutes.",),
    )


async def _all_asked(explaining: Explaining, service: Service, rounds: int) -> list[float]:
    """So many questions at least, and for as long as nobody asked."""
    until, took = time.perf_counter() + _QUIET_SECONDS, list[float]()
    for what, name in cycle(_questions(service)):
        if len(took) >= rounds and time.perf_counter() > until:
            break
        took.append(await _asked(explaining, what, name))
    return took


def _large() -> Pod:
    pod = a_pod("large")
    return replace(pod, kind=replace(pod.kind, requests=_LARGE))


def _questions(service: Service) -> list[tuple[Explained, str]]:
    return [("pod", "large"), ("node", next(iter(service.state_machine.nodes.row_of)))]


async def _asked(explaining: Explaining, what: Explained, name: str) -> float:
    began = time.perf_counter()
    answer = msgspec.json.decode(await explaining(what, "default" if what == "pod" else "", name))
    if not answer["reasons"] or (what == "pod" and not answer["remedies"]):
        raise BenchFailed(f"{what} {name}: got {answer}, want reasons, and a remedy for the pod")
    return time.perf_counter() - began
