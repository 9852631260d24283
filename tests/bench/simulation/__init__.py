"""What the simulator costs by itself, in this process: packing, planning, placing, snapshots and trials, emptying nodes.

Beside each figure stands what Cluster Autoscaler's own code took for the same input, measured once on a machine like this
one and not in this run. What is compared within one run is packing whole kinds with placing pod by pod.
"""

import gc
from collections.abc import Iterator
from typing import Final

import anyio.to_thread

from tests.bench.options import Options, WriteFrame
from tests.bench.report import Bounds, Measurement, Ratio, Report, ratio_of
from tests.bench.simulation import evacuation, existing, growth, packing, scaleup, slack, traps, volumes
from tests.bench.simulation.case import Case
from tests.bench.simulation.inputs import Pending

NAME: Final = "simulate"

_BY_POD: Final = Bounds(low=0.0, high=0.5, why="packing whole kinds has to be cheaper than looking at every pod")
_NOTES: Final = (
    "Cluster Autoscaler's code: kubernetes/autoscaler a16f0ae8 (Go 1.26, Kubernetes 1.36.2), one run of each case without "
    "limits on nodes or time, wall seconds on two shared cores of 2.6 GHz; not in this run. Its 18,000 pods of one kind with "
    "hostname anti-affinity were stopped after 480 s.",
    "Counts are nodes used (pods of a size), pods that found no place (pending on nodes), or nodes that can go (emptied). The "
    "bench fails where one is worse than Cluster Autoscaler's.",
    "Pending on nodes: numbering the kinds and placing in a trial, on a snapshot that is kept up to date.",
    "Plan: a whole planning (docs/scaleup.md); its nodes are compared with Cluster Autoscaler's estimate for one group.",
)


async def measure(options: Options, tell: WriteFrame) -> Report:
    """Rounds over all cases."""
    nodes = options.nodes or (500 if options.quick else 5000)
    rounds = options.rounds or (1 if options.quick else 3)
    cases = await anyio.to_thread.run_sync(lambda: list(_cases(options, nodes)))
    by_kind, by_pod = [], []
    for number in range(rounds):
        await anyio.to_thread.run_sync(_round, cases)
        by_kind.append(await anyio.to_thread.run_sync(packing.kind_by_kind, *_COMPARED))
        by_pod.append(await anyio.to_thread.run_sync(packing.pod_by_pod, *_COMPARED))
        tell(f"{NAME}: round {number + 1}/{rounds} done")
    return Report(
        bench=NAME,
        quick=options.quick,
        parameters={"nodes": nodes, "pods on each": 30, "rounds": rounds},
        measurements=tuple(_measurements(cases)),
        ratios=(_ratio(by_kind, by_pod),),
        notes=_NOTES,
    )


#: Pods that are packed both ways, and onto how many nodes.
_COMPARED: Final = (Pending(count=2000, groups=20).pods(), 200)


def _cases(options: Options, nodes: int) -> Iterator[Case]:
    compared = not options.quick and nodes == 5000
    yield from packing.cases(2000 if options.quick else None)
    yield from scaleup.cases(2000 if options.quick else None, nodes)
    yield from existing.cases(nodes, 2 * nodes, compared=compared)
    yield from evacuation.cases(nodes // 5, nodes, compared=compared)
    yield from slack.cases(nodes)
    yield from volumes.cases(options.quick)
    yield from traps.cases(options.quick)
    yield from growth.cases(10 if options.quick else 1)


def _round(cases: list[Case]) -> None:
    gc.collect()
    gc.freeze()  # as in the service
    for case in cases:
        case.once()
        gc.collect()
    gc.unfreeze()


def _measurements(cases: list[Case]) -> Iterator[Measurement]:
    for case in cases:
        yield from case.measurements()


def _ratio(by_kind: list[float], by_pod: list[float]) -> Ratio:
    return ratio_of("2,000 pods of 20 kinds, 200 nodes: packed / pod by pod", by_kind, by_pod, bounds=_BY_POD)
