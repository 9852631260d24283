"""Nodes that go, shrink or are cordoned, and pods that end: the cluster state follows, and room that appears is used."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.requests_formula import Asked
from tests.cluster.support.same_state import amounts, reserved, same_state
from tests.cluster.support.slackwater_process import SlackwaterProcess
from tests.cluster.support.stage import Stage
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

GI = 1024**3
SOON = 60.0


async def test_a_deleted_node_leaves_the_state_and_counts_its_pods_again_when_it_comes_back(
    stage: Stage, ground: Ground
) -> None:
    (gone,) = await ground.make_nodes(1, tag="gone")
    service = await stage.up()
    await ground.make_pods([a_pod("stays", cpu="2", memory="4Gi")])
    assert await ground.until_placed("stays", within_seconds=60) == gone
    await same_state(service, ground)

    await ground.delete_node(gone)
    await until_state(service, lambda dump: reserved(dump) == {}, wanted="no node")
    (other,) = await ground.make_nodes(1, tag="other")
    await ground.make_pods([a_pod("next")])
    assert await ground.until_placed("next", within_seconds=60) == other
    assert reserved(await same_state(service, ground))[other] == Asked(100, 128 * 1024**2)

    await ground.make_nodes(1, tag="gone")
    await until_state(service, lambda dump: reserved(dump).get(gone) == Asked(2000, 4 * GI), wanted="the pod counted again")


async def test_a_shrunk_node_is_as_small_as_it_says_and_takes_no_more_pods(stage: Stage, ground: Ground) -> None:
    (shrunk,) = await ground.make_nodes(1, tag="shrunk", cpu="8")
    service = await stage.up()
    await ground.make_pods([a_pod("before", cpu="4")])
    assert await ground.until_placed("before", within_seconds=60) == shrunk

    await ground.patch_node(shrunk, {"status": {"allocatable": {"cpu": "3"}}}, part="/status")
    await until_state(service, lambda dump: amounts(dump, "total")[shrunk].cpu == 3000, wanted="a Total of 3 CPUs")
    (other,) = await ground.make_nodes(1, tag="other", cpu="8")
    await ground.make_pods([a_pod("after", cpu="1")])

    assert await ground.until_placed("after", within_seconds=60) == other
    assert reserved(await same_state(service, ground))[shrunk].cpu == 4000


async def test_a_cordoned_node_gets_no_pods_until_it_is_uncordoned(stage: Stage, ground: Ground) -> None:
    (only,) = await ground.make_nodes(1)
    service = await stage.up_service()
    await ground.patch_node(only, {"spec": {"unschedulable": True}})
    await until_state(service, lambda dump: dump["nodes"][0]["unschedulable"], wanted="an unschedulable node")
    await stage.up_scheduler()  # a running one might see the pod before the change of the node
    await ground.make_pods([a_pod("waits")])
    await ground.until_refused("waits")
    assert await ground.pending() == ["waits"]

    await ground.patch_node(only, {"spec": {"unschedulable": False}})
    assert await ground.until_placed("waits", within_seconds=60) == only
    await same_state(service, ground)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_the_room_of_a_pod_that_ended_is_free_though_the_pod_is_still_there(
    stage: Stage, ground: Ground, phase: str
) -> None:
    (only,) = await ground.make_nodes(1, cpu="2")
    service = await stage.up()
    await ground.make_pods([a_pod("job", cpu="2")])
    await ground.until_bound(1, within_seconds=60)
    await ground.make_pods([a_pod("next", cpu="1500m")])
    await ground.until_refused("next")

    await ground.finish_pod("job", phase=phase)

    assert await ground.until_placed("next", within_seconds=60) == only
    assert reserved(await same_state(service, ground)) == {only: Asked(1500, 128 * 1024**2)}
    assert await ground.placed() == {"job": only, "next": only}


async def until_state(service: SlackwaterProcess, holds: Callable[[dict[str, Any]], bool], *, wanted: str) -> None:
    await eventually(service.dumpstate, holds, within_seconds=SOON, wanted=wanted)
