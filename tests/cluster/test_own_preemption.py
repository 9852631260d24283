"""Where only our accounting leaves no room, kube-scheduler finds no victims: ours make room, and the pod is woken."""

import json
import time
from typing import Any

import anyio
import pytest

from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.same_state import reserved, same_state
from tests.cluster.support.stage import Stage
from tests.cluster.test_preemption import a_priority_class
from tests.cluster.test_preemption_faults import full_nodes, patch, priorities
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

#: From the victim's end until the pod has its node; kube-scheduler tries a refused pod again by itself after five minutes.
PLACED_WITHIN_SECONDS = 60.0


async def test_a_pod_of_higher_priority_gets_the_room_that_only_we_see_taken(stage: Stage, ground: Ground) -> None:
    """In-tree: 4000 - 3000 >= 800. Ours: 3500 - 3000 < 800, so the pod of the lowest priority has to go."""
    (node,) = await ground.make_nodes(1, cpu="4")
    high = await a_priority_class(ground)
    middle = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": f"{high}-m"}, "value": 10}
    await ground.create("/apis/scheduling.k8s.io/v1/priorityclasses", middle)
    service = await stage.up({"nodes": {"system": {"cpu": "500m"}}, "featureGates": {"AsyncPreemption": True}})
    await ground.make_pods([a_pod("middle", cpu="2", priorityClassName=f"{high}-m"), a_pod("low", cpu="1")])
    await ground.until_bound(2, within_seconds=60)

    await ground.make_pods([a_pod("high", cpu="800m", priorityClassName=high)])
    await eventually(ground.pods, lambda pods: len(pods) == 2, within_seconds=60, wanted="one victim gone", every_seconds=0.02)
    gone_at = time.monotonic()
    place = await ground.until_placed("high", within_seconds=PLACED_WITHIN_SECONDS)

    print(f"placed {time.monotonic() - gone_at:.2f} s after the victim had gone")
    assert place == node
    metrics = await service.metrics()
    assert metrics.value("slackwater_preemption_attempts_total") == 1
    ends = {
        result: metrics.value("slackwater_goroutines_execution_total", operation="preemption", result=result)
        for result in ("success", "error", "cancelled")
    }
    assert ends == {"success": 1, "error": 0, "cancelled": 0}
    assert reserved(await same_state(service, ground))[node].cpu == 2800
    pods = await ground.pods()
    assert set(pods) == {"middle", "high"}
    assert "slackwater.dev/preempting" not in pods["high"]["metadata"].get("annotations", {})


async def test_a_machine_whose_reserved_leaves_no_room_is_evicted(stage: Stage, ground: Ground) -> None:
    """Its pod requests half a CPU and it uses three: in-tree, another pod of two fits beside it, or instead of any other."""
    (node,) = await ground.make_nodes(1, cpu="4")
    high = await a_priority_class(ground)
    service = await stage.up()
    await ground.make_pods([a_machine("vm", cpu="500m", uses=3), a_pod("small", cpu="500m")])
    await ground.until_bound(2, within_seconds=60)
    assert reserved(await service.dumpstate())[node].cpu == 3500

    await ground.make_pods([a_pod("high", cpu="2", priorityClassName=high)])
    assert await ground.until_placed("high", within_seconds=60) == node

    pods = await ground.pods()
    assert set(pods) == {"small", "high"}
    assert reserved(await service.dumpstate())[node].cpu == 2500
    assert (await service.metrics()).value("slackwater_preemption_attempts_total") == 1


def a_machine(name: str, *, cpu: str, uses: int) -> dict[str, Any]:
    """The runner pod of a virtual machine that does not scale."""
    pod = a_pod(name, cpu=cpu)
    resources = {
        "cpus": {"min": 1, "max": 4, "use": uses},
        "memorySlots": {"min": 1, "max": 4, "use": 1},
        "memorySlotSize": "256Mi",
    }
    pod["metadata"]["annotations"] = {"vm.neon.tech/resources": json.dumps(resources)}
    return pod


async def test_while_the_gate_is_shut_in_tree_preemption_stays_out_of_every_node(stage: Stage, ground: Ground) -> None:
    """Filter names one node of those it was asked for. On another one in-tree filters leave no room either, and kube-scheduler
    proposes a victim there: nobody but the one victim of ours has to leave, however often the pod is tried."""
    high, middle = await priorities(ground)
    service = await stage.up({"nodes": {"system": {"cpu": "500m"}}})
    await full_nodes(ground, ["a", "b"], middle)
    (third,) = await ground.make_nodes(1, tag="third", cpu="4")
    await ground.make_pods([a_pod("low-c", cpu="3400m", nodeSelector={"kubernetes.io/hostname": third})])
    await ground.until_bound(5, within_seconds=60)
    victims = [f"{ground.pods_path}/low-{name}" for name in "abc"]
    for path in victims:
        await patch(ground, path, {"metadata": {"finalizers": ["slackwater.test/stays"]}})
    await ground.make_pods([a_pod("high", cpu="800m", priorityClassName=high)])

    async def leaving() -> set[str]:
        return {name for name, pod in (await ground.pods()).items() if "deletionTimestamp" in pod["metadata"]}

    async def filters() -> int:
        return (await service.metrics()).value("slackwater_extender_requests_total", verb="filter", code="200")

    (victim,) = await eventually(leaving, bool, within_seconds=60, wanted="one victim told to leave")
    assert victim in {"low-a", "low-b"}
    before = await filters()
    for number in range(8):
        await patch(ground, f"{ground.pods_path}/high", {"metadata": {"labels": {"touched": str(number)}}})
        await anyio.sleep(0.5)
    await eventually(filters, lambda n: n > before, within_seconds=60, wanted="it was tried meanwhile")
    assert await leaving() == {victim}
    assert (await service.metrics()).value("slackwater_gates_shut") == 1
    for path in victims:
        await patch(ground, path, {"metadata": {"finalizers": None}})
    place = await ground.until_placed("high", within_seconds=60)
    assert place != third
    assert set(await ground.pods()) == {"middle-a", "middle-b", "low-a", "low-b", "low-c", "high"} - {victim}
