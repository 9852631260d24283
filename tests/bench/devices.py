"""What plans with devices cost: 5,000 claims on 500 nodes one after another, claims that fit nowhere, and nodes for claims.

From the decoded objects to the plan, in this process; each claim has a pod and a ResourceClaim of its own, so none is like
another. The first answer of a round includes evaluating selectors, since each round begins with a new snapshot.
"""

import time
from collections.abc import Iterator

from slackwater.app.offline import placement_lines
from slackwater.app.offline.cluster import Cluster
from slackwater.app.offline.growth import planned_growth
from slackwater.app.offline.placement import pending_pods, snapshot_of
from slackwater.app.settings import Settings
from slackwater.fit.feasible_nodes import feasible
from slackwater.snapshot.equivalence_groups import KindId
from tests.bench.options import BenchFailed, Options, WriteFrame
from tests.bench.report import Goal, Measurement, Report
from tests.support.answers import json_of
from tests.support.devices import (
    DRIVER,
    Obj,
    ask,
    claim_body,
    class_body,
    cluster_of,
    device,
    devices_of,
    node_body,
    pod_body,
    slice_body,
)

NAME = "devices"

_ON_A_NODE = 10
_MODEL = f'device.attributes["{DRIVER}"].model == "h100"'
_MEMORY = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
_PLANNED = Goal(at_most=2.0)
_REFUSED = Goal(at_most=1.0)


async def measure(options: Options, tell: WriteFrame) -> Report:
    """All parts once a round."""
    nodes = options.nodes or (100 if options.quick else 500)
    claims = options.pods or nodes * _ON_A_NODE
    rounds = options.rounds or (1 if options.quick else 5)
    there = [*_nodes(nodes), class_body()]
    many = cluster_of(*there, *_users(claims, ask(1, _MODEL, _MEMORY)))
    lone = {
        "more devices than a node has": cluster_of(*there, *_users(1, ask(_ON_A_NODE + 1))),
        "more devices of one NUMA node than it has": cluster_of(*there, *_users(1, *([ask(1)] * 6), constraints=(_SAME,))),
    }
    samples: dict[str, list[float]] = {"claims placed": [], **{name: [] for name in lone}, "nodes for half as many claims": []}
    growing = cluster_of(class_body(), *_users(claims // 2, ask(1, _MODEL, _MEMORY)))
    for at in range(rounds):
        tell(f"{NAME}: round {at + 1} of {rounds}")
        samples["claims placed"].append(_placed(many, claims))
        for name, cluster in lone.items():
            samples[name].append(_refused(cluster))
        samples["nodes for half as many claims"].append(_grown(growing, claims // 2))
    goals = {"claims placed": _PLANNED, **dict.fromkeys(lone, _REFUSED), "nodes for half as many claims": None}
    return Report(
        bench=NAME,
        quick=options.quick,
        parameters={"nodes": nodes, "devices": nodes * _ON_A_NODE, "claims": claims},
        measurements=tuple(
            Measurement(subject=name, quantity="whole", unit="s", samples=tuple(found), goal=goals[name])
            for name, found in samples.items()
        ),
        ratios=(),
    )


_SAME: Obj = {"matchAttribute": f"{DRIVER}/numa"}


def _nodes(count: int) -> Iterator[Obj]:
    for name in (f"n{at}" for at in range(count)):
        yield node_body(name, cpu="64")
        devices = (device(f"gpu-{at}", model="h100", uuid=f"{name}-{at}", numa=at % 2) for at in range(_ON_A_NODE))
        yield slice_body(name, *devices)


def _users(count: int, *asks: Obj, constraints: tuple[Obj, ...] = ()) -> Iterator[Obj]:
    spec = devices_of(*asks, constraints=constraints)
    for at in range(count):
        yield claim_body(f"claim-{at}", spec)
        yield pod_body(f"pod-{at}", f"claim-{at}")


def _placed(cluster: Cluster, claims: int) -> float:
    began = time.perf_counter()
    placed = sum(line["node"] is not None for line in map(json_of, placement_lines(cluster, sequential=True)))
    took = time.perf_counter() - began
    if placed != claims:
        raise BenchFailed(f"{NAME}: placed {placed} of {claims} claims")
    return took


def _refused(cluster: Cluster) -> float:
    snapshot = snapshot_of(cluster)
    kind = KindId(int(snapshot.number(pending_pods(cluster))[0]))
    began = time.perf_counter()
    found = feasible(snapshot, kind).rows
    took = time.perf_counter() - began
    if len(found):
        raise BenchFailed(f"{NAME}: a claim that fits nowhere fits on {len(found)} nodes")
    return took


def _grown(cluster: Cluster, claims: int) -> float:
    template = {
        "status": {"capacity": {"cpu": "64", "memory": "256Gi", "pods": "110"}},
        "devices": [{"driver": DRIVER, "count": _ON_A_NODE, "attributes": {"model": "h100"}, "capacity": {"memory": "80Gi"}}],
    }
    group = {"name": "gpu", "max_size": 1_000, "template": template}
    settings = Settings.model_validate({"autoscaler": {"enabled": True, "node_groups": [group], "max_planning_time": "0s"}})
    began = time.perf_counter()
    plan = planned_growth(cluster, settings, accounting=False).found.plan
    took = time.perf_counter() - began
    if plan.n_nodes != -(-claims // _ON_A_NODE):
        raise BenchFailed(f"{NAME}: {plan.n_nodes} nodes for {claims} claims, want one for {_ON_A_NODE}")
    return took
