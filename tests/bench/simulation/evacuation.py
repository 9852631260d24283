"""Can nodes be emptied? Every node by itself, and one after another, each where the ones before left room; and the plan of a
whole loop: state, rules, what each node is worth, hints of the loop before."""

import time
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from slackwater.fit.drainability import RuleFacts
from slackwater.fit.evacuation import Evacuated, Evacuations
from slackwater.fit.remaining_pdb_tracker import Disruptions
from slackwater.model.ids import Row, UnixTime
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.running_pods import RunningPods
from tests.bench.simulation.case import Case, Outcome
from tests.bench.simulation.inputs import a_node, half_used
from tests.bench.simulation.removal import removal
from tests.support import installed

_NOW: Final = UnixTime(1.8e9)


def cases(nodes: int, planned: int, *, compared: bool) -> Iterator[Case]:
    """`compared`: `planned` nodes are those of Cluster Autoscaler's measurement."""
    yield Case(name=f"each of {nodes:,} nodes emptied by itself", run=_alone(nodes), counted="nodes can go", want=nodes)
    yield Case(name=f"{nodes:,} nodes emptied one after another", run=_together(nodes, range(nodes)), counted="nodes can go")
    yield Case(
        name=f"{planned:,} nodes, the emptier half one after another",
        run=_together(planned, range(0, planned, 2)),
        counted="nodes can go",
        want=optimum(planned),
    )
    whole = f"{planned:,} nodes, half of them under-used: scale-down's whole plan"
    for name, again, seconds in ((whole, False, 62.2), (f"{whole}, the next loop", True, 41.8)):
        yield Case(
            name=name,
            run=_planned(planned, again=again),
            counted="nodes can go",
            want=optimum(planned),
            goal_seconds=3.0,
            their_seconds=seconds if compared else None,
            their_count=2187 if compared else None,
        )


def optimum(nodes: int) -> int:
    """As many as can go: the CPU that is asked needs the others."""
    asked = 30 * (400 * -(-nodes // 2) + 800 * (nodes // 2))
    return nodes - -(-asked // 32_000)


def _alone(nodes: int) -> Callable[[], Outcome]:
    machines, running = [a_node(number) for number in range(nodes)], list(half_used(nodes))

    def run() -> Outcome:
        snapshot, rows = ClusterSnapshot.build(machines, running), np.arange(nodes)
        began = time.perf_counter()
        running_pods = RunningPods(snapshot, running)
        can_go = 0
        for row in range(nodes):
            with snapshot.fork():
                can_go += isinstance(
                    Evacuations(snapshot, running_pods, facts=_facts()).evacuate(Row(row), rows=rows), Evacuated
                )
        return Outcome(seconds=time.perf_counter() - began, count=can_go)

    return run


def _together(nodes: int, candidates: range) -> Callable[[], Outcome]:
    machines, running = [a_node(number) for number in range(nodes)], list(half_used(nodes))

    def run() -> Outcome:
        snapshot, rows = ClusterSnapshot.build(machines, running), np.arange(nodes)
        began = time.perf_counter()
        with snapshot.fork():
            evacuations = Evacuations(snapshot, RunningPods(snapshot, running), facts=_facts())
            can_go = sum(isinstance(evacuations.evacuate(Row(row), rows=rows), Evacuated) for row in candidates)
        return Outcome(seconds=time.perf_counter() - began, count=can_go)

    return run


def _planned(nodes: int, *, again: bool) -> Callable[[], Outcome]:
    return removal([a_node(number) for number in range(nodes)], list(half_used(nodes)), again=again)


def _facts() -> RuleFacts:
    return RuleFacts(now=_NOW, policy=installed.BLOCKED_BY, disruptions=Disruptions(()))
