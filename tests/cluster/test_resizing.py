"""A plain pod with bounds grows through pods/resize on a real API server; what its node puts off is pressure.

The service starts where NeonVM's types are not installed, which delays nothing, and finds them when they are.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from slackwater_protocol.agent import PodName, Resources
from slackwater_protocol.agent_client import AgentClient
from tests.cluster.neonvm import crds
from tests.cluster.neonvm.machines import GIB, Size, a_machine
from tests.cluster.support.bodies import Json, a_pod
from tests.cluster.support.ground import MERGE_PATCH, Ground
from tests.cluster.support.slackwater_process import SlackwaterProcess
from tests.cluster.support.stage import Stage
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

BOUNDS = '{"min": {"cpu": "500m", "mem": "1Gi"}, "max": {"cpu": "3", "mem": "8Gi"}}'
UNIT = Resources(milli_cpu=250, memory=GIB)
#: A type that was absent is looked for every 10 s.
FOUND_WITHIN_SECONDS = 60.0


def sized(cpu: int, gib: int) -> Resources:
    return Resources(milli_cpu=cpu, memory=gib * GIB)


def growing(name: str, *, limited: bool) -> Json:
    body = a_pod(name, cpu="1", memory="2Gi")
    body["metadata"]["annotations"] = {"slackwater.dev/bounds": BOUNDS}
    if limited:
        resources = body["spec"]["containers"][0]["resources"]
        resources["limits"] = dict(resources["requests"])
    return body


@asynccontextmanager
async def agents(ground: Ground, service: SlackwaterProcess, *pods: str) -> AsyncIterator[list[AgentClient]]:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        yield [
            AgentClient(http, service.agents_url, pod=PodName(namespace=ground.name, name=pod), compute_unit=UNIT)
            for pod in pods
        ]


async def counted(service: SlackwaterProcess, pod: str) -> dict[str, Any]:
    """Of the pod what /dumpstate says of its CPU."""
    (entry,) = [entry for entry in (await service.dumpstate())["pods"] if entry["name"] == pod]
    return dict(entry["cpu"])


async def until_counted(service: SlackwaterProcess, pod: str, *, reserved: int, pressure: int) -> None:
    async def look() -> tuple[int, int]:
        cpu = await counted(service, pod)
        return cpu["reserved"], cpu["capacityPressure"]

    want = (reserved, pressure)
    await eventually(look, lambda seen: seen == want, within_seconds=60, wanted=f"{pod}: {want}")


async def until_resized(ground: Ground, pod: str, *, cpu: str, memory: str) -> Json:
    """Spec and status show the amounts."""

    async def look() -> Json:
        return await ground.read(f"{ground.pods_path}/{pod}")

    def resized(seen: Json) -> bool:
        parts = [*seen["spec"]["containers"], *seen["status"].get("containerStatuses", [])]
        return len(parts) == 2 and all(part["resources"]["requests"] == {"cpu": cpu, "memory": memory} for part in parts)

    return await eventually(look, resized, within_seconds=60, wanted=f"{pod} with {cpu} and {memory}")


async def test_plain_pods_grow_and_what_comes_later_is_found(stage: Stage, ground: Ground) -> None:
    await crds.remove(ground.api)
    await ground.make_nodes(1, cpu="6", memory="32Gi")
    service = await stage.up()
    names = await ground.make_pods([growing("guaranteed", limited=True), growing("burstable", limited=False)])
    await ground.until_bound(2, within_seconds=60)
    async with agents(ground, service, *names) as (guaranteed, burstable):
        await grows_and_shrinks(ground, service, guaranteed)
        await grows_as_far_as_there_is_room(ground, service, burstable)
    await what_a_node_puts_off_is_pressure(ground, service)

    await crds.install(ground.api)
    await ground.create(f"{crds.GROUP_PATH}/namespaces/{ground.name}/virtualmachines", a_machine("late", Size(), {}))

    async def machines() -> list[str]:
        return [machine["key"][1] for machine in (await service.dumpstate())["virtualMachines"]]

    await eventually(
        machines, lambda seen: "late" in seen, within_seconds=FOUND_WITHIN_SECONDS, wanted="the machine", every_seconds=0.5
    )


async def grows_and_shrinks(ground: Ground, service: SlackwaterProcess, agent: AgentClient) -> None:
    """Up to its Max, and down; limits move along, so that its class stays."""
    assert await agent.ask(sized(1000, 2), in_use=sized(1000, 2)) == sized(1000, 2)
    assert await agent.ask(sized(2000, 4), in_use=sized(1000, 2)) == sized(2000, 4)
    pod = await until_resized(ground, "guaranteed", cpu="2", memory="4Gi")
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "2", "memory": "4Gi"}
    assert pod["status"]["qosClass"] == "Guaranteed"
    await until_counted(service, "guaranteed", reserved=2000, pressure=0)

    assert await agent.ask(sized(9000, 20), in_use=sized(2000, 4)) == sized(3000, 8), "no more than its Max"
    await until_counted(service, "guaranteed", reserved=3000, pressure=0)
    assert await agent.ask(sized(500, 1), in_use=sized(500, 1)) == sized(500, 1)
    await until_resized(ground, "guaranteed", cpu="500m", memory="1Gi")
    await until_counted(service, "guaranteed", reserved=500, pressure=0)


async def grows_as_far_as_there_is_room(ground: Ground, service: SlackwaterProcess, agent: AgentClient) -> None:
    await ground.make_pods([a_pod("filler", cpu="4", memory="2Gi")])
    await ground.until_placed("filler", within_seconds=60)
    # 6 CPUs, of which the filler has 4 and the other one 500m.
    assert await agent.ask(sized(1000, 2), in_use=sized(1000, 2)) == sized(1000, 2)
    assert await agent.ask(sized(2000, 4), in_use=sized(1000, 2)) == sized(1500, 4)
    await until_resized(ground, "burstable", cpu="1500m", memory="4Gi")
    await until_counted(service, "burstable", reserved=1500, pressure=500)
    await ground.delete_pods(["filler"])
    # The room that appears is granted while the agent waits for it.
    assert await agent.ask(sized(2000, 4), in_use=sized(1500, 4), wait_seconds=10) == sized(2000, 4)
    pod = await until_resized(ground, "burstable", cpu="2", memory="4Gi")
    assert "limits" not in pod["spec"]["containers"][0]["resources"]
    assert pod["status"]["qosClass"] == "Burstable"


async def what_a_node_puts_off_is_pressure(ground: Ground, service: SlackwaterProcess) -> None:
    """This test plays the kubelet: a status with one container more is one that KWOK leaves alone."""
    await ground.make_pods([growing("put-off", limited=False)])
    await ground.until_placed("put-off", within_seconds=60)
    pod = await until_resized(ground, "put-off", cpu="1", memory="2Gi")
    status = pod["status"]["containerStatuses"]
    ghost = {"name": "ghost", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": {"waiting": {}}}
    await kubelet_says(ground, containerStatuses=[*status, ghost])

    async with agents(ground, service, "put-off") as (agent,):
        assert await agent.ask(sized(1000, 2), in_use=sized(1000, 2)) == sized(1000, 2)
        assert await agent.ask(sized(2000, 2), in_use=sized(1000, 2)) == sized(2000, 2)
        await until_asked(ground, "put-off", cpu="2")
        deferred = {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "Node didn't have enough"}
        await kubelet_says(ground, conditions=[*pod["status"]["conditions"], deferred])
        await until_counted(service, "put-off", reserved=1000, pressure=1000)
        # Whoever has used none of it may go on with what the node gives.
        assert await agent.ask(sized(2000, 2), in_use=sized(1000, 2)) == sized(1000, 2)
        await until_counted(service, "put-off", reserved=1000, pressure=1000)

        granted = {"requests": {"cpu": "2", "memory": "2Gi"}}
        done = {**status[0], "resources": granted, "allocatedResources": granted["requests"]}
        await kubelet_says(ground, conditions=pod["status"]["conditions"], containerStatuses=[done, ghost])
        await until_counted(service, "put-off", reserved=2000, pressure=0)
        assert await agent.ask(sized(2000, 2), in_use=sized(1000, 2)) == sized(2000, 2)


async def kubelet_says(ground: Ground, **status: Any) -> None:
    async with ground.api.patch(f"{ground.pods_path}/put-off/status", json={"status": status}, headers=MERGE_PATCH) as answer:
        assert answer.status == 200, await answer.text()


async def until_asked(ground: Ground, name: str, *, cpu: str) -> None:
    """The spec says so, whatever the node has done about it."""

    async def asked() -> str:
        pod = await ground.read(f"{ground.pods_path}/{name}")
        return str(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])

    await eventually(asked, lambda seen: seen == cpu, within_seconds=60, wanted=cpu)
