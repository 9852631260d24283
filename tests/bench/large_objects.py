"""What one pod with very many rules costs the event loop, in process: reading it, applying it, the first filter and the next
ones of it and of a plain pod, and what stays in memory.

    python -m tests.bench.large_objects --nodes 5000 --bytes 300000 --copies 3 "preferred pods" resources

`--rules 1000` instead of `--bytes` gives each pod that many rules. Times are CPU milliseconds of the loop's longest step.
"""

import argparse
import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import numpy as np
from msgspec import structs

from slackwater.adapters.kube.decode import PodDecoder
from slackwater.controllers.placement.loop import FilterNodeChooser, ScoringLoop
from slackwater.model.events import Event, NodeSeen, PodGone, PodSeen, Synced, TimePassed
from slackwater.model.ids import Instant, NodeName
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import KindInterner
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed
from tests.support.builders import a_node
from tests.support.large_objects import Shape, pod_json, shapes, stored, within

T = TypeVar("T")
_MIB = 2**20


def resident() -> float:
    """MiB of this process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / _MIB


@dataclass
class Loop:
    """The state machine, node choice and a decoder, driven as the service's event loop drives them."""

    n_nodes: int
    steps: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.state_machine = StateMachine(replace(installed.POLICY, bind=False, scheduler_name="default-scheduler"))
        self.scoring = ScoringLoop(self.state_machine, clock=self.clock, weight=1)
        self.choosing = FilterNodeChooser(self.state_machine, self.scoring, self.clock)
        self.decoder = PodDecoder(KindInterner())
        for number in range(self.n_nodes):
            labels = {"kubernetes.io/hostname": f"n-{number}", "topology.kubernetes.io/zone": f"z-{number % 3}"}
            self.apply(
                NodeSeen(structs.replace(a_node(f"n-{number}"), labels=labels, scalars=(("example.com/gpu", 8), ("pods", 110))))
            )
        self.apply(Synced())
        rows = self.state_machine.state.nodes.row_of
        self.rows = np.array([rows[NodeName(f"n-{number}")] for number in range(self.n_nodes)], np.intp)

    def clock(self) -> Instant:
        return Instant(time.monotonic())

    def apply(self, event: Event) -> None:
        self.state_machine.apply(event, self.clock())
        self.scoring.after_event()

    def timed(self, name: str, step: Callable[[], T]) -> T:
        began = time.thread_time()
        found = step()
        self.note(name, time.thread_time() - began)
        return found

    def note(self, name: str, seconds: float) -> None:
        self.steps[name] = max(self.steps.get(name, 0.0), 1000 * seconds)

    async def turns(self) -> None:
        """Notes what other tasks of the loop take between two turns of this one."""
        while True:
            began = time.thread_time()
            await anyio.sleep(0.001)
            self.note("turn", time.thread_time() - began)

    async def settle(self) -> None:
        """Lets the scoring loop follow."""
        await anyio.sleep(0.2)

    def filter(self, pod: Pod) -> bool:
        """Asks about all nodes; whether one was named or passed."""
        if self.choosing.of(pod, self.rows) is not None:
            return True
        return not self.state_machine.filter(pod, self.rows, self.clock()).all()


async def measured(loop: Loop, pods: Sequence[bytes]) -> dict[str, float]:
    plain = [loop.decoder.decode(stored(pod_json("plain"), 900_000 + number)) for number in range(2 * len(pods))]
    loop.steps.clear()
    known: list[Pod] = []
    for raw in pods:
        pod = loop.timed("decode", partial(loop.decoder.decode, raw))
        known.append(pod)
        loop.timed("apply", partial(loop.apply, PodSeen(pod)))
        await loop.settle()
        loop.timed("filter", partial(loop.filter, pod))
        loop.timed("again", partial(loop.filter, pod))
        loop.timed("bound", partial(loop.apply, PodSeen(structs.replace(pod, node=NodeName("n-0"), resource_version=2))))
        await loop.settle()
        loop.timed("plain", partial(loop.filter, plain.pop()))
        loop.timed("tick", partial(loop.apply, TimePassed()))
    for pod in known:
        loop.timed("gone", partial(loop.apply, PodGone(pod.uid, pod.key)))
        loop.timed("plain", partial(loop.filter, plain.pop()))
    return dict(loop.steps)


async def main(options: argparse.Namespace) -> None:
    loop = Loop(options.nodes)
    async with anyio.create_task_group() as group:
        group.start_soon(loop.scoring.run)
        group.start_soon(loop.turns)
        await anyio.sleep(1)
        for name, shape in shapes(options.shapes).items():
            made = _made(shape, options)
            raws = [stored(made, number) for number in range(options.copies)]
            before = resident()
            await anyio.sleep(0.01)
            found = await measured(loop, raws)
            size = sum(map(len, raws))
            del raws, made
            await loop.settle()
            steps = " ".join(f"{step} {milliseconds:8.1f}" for step, milliseconds in found.items())
            print(f"{name:24} {size / _MIB:6.1f} MiB  {steps}  stays {resident() - before:7.1f} MiB", flush=True)
        group.cancel_scope.cancel()


def _made(shape: Shape, options: argparse.Namespace) -> dict[str, Any]:
    return shape(options.rules) if options.rules else within(shape, options.bytes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--bytes", type=int, default=300_000)
    parser.add_argument("--rules", type=int, default=0)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("shapes", nargs="*")
    anyio.run(main, parser.parse_args())
