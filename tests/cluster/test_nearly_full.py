"""Nearly full nodes: no node ever above its Total, hardly a bind refused, and whatever can fit is placed."""

import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio
import pytest

from tests.cluster.support.bodies import Json, a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.requests_formula import Asked, asked_by, total_by_node
from tests.cluster.support.same_state import TotalGuard, allocatable, over_total, same_state
from tests.cluster.support.slackwater_process import SlackwaterProcess
from tests.cluster.support.stage import Stage
from tests.support.seeds import a_seed
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

#: Pods for each node: a little more than fit.
PODS_PER_NODE = 20
FILLED_WITHIN_SECONDS = 90.0
WAVES, PER_WAVE = 10, 20
GI = 1024**3
#: (CPU, memory) of the mix: CPU is scarce for some, memory for others; on average 812 milliCPU and 1.63 GiB.
SIZES = (("250m", "512Mi"), ("500m", "3Gi"), ("1", "1Gi"), ("1500m", "2Gi"))
#: Of each node, after what `nodes.system` sets aside: the pods ask for one part in a hundred more than there is.
TOTAL = Asked(cpu=16_100, memory=32 * GI)
NOTHING = Asked()


async def test_2000_pods_fill_100_nodes_to_the_brim_and_never_beyond(stage: Stage, ground: Ground) -> None:
    service = await up_with(stage, ground, NOTHING, nodes=100)

    async with never_over_total(service):
        names = await ground.make_pods(a_pod_of_the_mix(number) for number in range(100 * PODS_PER_NODE))
        await until_nothing_fits(ground, NOTHING)

    assert set(await ground.pods()) == set(names)
    await nothing_went_wrong(stage, ground, NOTHING)


async def test_where_only_our_accounting_says_full_pods_that_come_and_go_never_take_a_node_over_total(
    stage: Stage, ground: Ground
) -> None:
    system = Asked(cpu=1_900, memory=4 * GI)
    rng = random.Random(a_seed())
    service = await up_with(stage, ground, system, nodes=50)
    pods = 50 * PODS_PER_NODE

    async with never_over_total(service):
        names = set(await ground.make_pods(a_pod_of_the_mix(number) for number in range(pods)))
        for wave in range(1, WAVES + 1):
            await stage.until_bound_so_far(wave * pods // (WAVES + 1), within_seconds=FILLED_WITHIN_SECONDS)
            # Bound ones: a pod that is deleted while it is being bound is refused by the API server.
            going = set(rng.sample(sorted(names.intersection(stage.bound_so_far())), PER_WAVE))
            await ground.delete_pods(going)
            names -= going
            names |= set(await ground.make_pods(a_pod_of_the_mix(pods + PER_WAVE * wave + n) for n in range(PER_WAVE)))
        await until_nothing_fits(ground, system)

    assert set(await ground.pods()) == names
    await nothing_went_wrong(stage, ground, system)


async def up_with(stage: Stage, ground: Ground, system: Asked, *, nodes: int) -> SlackwaterProcess:
    """The service with `system` set aside on every node: whatever it is, Total is the same."""
    await ground.make_nodes(nodes, cpu=f"{TOTAL.cpu + system.cpu}m", memory=str(TOTAL.memory + system.memory))
    return await stage.up({"nodes": {"system": {"cpu": f"{system.cpu}m", "memory": str(system.memory)}}})


def a_pod_of_the_mix(number: int) -> Json:
    cpu, memory = SIZES[number % len(SIZES)]
    return a_pod(f"p-{number:04}", cpu=cpu, memory=memory)


@asynccontextmanager
async def never_over_total(service: SlackwaterProcess) -> AsyncIterator[None]:
    """Watches /dumpstate throughout the block."""
    guard = TotalGuard(service)
    async with anyio.create_task_group() as group:
        group.start_soon(guard.run)
        yield
        group.cancel_scope.cancel()
    assert guard.looks >= 20


async def until_nothing_fits(ground: Ground, system: Asked) -> None:
    """Waits until no pending pod would fit on any node, by the API's own objects. Nothing may leave meanwhile."""

    async def still_fitting() -> list[str]:
        pods = await ground.pods()
        room = await room_by_node(ground, pods, system)
        waiting = {name: asked_by(pod) for name, pod in pods.items() if "nodeName" not in pod["spec"]}
        found = [f"{name} on {node}" for name, asked in waiting.items() if (node := next(fitting(asked, room), None))]
        return found[:10]

    await eventually(
        still_fitting,
        lambda found: not found,
        within_seconds=FILLED_WITHIN_SECONDS,
        wanted="no pending pod that fits on a node",
        every_seconds=1.0,
    )


async def nothing_went_wrong(stage: Stage, ground: Ground, system: Asked) -> None:
    """Fewer than one bind in a thousand was refused, and no node is above its Total, nor far below it."""
    dump = await same_state(stage.service, ground)
    assert over_total(dump) == []
    room = await room_by_node(ground, await ground.pods(), system)
    assert [name for name, left in room.items() if left.cpu < 0 or left.memory < 0] == []
    assert sum(left.cpu for left in room.values()) < 0.06 * len(room) * TOTAL.cpu, "the nodes never got nearly full"

    bound = stage.bound_so_far()
    refused = (await stage.service.metrics()).by("slackwater_bind_refusals_total", "reason")
    print(f"bound={len(bound)} pending={len(await ground.pending())} refused={refused}")
    assert sum(refused.values()) < len(bound) / 1000


async def room_by_node(ground: Ground, pods: dict[str, Json], system: Asked) -> dict[str, Asked]:
    """What is left of each node's Total, worked out from the API's objects."""
    nodes = await ground.nodes()
    taken = total_by_node(pods.values(), nodes)
    total = {node["metadata"]["name"]: allocatable(node) for node in nodes}
    return {
        name: Asked(of.cpu - system.cpu - taken[name].cpu, of.memory - system.memory - taken[name].memory)
        for name, of in total.items()
    }


def fitting(asked: Asked, room: dict[str, Asked]) -> Iterator[str]:
    return (name for name, left in room.items() if asked.cpu <= left.cpu and asked.memory <= left.memory)
