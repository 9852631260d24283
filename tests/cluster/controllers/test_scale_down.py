"""Forty nodes whose load falls to 30 %: drained side by side, with the real controllers making every pod again elsewhere.

In the middle a budget holds one node up, and 200 new pods need the room of nodes that are being drained. Then once more with
twenty nodes, undisturbed, one drain at a time. `make cluster SCALE_DOWN=1 NODES=300 PODS=6000` runs both at one size.
"""

import os
from collections.abc import Iterator
from typing import Any, Final

import anyio
import pytest

from tests.cluster.support.fallen import CPU, WORKLOADS, Fallen, fresh_drains, running_pods, tight_burst
from tests.cluster.support.ground import Ground
from tests.cluster.support.judgement import Judgement, judged
from tests.cluster.support.removals import History, followed
from tests.cluster.support.stage import Stage
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

#: Nodes, pods, and how many nodes to drain at a time: smaller than what is asked for by command, so that it fits CI. One drain
#: after another takes eight seconds a node.
_SIZES: Final = ((40, 800, 5), (20, 400, 1))
_ASKED: Final = os.environ.get("SLACKWATER_TEST_SCALE_DOWN")
REMOVALS: Final = 10
BURST: Final = 200


def _sizes() -> Iterator[tuple[int, int, int]]:
    if not _ASKED:
        yield from _SIZES
        return
    nodes, pods, *drains = (int(text) for text in _ASKED.split(","))
    yield from ((nodes, pods, each) for each in drains)


