"""Filter names one node, and the pod is bound there: kube-scheduler's own plug-ins find nothing wrong with the place.

`NODE_CHOICE_PODS=10000` makes the first test as large as it is meant to be (`make cluster NODE_CHOICE=10000`).
"""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.support.bodies import a_pod
from tests.cluster.support.constrained_pods import TAINT, ZONE, ZONES, a_constrained_pod, misplaced
from tests.cluster.support.ground import Ground
from tests.cluster.support.metrics import Samples
from tests.cluster.support.requests_formula import total_by_node
from tests.cluster.support.same_state import same_state
from tests.cluster.support.slackwater_process import SlackwaterProcess
from tests.cluster.support.stage import Stage
from tests.oracle.program import build
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

PODS = int(os.environ.get("NODE_CHOICE_PODS", "300"))
#: 31 pods for each node that takes any, and two in each zone for batch pods: more would not fit.
NODES = max(36, 3 * (-(-PODS // (3 * 31)) + 2))
BOUND_WITHIN_SECONDS = 60.0 + PODS / 5

CHOSEN = "slackwater_node_choices_total"
CHOSEN_MET = "slackwater_node_choices_met_total"


@pytest.fixture(scope="module")
def plugins() -> Path:
    return build()


async def a_cluster(ground: Ground) -> int:
    """Three zones; a third of the nodes have an SSD, and a few are for batch pods alone."""
    each = NODES // len(ZONES)
    for zone in ZONES:
        ssd = each // 3
        await ground.make_nodes(ssd, tag=f"{zone}-ssd", labels={ZONE: zone, "disk": "ssd"})
        await ground.make_nodes(each - ssd - 2, tag=f"{zone}-hdd", labels={ZONE: zone})
        await ground.make_nodes(2, tag=f"{zone}-batch", labels={ZONE: zone}, taints=[TAINT])
    return each * len(ZONES)


async def until_seen(service: SlackwaterProcess, pods: int) -> Samples:
    """The watch has shown the service that all are bound."""

    async def confirmed() -> float:
        return (await service.metrics()).total("slackwater_binds_confirmed_total")

    await eventually(confirmed, lambda n: n >= pods, within_seconds=60, wanted=f"{pods} binds confirmed")
    return await service.metrics()


async def check_places(stage: Stage, ground: Ground, plugins: Path, pods: dict[str, Any]) -> None:
    """No node is over its Total, and each pod stands where kube-scheduler's own plug-ins let it, in the order of binds."""
    nodes = await ground.nodes()
    allocatable = {node["metadata"]["name"]: node["status"]["allocatable"] for node in nodes}
    for name, asked in total_by_node(pods.values(), nodes).items():
        assert asked.cpu <= 1000 * int(allocatable[name]["cpu"]), f"{name} is over Total"
    order = [request.name for request in stage.binds() if request.status == 201]
    assert misplaced(plugins, nodes, pods, order) == []


@pytest.mark.timeout(BOUND_WITHIN_SECONDS + 600)
async def test_pods_that_come_while_kube_scheduler_is_at_work_are_bound_where_a_node_was_chosen(
    stage: Stage, ground: Ground, plugins: Path
) -> None:
    n_nodes = await a_cluster(ground)
    service = await stage.up()
    await ground.make_pods(a_constrained_pod(number, n_nodes=n_nodes) for number in range(PODS))
    pods = await ground.until_bound(PODS, within_seconds=BOUND_WITHIN_SECONDS)

    found = await until_seen(service, PODS)
    assert found.total(CHOSEN) >= 0.8 * PODS, "the rest had one node only, or were the first of their kind"
    assert found.total(CHOSEN_MET) >= 0.97 * found.total(CHOSEN)
    assert found.total("slackwater_admissions_over_total") == 0
    await check_places(stage, ground, plugins, pods)
    await same_state(service, ground)


def _binding_slowly(document: dict[str, Any]) -> None:
    """kube-scheduler sends at most 100 requests a second: 1,440 binds take long enough to be interrupted by a slow test."""
    document["clientConnection"] = {**document.get("clientConnection", {}), "qps": 100, "burst": 50}


async def test_where_kube_scheduler_binds_a_service_killed_in_the_middle_loses_no_pod_and_no_room(
    stage: Stage, ground: Ground
) -> None:
    """Half of each node is set aside in our accounting alone. Nobody said that kube-scheduler learns where pods go: it is."""
    await ground.make_nodes(30, cpu="24")
    service = await stage.up_service({"nodes": {"system": {"cpu": "12"}}})
    await ground.make_pods(a_pod(f"p-{number:04}", cpu="250m") for number in range(1600))
    await stage.up_scheduler(edit=_binding_slowly)

    async def n_bound() -> int:
        return len(await ground.names_bound())

    await eventually(n_bound, lambda n: n >= 60, within_seconds=60, wanted="60 pods bound", every_seconds=0.1)
    before = await service.metrics()
    await service.kill()
    assert await n_bound() < 1200, "it was killed after its work was done"
    await service.start()
    await eventually(n_bound, lambda n: n == 1440, within_seconds=120, wanted="1,440 pods bound", every_seconds=0.3)

    assert "slackwater" not in {request.user for request in stage.binds()}
    assert before.total(CHOSEN) > 0
    pods, nodes = (await ground.pods()).values(), await ground.nodes()
    assert {asked.cpu for asked in total_by_node(pods, nodes).values()} == {12000}
    found = await service.metrics()
    assert found.total("slackwater_admissions_over_total") == 0
    await same_state(service, ground)


async def test_where_kube_scheduler_binds_the_room_is_kept_and_counted_all_the_same(stage: Stage, ground: Ground) -> None:
    """Half of each node is set aside in our accounting alone, so that kube-scheduler's own would put twice as many there."""
    await ground.make_nodes(10, cpu="4")
    service = await stage.up({"nodes": {"system": {"cpu": "2"}}})
    await ground.make_pods(a_pod(f"p-{number:03}", cpu="500m") for number in range(45))

    async def n_bound() -> int:
        return len(await ground.names_bound())

    await eventually(n_bound, lambda n: n == 40, within_seconds=60, wanted="40 pods bound", every_seconds=0.3)
    assert "slackwater" not in {request.user for request in stage.binds()}
    pods, nodes = (await ground.pods()).values(), await ground.nodes()
    assert {asked.cpu for asked in total_by_node(pods, nodes).values()} == {2000}
    found = await service.metrics()
    assert (found.total("slackwater_binds_confirmed_total"), found.total("slackwater_pods_adopted_total")) == (40, 0)
    assert found.total("slackwater_admissions_over_total") == 0
