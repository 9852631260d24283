"""Pending pods onto nodes that are there, with pods on them; and what a snapshot and a trial cost at that size."""

import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

from slackwater.fit.binpacking import NO_HINTS, Hints, Placements, place_pods
from slackwater.fit.feasible_nodes import feasible
from slackwater.model.ids import NodeName
from slackwater.model.objects import Node, Pod
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId
from tests.bench.simulation.case import Case, Outcome
from tests.bench.simulation.inputs import GIB, Pending, a_node, full

_EACH: Final = 30


def cases(nodes: int, pending: int, *, compared: bool) -> Iterator[Case]:
    """`compared`: at the sizes at which Cluster Autoscaler was measured."""
    machines = [a_node(number) for number in range(nodes)]
    roomy, tight = (list(full(nodes, _EACH, free_cpu=free)) for free in (2000, 500))
    half = pending // 2
    groups = Pending(count=pending, groups=200)
    apart = Pending(count=pending, groups=200, rule="anti-affinity")
    zones = Pending(count=pending // 5, groups=200, rule="zone spread")
    one = Pending(count=pending, groups=1, size=(1000, GIB))
    none = Pending(count=pending, groups=0)
    rows = (
        _Row("200 kinds", roomy, groups, half, 0.5, 1.75),
        _Row("200 kinds, second loop with hints", roomy, groups, half, 0.5, 1.29, again=True),
        _Row("one kind, all fit", roomy, one, 0, 0.5, 3.07),
        _Row("200 kinds, none fits", tight, groups, pending, 0.5, 0.59),
        _Row("no controllers, none fits", tight, none, pending, 0.5, 20.8),
        _Row("200 kinds, hostname anti-affinity", roomy, apart, half, 2.0, 114.6),
        _Row("200 kinds, zone spread", roomy, zones, half // 5, 1.0, 15.6),
    )
    for row in rows:
        yield Case(
            name=f"{row.pending.count:,} pending on {nodes:,} nodes, {row.name}",
            run=_placing(machines, row.running, row.pending.pods(), again=row.again),
            counted="pods left",
            want=row.left,
            goal_seconds=row.goal,
            their_seconds=row.theirs if compared else None,
            their_count=row.left if compared else None,
        )
    yield from snapshots(machines, roomy, compared=compared)


class _Row(NamedTuple):
    """A line of the table. `goal` and `theirs` in seconds; `left` is how many find no place, here and there."""

    name: str
    running: list[Pod]
    pending: Pending
    left: int
    goal: float
    theirs: float
    again: bool = False


def _placing(nodes: list[Node], running: list[Pod], pods: list[Pod], *, again: bool) -> Callable[[], Outcome]:
    """Numbers, orders and places the pods in a trial that is dropped; `again`: each hinted at where it went before."""

    def placed(snapshot: ClusterSnapshot, hints: Hints) -> Placements:
        with snapshot.fork():
            kinds = np.sort(snapshot.number(pods))  # kinds together, in the order of their first pods
            return place_pods(snapshot, kinds, rows=np.arange(snapshot.n_rows), hints=hints)

    def run() -> Outcome:
        snapshot = ClusterSnapshot.build(nodes, [*running, *pods])
        hints = Hints(pods=placed(snapshot, NO_HINTS).rows) if again else NO_HINTS
        began = time.perf_counter()
        left = sum(len(each.pods) for each in placed(snapshot, hints).left)
        return Outcome(seconds=time.perf_counter() - began, count=left)

    return run


def snapshots(nodes: list[Node], running: list[Pod], *, compared: bool) -> Iterator[Case]:
    """What one loop needs before it can try anything, and what a try costs."""
    snapshot = ClusterSnapshot.build(nodes, running)
    kind = KindId(0)
    feasible(snapshot, kind)
    new = [NodeName("new-0")]

    def case(name: str, goal: float | None, theirs: float, work: Callable[[], object], times: int = 1) -> Case:
        def run() -> Outcome:
            began = time.perf_counter()
            for _ in range(times):
                work()
            return Outcome(seconds=(time.perf_counter() - began) / times)

        named = f"{name}, {len(nodes):,} nodes, {len(running):,} pods"
        return Case(name=named, run=run, goal_seconds=goal, their_seconds=theirs if compared else None)

    def tried(work: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            with snapshot.fork():
                work()

        return run

    def first_fit() -> None:
        snapshot.place(kind, int(feasible(snapshot, kind).codes.argmin()))

    yield case("snapshot from objects", None, 0.9, lambda: ClusterSnapshot.build(nodes, running))
    yield case("trial", None, 0.67e-6, tried(lambda: None), 1000)
    yield case("trial with a node more", None, 0.28e-3, tried(lambda: snapshot.add_copies(nodes[0], new)), 100)
    yield case("trial with a pod placed", None, 0.23e-3, tried(first_fit), 100)
