"""From no node at all: pods pend, nodes come in batches, some fail and are replaced, every pod runs, and no node is too many.

`make cluster SCALE_UP=1 NODES=500 PODS=20000` runs the same at full size and prints the time line.
"""

import os
from functools import partial
from typing import Any, Final

import anyio
import pytest
import yaml

from slackwater.adapters.kube.client import open_client
from slackwater.app import rbac
from slackwater.app.settings import loads
from tests.cluster.clusterapi import crds
from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.growth import of_deployment, of_kwok, watched
from tests.cluster.support.slackwater_process import SlackwaterProcess
from tests.cluster.support.stage import Stage
from tests.support.configuration import HEAD
from tests.support.controlplane.stack import ControlPlane
from tests.support.machines import MachineController, a_scaled, sizes
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

#: Nodes and pods: smaller than what is asked for by command, so that it fits CI.
NODES, PODS = (int(text) for text in os.environ.get("SLACKWATER_TEST_SCALE_UP", "50,2000").split(","))
PER_NODE: Final = PODS // NODES
#: A fifth of all at once, as 100 of 500 are.
BATCH: Final = max(NODES // 5, 1)
FAILING: Final = 0.05
_GROUND: Final = "slackwater.test/ground"
_CPU, _MEMORY = 16_000, 64 * 1024


def settings_of(ground: Ground, *, failing: float) -> dict[str, Any]:
    """One kwok group; nodes appear a second or two after they were asked for."""
    group = {
        "name": f"{ground.name}-pool",
        "provider": "kwok",
        "maxSize": 2 * NODES,
        "maxNodesInCreation": BATCH,
        "template": {
            "metadata": {"labels": {_GROUND: ground.name, "pool": ground.name}},
            "status": {"capacity": {"cpu": f"{_CPU}m", "memory": f"{_MEMORY}Mi", "pods": "110"}},
        },
        "kwok": {"appearAfter": "1s", "appearSpread": "1s", "bootAfter": "500ms", "failing": failing},
    }
    return {
        "autoscaler": {
            "enabled": True,
            "scanInterval": "3s",
            "maxNodesInCreation": BATCH,
            # Of a machine with more to do than two cores can, calls may go unanswered: this is not about how long that is held
            # against a group.
            "creation": {"backoff": {"initial": "15s", "max": "30s"}},
            "nodeGroups": [group],
            "providers": {"kwok": {"namespace": ground.name, "seed": 7}},
            "statusConfigMap": f"{ground.name}-status",
        }
    }


async def grant(ground: Ground, settings: dict[str, Any]) -> None:
    """What `slackwater config rbac` gives for these settings, under names of this test's own."""
    read = loads(yaml.safe_dump({**HEAD, **settings}))
    for item in rbac.rights(read, rbac.user("slackwater")):
        for named in (item["metadata"], item.get("roleRef", {"name": ""})):
            named["name"] += f"-{ground.name}"
        await ground.create(rbac.collection_path(item), item)


@pytest.mark.timeout(300 + PODS // 4)
async def test_pods_without_any_node_get_just_the_nodes_they_need_in_batches(
    stage: Stage, ground: Ground, control_plane: ControlPlane
) -> None:
    settings = settings_of(ground, failing=FAILING)
    await grant(ground, settings)
    group = settings["autoscaler"]["nodeGroups"][0]["name"]
    within_seconds = 60 + PODS / 10
    await ground.make_pods(
        a_pod(f"p-{number}", cpu=f"{_CPU // PER_NODE}m", memory=f"{_MEMORY // PER_NODE // 2}Mi") for number in range(PODS)
    )
    service = await stage.up()
    await service.kill()
    service.write_config(settings)
    async with (
        control_plane.session() as api,
        watched(own := Ground(api, ground.name), partial(of_kwok, own, group)) as scale_up,
    ):
        await service.start()
        await ground.until_bound(PODS, within_seconds=within_seconds)

        await until_running(ground, PODS, within_seconds=within_seconds)
        await until_nothing_comes(service)
    print(f"\n{PODS} pods, {NODES} nodes, {FAILING:.0%} failing, at most {BATCH} on their way\n{scale_up.table()}")

    assert scale_up.moments[-1].ready == NODES, "as many as the plan: no node too many, none too few"
    assert scale_up.most_in_creation <= BATCH
    assert scale_up.most_nodes <= NODES
    metrics = await service.metrics()
    assert metrics.total("cluster_autoscaler_failed_node_creations_total") > 0
    assert metrics.total("cluster_autoscaler_scaled_up_nodes_total") >= NODES
    assert metrics.total("slackwater_autoscaler_failed_loops_total") == 0
    status = await ground.read(f"/api/v1/namespaces/kube-system/configmaps/{ground.name}-status")
    (reported,) = yaml.safe_load(status["data"]["status"])["nodeGroups"]
    assert (reported["name"], reported["health"]["cloudProviderTarget"]) == (group, NODES)
    events = await ground.read(f"/apis/events.k8s.io/v1/namespaces/{ground.name}/events")
    assert "TriggeredScaleUp" in {event["reason"] for event in events["items"]}


async def test_machine_deployments_grow_in_batches_too(stage: Stage, ground: Ground, control_plane: ControlPlane) -> None:
    """The controller is a double that behaves as Cluster API's; its objects, its Nodes and the scale subresource are real."""
    nodes, per_node, batch = 50, 20, 10
    await crds.install(ground.api)
    annotations = {
        "capacity.cluster-autoscaler.kubernetes.io/cpu": "4",
        "capacity.cluster-autoscaler.kubernetes.io/memory": "16Gi",
        **sizes(0, 2 * nodes),
    }
    settings = {
        "autoscaler": {
            "enabled": True,
            "scanInterval": "3s",
            "maxNodesInCreation": batch,
            "providers": {"clusterapi": {"namespace": ground.name}},
            "statusConfigMap": f"{ground.name}-status",
        }
    }
    await grant(ground, settings)
    async with open_client(kubeconfig=str(control_plane.kubeconfig("admin"))) as admin, anyio.create_task_group() as tasks:
        capacity = {"cpu": "4", "memory": "16Gi", "pods": "110"}
        controller = MachineController(admin, ground.name, node_labels={_GROUND: ground.name}, capacity=capacity)
        await controller.create(
            "machinedeployments", a_scaled("MachineDeployment", "pool", replicas=0, annotations=annotations)
        )
        tasks.start_soon(keep_settling, controller)
        service = await stage.up(settings)
        path = f"/apis/cluster.x-k8s.io/v1beta1/namespaces/{ground.name}/machinedeployments/pool"
        async with (
            control_plane.session() as api,
            watched(own := Ground(api, ground.name), partial(of_deployment, own, path, _GROUND)) as scale_up,
        ):
            await ground.make_pods(a_pod(f"p-{number}", cpu="200m", memory="256Mi") for number in range(nodes * per_node))
            await until_running(ground, nodes * per_node, within_seconds=150)
            await until_nothing_comes(service)
        tasks.cancel_scope.cancel()
    print(f"\n{nodes * per_node} pods, {nodes} machines, at most {batch} on their way\n{scale_up.table()}")
    assert scale_up.moments[-1].ready == nodes
    assert scale_up.most_in_creation <= batch
    assert scale_up.most_nodes <= nodes


async def keep_settling(controller: MachineController) -> None:
    """As a controller manager does, but twice a second."""
    while True:
        await controller.settle()
        await anyio.sleep(0.5)


async def until_running(ground: Ground, count: int, *, within_seconds: float) -> None:
    async def running() -> int:
        return len(await ground.names_running())

    await eventually(running, lambda n: n == count, within_seconds=within_seconds, wanted="all running", every_seconds=1)


async def until_nothing_comes(service: SlackwaterProcess) -> None:
    async def reported() -> dict[str, Any]:
        found: dict[str, Any] = (await service.dumpstate())["autoscaler"]
        return found

    quiet = "nothing on its way, nothing queued"
    await eventually(reported, lambda last: not last["inCreation"] and not last["queued"], within_seconds=60, wanted=quiet)
