"""Pods with claims of devices: kube-scheduler allocates them beside Slackwater, and nodes come for claims that wait.

No kubelet and no driver runs here: the tests publish the slices that a driver would publish.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import pytest

from tests.cluster.support.bodies import Json, a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.same_state import same_state
from tests.cluster.support.stage import Stage
from tests.cluster.test_scale_up import grant, until_nothing_comes
from tests.support.controlplane.stack import ControlPlane
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster, pytest.mark.timeout(300)]

_API: Final = "/apis/resource.k8s.io/v1"
_GROUP: Final = "slackwater.dev/node-group"
_ON_A_NODE: Final = 2


def _driver(ground: Ground) -> str:
    return f"{ground.name}.example.com"


def _object(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


async def publish(ground: Ground, node: str, devices: int = _ON_A_NODE) -> None:
    """A slice with so many devices of the ground's own driver."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    named = [{"name": f"gpu-{number}"} for number in range(devices)]
    spec = {"driver": _driver(ground), "pool": pool, "nodeName": node, "devices": named}
    await ground.create(f"{_API}/resourceslices", _object("ResourceSlice", f"slice-of-{node}", spec))


async def offer(ground: Ground) -> None:
    """A DeviceClass for the ground's driver, and a template of claims for one device of it."""
    selectors = [{"cel": {"expression": f'device.driver == "{_driver(ground)}"'}}]
    await ground.create(f"{_API}/deviceclasses", _object("DeviceClass", ground.name, {"selectors": selectors}))
    one = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": ground.name}}]}}
    template = _object("ResourceClaimTemplate", "one", {"spec": one})
    await ground.create(f"{_API}/namespaces/{ground.name}/resourceclaimtemplates", template)


def with_claim(name: str) -> Json:
    return a_pod(name, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}])


async def allocated(ground: Ground) -> dict[str, str]:
    """The device of each pod, as pool/device, from the claims that are reserved for pods."""
    claims = (await ground.read(f"{_API}/namespaces/{ground.name}/resourceclaims"))["items"]
    found = {}
    for claim in claims:
        for user in claim.get("status", {}).get("reservedFor", ()):
            (result,) = claim["status"]["allocation"]["devices"]["results"]
            found[user["name"]] = f"{result['pool']}/{result['device']}"
    return found


async def test_every_device_is_allocated_once_and_a_pod_without_one_gets_the_next_released_one(
    stage: Stage, ground: Ground
) -> None:
    nodes = await ground.make_nodes(12)
    with_devices = nodes[:10]
    for node in with_devices:
        await publish(ground, node)
    await offer(ground)
    await grant(ground, {})
    service = await stage.up()
    names = await ground.make_pods(
        with_claim(f"p-{number}") if number % 2 else a_pod(f"plain-{number}") for number in range(40)
    )
    pods = await ground.until_bound(40, within_seconds=90)
    got = await allocated(ground)
    claiming = [name for name in names if name.startswith("p-")]
    assert sorted(got) == sorted(claiming)
    assert Counter(got.values()) == Counter(f"{node}/gpu-{at}" for node in with_devices for at in range(_ON_A_NODE))
    assert {name: device.split("/")[0] for name, device in got.items()} == {
        name: pods[name]["spec"]["nodeName"] for name in claiming
    }
    await same_state(service, ground)

    await ground.make_pods([with_claim("late")])
    await ground.until_refused("late")
    await ground.delete_pods([claiming[0]])
    node = await ground.until_placed("late", within_seconds=90)
    assert (await allocated(ground))["late"] == got[claiming[0]]
    assert node == got[claiming[0]].split("/")[0]
    metrics = await service.metrics()
    assert metrics.total("slackwater_unexpected_binds_total") == 0
    await same_state(service, ground)


def settings_of(ground: Ground) -> dict[str, Any]:
    group = {
        "name": f"{ground.name}-pool",
        "provider": "kwok",
        "maxSize": 10,
        "template": {
            "metadata": {"labels": {"pool": ground.name}},
            "status": {"capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"}},
            "devices": [{"driver": _driver(ground), "count": _ON_A_NODE}],
        },
        "kwok": {"appearAfter": "1s", "bootAfter": "500ms"},
    }
    return {
        "autoscaler": {
            "enabled": True,
            "scanInterval": "2s",
            "nodeGroups": [group],
            "providers": {"kwok": {"namespace": ground.name, "seed": 7}},
            "statusConfigMap": f"{ground.name}-status",
        }
    }


@asynccontextmanager
async def a_driver(ground: Ground, api: Ground, group: str) -> AsyncIterator[list[str]]:
    """Publishes the devices of each node of a group once the node is there; the nodes so far."""
    known: list[str] = []

    async def publish_all() -> None:
        while True:
            for node in await api.nodes():
                name = node["metadata"]["name"]
                if node["metadata"].get("labels", {}).get(_GROUP) == group and name not in known:
                    known.append(name)
                    # A driver starts some seconds after the kubelet: meanwhile the node has no devices.
                    await anyio.sleep(2)
                    await publish(api, name)
            await anyio.sleep(0.5)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(publish_all)
        yield known
        tasks.cancel_scope.cancel()


async def test_pods_with_claims_get_just_the_nodes_whose_templates_have_the_devices(
    stage: Stage, ground: Ground, control_plane: ControlPlane
) -> None:
    settings = settings_of(ground)
    await grant(ground, settings)
    group = settings["autoscaler"]["nodeGroups"][0]["name"]
    await offer(ground)
    await ground.make_pods(with_claim(f"p-{number}") for number in range(7))
    service = await stage.up()
    await service.kill()
    service.write_config(settings)
    async with control_plane.session() as api, a_driver(ground, Ground(api, ground.name), group) as nodes:
        await service.start()
        await ground.until_bound(7, within_seconds=120)
        await until_nothing_comes(service)

        async def settled() -> int:
            return len(nodes)

        await eventually(settled, lambda n: n >= 4, within_seconds=30, wanted="slices of all nodes")
        got = await allocated(ground)
        assert len(nodes) == 4, "7 claims of one device, two devices a node"
        assert len(set(got.values())) == 7
    metrics = await service.metrics()
    assert metrics.total("cluster_autoscaler_scaled_up_nodes_total") == 4
    assert metrics.total("slackwater_autoscaler_failed_loops_total") == 0
