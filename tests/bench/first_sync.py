"""How long it takes from the start of the process until everything is listed, and what each pod costs in memory.

On one real API server: each contender starts once before there are pods and then, in turn, several times with all of them.
The reference is the extender that decides nothing: it lists the same pages, decodes them and keeps them whole.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import anyio

from tests.bench import contenders
from tests.bench.contenders import NOTHING, Entrant
from tests.bench.objects import a_node, a_plain_pod, node_name
from tests.bench.options import Options, WriteFrame
from tests.bench.procstat import cpu_seconds, resident_bytes
from tests.bench.report import Bounds, Measurement, Ratio, Report, ratio_of
from tests.bench.stage import NODES_PATH, PODS_PATH, Stage, a_stage

NAME: Final = "first-sync"

#: Both collect their garbage once everything is listed.
_SETTLE_SECONDS: Final = 1.0
_TIME: Final = Bounds(low=0.1, high=10.0, why="both list the same pages and start the same interpreter")
_MEMORY: Final = Bounds(low=0.0, high=1.5, why="the reference keeps every pod whole, we only what decisions read")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """One start: seconds until ready, CPU seconds by then, and resident bytes."""

    seconds: float
    cpu_seconds: float
    resident_bytes: int


async def measure(options: Options, tell: WriteFrame) -> Report:
    """Interleaved starts on the same objects."""
    nodes = options.nodes or (100 if options.quick else 1000)
    pods = options.pods or (1000 if options.quick else 20_000)
    rounds = options.rounds or (1 if options.quick else 5)
    empty: dict[str, _Start] = {}
    full: dict[str, list[_Start]] = defaultdict(list)
    async with a_stage(kwok=False) as stage:
        entrants = _entrants(options)
        await stage.create(NODES_PATH, (a_node(number) for number in range(nodes)))
        for name, make in entrants.items():
            empty[name] = await _start(stage, make(stage))
        began = time.monotonic()
        await _create_pods(stage, nodes, pods)
        tell(f"{NAME}: {pods} bound pods created in {time.monotonic() - began:.0f} s")
        for number in range(rounds):
            for name, make in entrants.items():
                start = await _start(stage, make(stage))
                full[name].append(start)
                tell(f"{NAME} round {number + 1}/{rounds}: {name}: {start.seconds:.2f} s, {start.resident_bytes >> 20} MiB")
    return Report(
        bench=NAME,
        quick=options.quick,
        parameters={"nodes": nodes, "bound pods": pods, "rounds": rounds},
        measurements=tuple(m for name in entrants for m in _measurements(name, empty[name], full[name], pods)),
        ratios=tuple(r for c in options.services for r in _ratios(c.name, empty, full)),
        notes=("Until ready: from the start of the process. For each pod: resident memory less that of a start without pods.",),
    )


def _entrants(options: Options) -> dict[str, Callable[[Stage], Entrant]]:
    def serve(number: int) -> Callable[[Stage], Entrant]:
        return lambda stage: contenders.service(stage, options.services[number])

    return {NOTHING: contenders.decides_nothing} | {c.name: serve(n) for n, c in enumerate(options.services)}


async def _create_pods(stage: Stage, nodes: int, pods: int) -> None:
    # A slice at a time: what was created is answered whole, and not needed.
    for first in range(0, pods, 5000):
        numbers = range(first, min(first + 5000, pods))
        await stage.create(PODS_PATH, (a_plain_pod(number, node=node_name(number % nodes)) for number in numbers))


async def _start(stage: Stage, entrant: Entrant) -> _Start:
    began = time.monotonic()
    async with stage.running(entrant.launch) as process:
        seconds, spent = time.monotonic() - began, cpu_seconds(process.pid)
        await anyio.sleep(_SETTLE_SECONDS)
        return _Start(seconds=seconds, cpu_seconds=spent, resident_bytes=resident_bytes(process.pid))


def _measurements(name: str, empty: _Start, full: list[_Start], pods: int) -> list[Measurement]:
    def measured(quantity: str, unit: str, samples: list[float]) -> Measurement:
        return Measurement(subject=name, quantity=quantity, unit=unit, samples=tuple(samples))

    return [
        measured("until ready", "s", [start.seconds for start in full]),
        measured("CPU until ready", "s", [start.cpu_seconds for start in full]),
        measured("until ready, no pods", "s", [empty.seconds]),
        measured("resident", "MiB", [start.resident_bytes / 2**20 for start in full]),
        measured("for each pod", "bytes", [grown / pods for grown in _grown(empty, full)]),
    ]


def _ratios(name: str, empty: Mapping[str, _Start], full: Mapping[str, list[_Start]]) -> list[Ratio]:
    seconds = ([start.seconds for start in full[who]] for who in (name, NOTHING))
    memory = (_grown(empty[who], full[who]) for who in (name, NOTHING))
    return [
        ratio_of(f"until ready: {name} / {NOTHING}", *seconds, bounds=_TIME),
        ratio_of(f"memory for each pod: {name} / {NOTHING}", *memory, bounds=_MEMORY),
    ]


def _grown(empty: _Start, full: list[_Start]) -> list[float]:
    """Bytes that the pods cost."""
    return [float(start.resident_bytes - empty.resident_bytes) for start in full]
