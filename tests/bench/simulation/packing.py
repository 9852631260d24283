"""Pending pods onto new nodes: how many nodes do they need, and how long does it take to say so?

The order is that of first-fit decreasing: kinds together, the largest share of a node first. Timed is all of it, from
decoded pods: numbering kinds, ordering, making rows for the nodes, packing, dropping the trial.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from slackwater.fit.binpacking import NOWHERE, copies_on, place_pods
from slackwater.fit.feasible_nodes import feasible
from slackwater.model.columns import Rows
from slackwater.model.ids import NodeName, Row
from slackwater.model.objects import Pod
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.node_facts import CPU, MEMORY
from tests.bench.options import BenchFailed
from tests.bench.simulation.case import Case, Outcome
from tests.bench.simulation.inputs import GIB, Pending, a_node

_TWO: Final = (2000, 8 * GIB)
_WHOLE: Final = (31_000, 64 * GIB)
_EIGHTH: Final = (4000, 8 * GIB)


def cases(pods: int | None) -> Iterator[Case]:
    """At the sizes at which Cluster Autoscaler was measured; or each shape once with so many `pods`, and nothing beside it."""
    for name, pending, seconds, nodes, goal in _SHAPES:
        if pods is None:
            yield _case(f"{pending.count:,} pods, {name}", pending, seconds, nodes, goal)
        elif pending.count == 18_000:
            yield _case(f"{pods:,} pods, {name}", _resized(pending, pods), None, None, goal)


def _resized(pending: Pending, count: int) -> Pending:
    return replace(pending, count=count)


#: Name, input, Cluster Autoscaler's seconds (wall; None: stopped) and nodes without limits, and our goal in seconds.
_SHAPES: Final[tuple[tuple[str, Pending, float | None, int | None, float | None], ...]] = (
    ("one kind", Pending(count=18_000, groups=1, size=_TWO), 0.71, 1125, 0.3),
    ("one kind", Pending(count=22_000, groups=1, size=_TWO), 0.91, 1375, 0.3),
    ("200 kinds", Pending(count=18_000, groups=200), 1.57, 1401, 0.3),
    ("200 kinds", Pending(count=22_000, groups=200), 2.25, 1712, 0.3),
    ("200 kinds, node affinity", Pending(count=18_000, groups=200, rule="node affinity"), 3.47, 1401, 0.3),
    ("200 kinds, node affinity", Pending(count=22_000, groups=200, rule="node affinity"), 2.81, 1712, 0.3),
    ("200 kinds, hostname anti-affinity", Pending(count=18_000, groups=200, rule="anti-affinity"), 67.0, 1440, 1.0),
    ("200 kinds, hostname anti-affinity", Pending(count=22_000, groups=200, rule="anti-affinity"), 105.9, 1760, 1.0),
    ("one kind, hostname anti-affinity", Pending(count=8000, groups=1, rule="anti-affinity", size=_TWO), 113.8, 8000, 1.0),
    ("one kind, hostname anti-affinity", Pending(count=18_000, groups=1, rule="anti-affinity", size=_TWO), None, 18_000, 1.0),
    ("one kind, one pod a node", Pending(count=22_000, groups=1, size=_WHOLE), 13.7, 22_000, 1.0),
    ("no controllers, eight pods a node", Pending(count=18_000, groups=0, size=_EIGHTH), 6.6, 2250, 1.0),
    ("no controllers, eight pods a node", Pending(count=22_000, groups=0, size=_EIGHTH), 10.4, 2750, 1.0),
    ("no controllers, one pod a node", Pending(count=18_000, groups=0, size=_WHOLE), 98.2, 18_000, 1.0),
)


def _case(name: str, pending: Pending, seconds: float | None, nodes: int | None, goal: float | None) -> Case:
    pods = pending.pods()

    def run() -> Outcome:
        began = time.perf_counter()
        used = nodes_for(pods)
        return Outcome(seconds=time.perf_counter() - began, count=used)

    theirs = None if seconds is None else nodes  # without a time it came to no end
    return Case(
        name=name,
        run=run,
        counted="nodes",
        want=nodes if theirs is None else None,
        goal_seconds=goal,
        their_seconds=seconds,
        their_count=theirs,
    )


def nodes_for(pods: list[Pod]) -> int:
    """How many new nodes the pods need. Raises BenchFailed where any is left over."""
    snapshot = ClusterSnapshot.build([], pods)
    kinds = snapshot.number(pods)
    template = a_node(0)
    with snapshot.fork():
        first = snapshot.add_copies(template, [NodeName("new-0")])
        largest, most = _largest_first(snapshot, kinds, Row(first.start))
        snapshot.add_copies(template, [NodeName(f"new-{number}") for number in range(1, most)])
        placed = place_pods(snapshot, kinds[largest], rows=np.arange(snapshot.n_rows)).rows
    if (placed == NOWHERE).any():
        raise BenchFailed(f"simulate: {int((placed == NOWHERE).sum())} of {len(pods)} pods found no place on new nodes")
    return len(np.unique(placed))


def _largest_first(snapshot: ClusterSnapshot, kinds: Rows, empty: Row) -> tuple[Rows, int]:
    """The pods, kinds together and the largest first; and as many nodes as they need at most."""
    present, counts = np.unique(kinds, return_counts=True)
    asked = snapshot.kinds.requests[[CPU, MEMORY]][:, present]
    share = (asked / snapshot.facts.allocatable[[CPU, MEMORY], empty][:, None]).sum(axis=0)
    rank = np.empty(len(snapshot.kinds), np.intp)
    rank[present[np.argsort(-share, kind="stable")]] = np.arange(len(present))
    each = [_copies(snapshot, KindId(kind), empty) for kind in present.tolist()]
    most = sum(-(-count // copies) for count, copies in zip(counts.tolist(), each, strict=True))
    return np.argsort(rank[kinds], kind="stable"), most


def _copies(snapshot: ClusterSnapshot, kind: KindId, empty: Row) -> int:
    numbered = snapshot.of(kind)
    return 1 if numbered.asks.anti_affinity else int(copies_on(snapshot, numbered, np.array([empty]))[0])


def pod_by_pod(pods: list[Pod], nodes: int) -> float:
    """Seconds of the obvious loop over the same verdicts, onto so many nodes."""
    snapshot = ClusterSnapshot.build([a_node(number) for number in range(nodes)], pods)
    kinds = snapshot.number(pods).tolist()
    began = time.perf_counter()
    for kind in map(KindId, kinds):
        rows = feasible(snapshot, kind).rows
        if len(rows):
            snapshot.place(kind, int(rows[0]))
    return time.perf_counter() - began


def kind_by_kind(pods: list[Pod], nodes: int) -> float:
    """Seconds of packing the same pods onto as many nodes, kinds together."""
    snapshot = ClusterSnapshot.build([a_node(number) for number in range(nodes)], pods)
    kinds = snapshot.number(pods)
    began = time.perf_counter()
    place_pods(snapshot, np.sort(kinds), rows=np.arange(nodes))
    return time.perf_counter() - began