SIZES: Final = tuple(_sizes())
_LONGEST: Final = max(480 + 5 * nodes + pods // 2 for nodes, pods, _ in SIZES)


def settings_of(ground: Ground, nodes: int, drains: int) -> dict[str, Any]:
    group = {
        "name": "pool",
        "provider": "kwok",
        "maxSize": 2 * nodes,
        "maxNodesInCreation": 0,
        "template": {"status": {"capacity": {"cpu": f"{CPU}m", "memory": "64Gi", "pods": "110"}}},
        "kwok": {"appearAfter": "1s", "bootAfter": "500ms"},
    }
    scale_down = {
        "unneededTime": "10s",
        "delayAfterAdd": "20s",
        "maxScaleDownParallelism": REMOVALS,
        "maxDrainParallelism": drains,
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


@pytest.mark.timeout(2 * _LONGEST)
@pytest.mark.parametrize(("nodes", "pods", "drains"), SIZES)
async def test_a_cluster_whose_load_falls_shrinks_and_no_pod_is_evicted_without_need(
    stage: Stage, ground: Ground, nodes: int, pods: int, drains: int
) -> None:
    fallen = Fallen(ground, nodes, pods)
    async with stage.control_plane.session() as watching, followed(watching) as history:
        service = await stage.up(settings_of(ground, nodes, drains), kubeconfig=stage.control_plane.kubeconfig("admin"))
        await fill(fallen, history)
        grown = len(history.there["node"])
        await fall(fallen, history)  # which no budget holds back
        since, began = history.version, anyio.current_time()
        calm: list[Judgement] = []
        if drains > 1:
            await a_budget_holds_one_node_up(fallen, history)
            calm.append(judged(history, since=since))
            await a_burst_needs_the_room_of_drains(fallen, history)
            since = history.version
        await packed(fallen, history)
        makespan = anyio.current_time() - began
        calm.append(judged(history, since=since))
    assert grown >= nodes
    for found in calm:
        assert found.below == [], "no budget below its minimum at any moment"
        assert found.refused == {}, "nobody is evicted for whom there is no room elsewhere"
        assert found.most_drains <= drains
        assert found.most_removals <= REMOVALS
    assert max(found.most_drains for found in calm) == drains, "side by side"

    async def counted() -> int:
        return (await service.metrics()).total("cluster_autoscaler_scaled_down_nodes_total")

    want = grown - len(history.there["node"])
    wanted = "every removal counted, by the end of its loop"
    await eventually(counted, lambda n: n >= want, within_seconds=60, wanted=wanted, every_seconds=1)
    metrics = await service.metrics()
    assert metrics.total("slackwater_autoscaler_failed_loops_total") == 0
    evicted = metrics.total("cluster_autoscaler_evicted_pods_total")
    how = "with a budget that holds a node up and 200 new pods in between" if drains > 1 else "undisturbed"
    print(f"\n{grown} nodes -> {grown - want} in {makespan:.0f} s, {evicted} pods evicted, {drains} at a time, {how}")


def patience_with(fallen: Fallen) -> float:
    """The seconds that so many pods may take to start, or to end."""
    return 60 + fallen.pods / 5


async def fill(fallen: Fallen, history: History) -> None:
    await fallen.deploy()
    running = fallen.pods // WORKLOADS * WORKLOADS + 2
    await fallen.until_running(history, running, within_seconds=patience_with(fallen))


async def fall(fallen: Fallen, history: History) -> None:
    """Until the pods that are left are alone; on a busy machine the first nodes go meanwhile."""
    for name in fallen.names:
        await fallen.scale(name, fallen.left)
    await fallen.until_running(history, WORKLOADS * fallen.left + 2, within_seconds=patience_with(fallen))


async def some_fresh_drains(history: History) -> list[str]:
    async def fresh() -> list[str]:
        return fresh_drains(history)

    wanted = "two drains that begin"
    return await eventually(fresh, lambda names: len(names) > 1, within_seconds=120, wanted=wanted, every_seconds=0.1)


async def a_budget_holds_one_node_up(fallen: Fallen, history: History) -> None:
    """A pod of one draining node gets a budget that allows nothing: the others go on, and so do later ones."""
    await fallen.guard("held", {"held": "yes"}, minAvailable=1)
    free = fallen.without_budget

    async def pods_to_hold() -> tuple[list[str], list[tuple[str, str]]]:
        drains, on = fresh_drains(history), running_pods(history)
        pods = ((name, pod) for name in drains for pod in on.get(name, ()))
        return drains, [(name, pod) for name, pod in pods if history.there["pod"][pod]["labels"].get("app") in free]

    wanted = "two drains that begin, with a pod that no budget covers on one of them"
    drains, found = await eventually(
        pods_to_hold, lambda seen: len(seen[0]) > 1 and bool(seen[1]), within_seconds=120, wanted=wanted, every_seconds=0.1
    )
    node, held = found[0]
    others = [name for name in drains if name != node]
    await fallen.label(held.partition("/")[2], held="yes")
    before = len(history.there["node"])

    async def left() -> tuple[int, int]:
        nodes = history.there["node"]
        return sum(name in nodes for name in others), len(nodes)

    def gone(now: tuple[int, int]) -> bool:
        return not now[0] and now[1] <= before - len(others) - 3

    await eventually(left, gone, within_seconds=90, wanted="the other drains and three later ones done", every_seconds=0.2)
    assert history.there["node"][node]["tainted"]
    assert not history.there["pod"][held]["deleting"], "the API server refuses its eviction"
    await fallen.unguard("held")

    async def there() -> bool:
        return node in history.there["node"]

    await eventually(there, lambda still: not still, within_seconds=60, wanted="the node goes as soon as its budget allows it")


async def a_burst_needs_the_room_of_drains(fallen: Fallen, history: History) -> None:
    """Pods that fit only with the room of nodes that are being drained: these drains end, before any node is bought.
    A drain that has emptied its node by then cannot be given up any more: its machine is being deleted."""
    drains = await some_fresh_drains(history)
    pods, cpu = tight_burst(history, drains, about=BURST, per_node=fallen.per_node)
    since = history.version
    await fallen.burst(pods, cpu=cpu)
    await fallen.until_running(history, WORKLOADS * fallen.left + 2 + pods, within_seconds=120)
    found = judged(history, since=since + 1)
    print(
        f"\n{pods} pods of {cpu} m in the middle of {len(drains)} drains: {len(found.given_up)} given up, {found.added} added"
    )
    assert found.below == []
    assert found.given_up
    assert not found.added or set(drains) <= {*found.given_up, *found.emptied}
    await fallen.scale("burst", 0)
    await fallen.until_running(history, WORKLOADS * fallen.left + 2, within_seconds=60)


async def packed(fallen: Fallen, history: History) -> None:
    async def nodes() -> int:
        return len(history.there["node"])

    await eventually(
        nodes,
        lambda now: now <= fallen.enough,
        within_seconds=240 + 8 * fallen.nodes,
        wanted=f"{fallen.enough} nodes",
        every_seconds=0.5,
    )
    await fallen.until_running(history, WORKLOADS * fallen.left + 2, within_seconds=60)
