"""Sixty nodes whose load falls to 30 %: drained side by side, with the real controllers making every pod anew elsewhere.

`make scale-down NODES=300 PODS=6000` runs the same at full size, with `DRAINS=1` one drain at a time.
"""

import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from slackwater.app.controlplane.build import Binaries
from slackwater.app.controlplane.ports import FreePorts
from slackwater.app.controlplane.stack import ControlPlane
from tests.cluster.support.bodies import Json, a_pod
from tests.cluster.support.ground import MERGE_PATCH, Ground
from tests.cluster.support.growth import is_ready
from tests.cluster.support.stage import Stage
from tests.cluster.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

#: Nodes and pods: smaller than what is asked for by command, so that it fits CI.
NODES, PODS, DRAINS = (int(text) for text in os.environ.get("SLACKWATER_TEST_SCALE_DOWN", "60,1200,5").split(","))
PER_NODE: Final = PODS // NODES
WORKLOADS: Final = 6
LEFT: Final = 0.3
REMOVALS: Final = 10
_CPU: Final = 16_000
_TAINT: Final = "ToBeDeletedByClusterAutoscaler"


@pytest.fixture(scope="module")
async def control_plane(
    anyio_backend: str, binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    """With the real controller manager: Deployments make their pods anew, budgets are counted."""
    folder = tmp_path_factory.mktemp("scale-down")
    async with ControlPlane(binaries, directory=folder / "control-plane", controllers=True) as cp:
        yield cp


@pytest.fixture
async def ground(control_plane: ControlPlane) -> AsyncIterator[Ground]:
    async with control_plane.session() as api:
        ground = Ground(api, "shrinking")
        await ground.open()
        yield ground


@pytest.fixture
async def stage(control_plane: ControlPlane, ground: Ground, tmp_path: Path) -> AsyncIterator[Stage]:
    async with Stage(control_plane, ground, folder=tmp_path, ports=FreePorts(random.Random())) as stage:
        yield stage


def settings_of(ground: Ground) -> dict[str, Any]:
    group = {
        "name": "pool",
        "provider": "kwok",
        "maxSize": 2 * NODES,
        "maxNodesInCreation": 0,
        "template": {"status": {"capacity": {"cpu": f"{_CPU}m", "memory": "64Gi", "pods": "110"}}},
        "kwok": {"appearAfter": "1s", "bootAfter": "500ms"},
    }
    scale_down = {
        "unneededTime": "10s",
        "delayAfterAdd": "20s",
        "maxScaleDownParallelism": REMOVALS,
        "maxDrainParallelism": DRAINS,
        "drain": {"settleTime": "1s"},
    }
    return {
        "autoscaler": {
            "enabled": True,
            "scanInterval": "3s",
            "maxNodesInCreation": 0,
            "nodeGroups": [group],
            "providers": {"kwok": {"namespace": ground.name, "seed": 7}},
            "scaleDown": scale_down,
        }
    }


def a_deployment(name: str, replicas: int) -> Json:
    pod = a_pod(name, cpu=f"{_CPU // PER_NODE}m", memory="64Mi", labels={"app": name})
    template = {"metadata": {"labels": {"app": name}}, "spec": {**pod["spec"], "restartPolicy": "Always"}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def a_budget(name: str, **spec: Any) -> Json:
    selector = {"matchLabels": {"app": name}}
    body = {"selector": selector, **spec}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": body}


@dataclass
class Seen:
    """What was true at some moment, as the API server tells."""

    most_tainted: int = 0
    below: list[str] = field(default_factory=list)
    nodes: list[tuple[float, int, int]] = field(default_factory=list)


async def _watch(ground: Ground, seen: Seen) -> None:
    began = anyio.current_time()
    while True:
        nodes = await ground.nodes()
        tainted = sum(any(taint["key"] == _TAINT for taint in node["spec"].get("taints", ())) for node in nodes)
        seen.most_tainted = max(seen.most_tainted, tainted)
        seen.nodes.append((anyio.current_time() - began, len(nodes), tainted))
        budgets = await ground.read(f"/apis/policy/v1/namespaces/{ground.name}/poddisruptionbudgets")
        for budget in budgets["items"]:
            status = budget.get("status", {})
            if status.get("currentHealthy", 0) < status.get("desiredHealthy", 0):
                seen.below.append(f"{budget['metadata']['name']}: {status}")
        await anyio.sleep(0.5)


async def _scale(ground: Ground, name: str, replicas: int) -> None:
    path = f"/apis/apps/v1/namespaces/{ground.name}/deployments/{name}"
    async with ground.api.patch(path, json={"spec": {"replicas": replicas}}, headers=MERGE_PATCH) as answer:
        assert answer.status == 200, await answer.text()


@pytest.mark.timeout(480 + PODS // 2)
async def test_a_cluster_whose_load_falls_shrinks_side_by_side_and_no_budget_is_violated(stage: Stage, ground: Ground) -> None:
    each = PODS // WORKLOADS
    left = int(each * LEFT)
    names = [f"w{number}" for number in range(WORKLOADS)]
    apps, policy = (f"/apis/{group}/namespaces/{ground.name}" for group in ("apps/v1", "policy/v1"))
    for name in names:
        await ground.create(f"{apps}/deployments", a_deployment(name, each))
    await ground.create(f"{apps}/deployments", a_deployment("stuck", 2))

    async def running() -> Counter[str]:
        return Counter(pod["status"].get("phase") for pod in (await ground.pods()).values())

    service = await stage.up(settings_of(ground), kubeconfig=stage.control_plane.kubeconfig("admin"))
    await eventually(
        running, lambda seen: seen["Running"] == PODS + 2, within_seconds=60 + PODS / 10, wanted="all run", every_seconds=2
    )
    grown = sum(map(is_ready, await ground.nodes()))

    for name in names[:3]:
        await ground.create(f"{policy}/poddisruptionbudgets", a_budget(name, maxUnavailable="20%"))
    await ground.create(f"{policy}/poddisruptionbudgets", a_budget("stuck", maxUnavailable=0))
    seen = Seen()
    began = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_watch, ground, seen)
        for name in names:
            await _scale(ground, name, left)
        await eventually(
            running,
            lambda seen: seen.total() == WORKLOADS * left + 2,
            within_seconds=60 + PODS / 10,
            wanted="pods gone",
            every_seconds=2,
        )

        async def sizes() -> tuple[int, int]:
            nodes = await ground.nodes()
            return len(nodes), len(await ground.pending())

        # Half full at the most where nothing is in the way; two nodes are held by the stuck pods.
        enough = int(WORKLOADS * left / PER_NODE / 0.5) + 2
        await eventually(
            sizes, lambda now: now[0] <= enough and not now[1], within_seconds=120 + 3 * NODES, wanted="packed", every_seconds=1
        )
        makespan = anyio.current_time() - began
        tasks.cancel_scope.cancel()

    async def counted() -> float:
        return (await service.metrics()).total("cluster_autoscaler_scaled_down_nodes_total")

    wanted = "every removal counted, by the end of its loop"
    await eventually(counted, lambda n: n >= grown - enough, within_seconds=30, wanted=wanted, every_seconds=1)
    metrics = await service.metrics()
    line = [f"{at:5.0f} s  {nodes:4} nodes  {tainted:3} leaving" for at, nodes, tainted in seen.nodes[::10]]
    evicted = metrics.total("cluster_autoscaler_evicted_pods_total")
    print(f"\n{grown} nodes -> {seen.nodes[-1][1]} in {makespan:.0f} s, {evicted:.0f} pods evicted, {DRAINS} drains at a time")
    print("\n".join(line))
    assert grown >= NODES
    assert seen.below == [], "no budget below its minimum at any moment"
    assert min(2, DRAINS) <= seen.most_tainted <= REMOVALS, "side by side, and no more than allowed"
    assert metrics.total("slackwater_autoscaler_failed_loops_total") == 0
    stuck = {name: pod for name, pod in (await ground.pods()).items() if pod["metadata"]["labels"]["app"] == "stuck"}
    assert {pod["status"]["phase"] for pod in stuck.values()} == {"Running"}
