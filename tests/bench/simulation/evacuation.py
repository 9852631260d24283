"""Can nodes be emptied? Every node by itself, and one after another, each where the ones before left room."""

import time
from collections.abc import Callable, Iterator

import numpy as np

from slackwater.model.ids import Row, UnixTime
from slackwater.simulate.disruptions import Disruptions
from slackwater.simulate.drainability import Facts
from slackwater.simulate.evacuate import Evacuated, Evacuations
from slackwater.simulate.picture import Picture
from slackwater.simulate.tenants import Tenants
from tests.bench.simulation.case import Case, Outcome
from tests.bench.simulation.inputs import a_node, half_used


def cases(nodes: int, planned: int, *, compared: bool) -> Iterator[Case]:
    """`compared`: `planned` nodes are those of Cluster Autoscaler's measurement."""
    yield Case(name=f"each of {nodes:,} nodes emptied by itself", run=_alone(nodes), counted="nodes can go", want=nodes)
    yield Case(name=f"{nodes:,} nodes emptied one after another", run=_together(nodes, range(nodes)), counted="nodes can go")
    yield Case(
        name=f"{planned:,} nodes, the emptier half one after another",
        run=_together(planned, range(0, planned, 2)),
        counted="nodes can go",
        want=optimum(planned),
        goal_seconds=3.0,
        their_seconds=62.2 if compared else None,
        their_count=2187 if compared else None,
    )


def optimum(nodes: int) -> int:
    """As many as can go: the CPU that is asked needs the others."""
    asked = 30 * (400 * -(-nodes // 2) + 800 * (nodes // 2))
    return nodes - -(-asked // 32_000)


def _alone(nodes: int) -> Callable[[], Outcome]:
    machines, running = [a_node(number) for number in range(nodes)], list(half_used(nodes))

    def run() -> Outcome:
        picture, rows = Picture.build(machines, running), np.arange(nodes)
        began = time.perf_counter()
        tenants = Tenants(picture, running)
        can_go = 0
        for row in range(nodes):
            with picture.fork():
                can_go += isinstance(Evacuations(picture, tenants, facts=_facts()).evacuate(Row(row), rows=rows), Evacuated)
        return Outcome(seconds=time.perf_counter() - began, count=can_go)

    return run


def _together(nodes: int, candidates: range) -> Callable[[], Outcome]:
    machines, running = [a_node(number) for number in range(nodes)], list(half_used(nodes))

    def run() -> Outcome:
        picture, rows = Picture.build(machines, running), np.arange(nodes)
        began = time.perf_counter()
        with picture.fork():
            evacuations = Evacuations(picture, Tenants(picture, running), facts=_facts())
            can_go = sum(isinstance(evacuations.evacuate(Row(row), rows=rows), Evacuated) for row in candidates)
        return Outcome(seconds=time.perf_counter() - began, count=can_go)

    return run


def _facts() -> Facts:
    return Facts(now=UnixTime(1.8e9), disruptions=Disruptions(()))
