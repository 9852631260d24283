"""Slack on a real control plane: pods within it start at once, it refills, removals never eat it; CapacityBuffers and marked
workloads get theirs, with the CRD absent at first."""

from typing import Any, Final

import anyio
import pytest

from tests.cluster.slack import crds
from tests.cluster.support.bodies import Json, a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.growth import is_ready
from tests.cluster.support.slackwater_process import SlackwaterProcess
from tests.cluster.support.stage import Stage
from tests.cluster.test_scale_up import grant
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

_GROUND: Final = "slackwater.test/ground"
#: A node takes so long to start: a pod that is bound much sooner has not waited for one.
_BOOT_SECONDS: Final = 8


def settings_of(ground: Ground, slack: Json) -> dict[str, Any]:
    group = {
        "name": f"{ground.name}-pool",
        "provider": "kwok",
        "maxSize": 20,
        "template": {
            "metadata": {"labels": {_GROUND: ground.name}},
            "status": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
        },
        "kwok": {"appearAfter": f"{_BOOT_SECONDS}s", "bootAfter": "500ms"},
    }
    return {
        "autoscaler": {
            "enabled": True,
            "scanInterval": "1s",
            "nodeGroups": [group],
            "providers": {"kwok": {"namespace": ground.name, "seed": 7}},
            "statusConfigMap": f"{ground.name}-status",
            "scaleDown": {"unneededTime": "5s", "delayAfterAdd": "0s", "drain": {"settleTime": "0s"}},
            "slack": {"keepNodes": "0s", **slack},
        }
    }


async def slack_of(service: SlackwaterProcess) -> Json:
    last = (await service.dumpstate())["autoscaler"]
    return (last or {}).get("slack") or {"placeholders": [], "sources": []}


async def placed(service: SlackwaterProcess) -> tuple[int, int]:
    """Placeholders, and how many of them stand on a node that is there."""
    found = (await slack_of(service))["placeholders"]
    there = [each for each in found if each["node"] and not each["node"].startswith("upcoming:")]
    return len(found), len(there)


async def ready_nodes(ground: Ground) -> set[str]:
    nodes = await ground.nodes()
    return {n["metadata"]["name"] for n in nodes if is_ready(n) and n["metadata"]["labels"].get(_GROUND) == ground.name}


@pytest.mark.timeout(400)
async def test_pods_within_the_slack_start_at_once_it_refills_and_no_removal_takes_it(stage: Stage, ground: Ground) -> None:
    settings = settings_of(ground, {"extraCapacity": {"min": {"cpu": "6", "memory": "6Gi"}, "granularity": 4, "sizing": "v1"}})
    await grant(ground, settings)
    service = await stage.up(settings)

    async def running_pods() -> tuple[int, int]:
        return await placed(service)

    await eventually(running_pods, lambda seen: seen == (6, 6), within_seconds=60, wanted="six placeholders on nodes")
    before = await ready_nodes(ground)
    assert len(before) == 2

    began = anyio.current_time()
    names = await ground.make_pods(a_pod(f"burst-{number}", cpu="1", memory="512Mi") for number in range(6))
    pods = await ground.until_bound(6, within_seconds=60)
    took = anyio.current_time() - began
    assert {pod["spec"]["nodeName"] for pod in pods.values()} <= before, "no node was started on their path"

    async def refilled() -> tuple[tuple[int, int], int]:
        return await placed(service), len(await ready_nodes(ground))

    await eventually(refilled, lambda seen: seen == ((6, 6), 3), within_seconds=60, wanted="slack refilled by a third node")
    refilled_after = anyio.current_time() - began

    await ground.delete_pods(names)
    short: list[tuple[int, int]] = []

    async def shrunk() -> int:
        seen = await placed(service)
        if seen != (6, 6):
            short.append(seen)
        return len(await ready_nodes(ground))

    await eventually(shrunk, lambda count: count == 2, within_seconds=60, wanted="two nodes left", every_seconds=0.3)
    with anyio.move_on_after(8):
        while True:  # nothing more goes, though no pod is left
            assert await shrunk() == 2
            await anyio.sleep(0.3)
    assert short == [], "the slack was whole at every look"
    print(f"\n6 pods bound after {took:.2f} s (a node takes {_BOOT_SECONDS} s), slack whole again after {refilled_after:.1f} s")


def a_deployment(ground: Ground, name: str, *, replicas: int, slack: str | None = None) -> Json:
    pod = a_pod("template", cpu="1", memory="512Mi")
    annotations = {} if slack is None else {"slackwater.dev/slack": slack}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod["spec"]},
        },
    }


@pytest.mark.timeout(400)
async def test_marked_workloads_and_capacity_buffers_get_placeholders_like_their_pods(stage: Stage, ground: Ground) -> None:
    """S7. The CRD comes only when the service runs already, and without it all else works."""
    settings = settings_of(ground, {})
    await grant(ground, settings)
    service = await stage.up(settings)
    deployments = f"/apis/apps/v1/namespaces/{ground.name}/deployments"
    await ground.create(deployments, a_deployment(ground, "marked", replicas=0, slack="2"))

    async def by_source() -> dict[str, tuple[int, int]]:
        sources = (await slack_of(service))["sources"]
        return {each["name"]: (each["placed"], each["amount"]["cpu"]) for each in sources}

    marked = {f"Deployment {ground.name}/marked": (2, 2000)}
    await eventually(by_source, lambda seen: seen == marked, within_seconds=60, wanted="room for the marked workload")

    await crds.install(ground.api)
    buffers = f"/apis/{crds.GROUP}/v1beta1/namespaces/{ground.name}/capacitybuffers"
    template = {"metadata": {"labels": {"app": "t"}}, "spec": a_pod("template", cpu="500m", memory="256Mi")["spec"]}
    body = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "chunk"}, "template": template}
    await ground.create(f"/api/v1/namespaces/{ground.name}/podtemplates", body)
    await ground.create(deployments, a_deployment(ground, "web", replicas=2))
    await ground.create(buffers, crds.a_buffer("fixed", podTemplateRef={"name": "chunk"}, replicas=3, limits={"cpu": "1"}))
    web = {"apiGroup": "apps", "kind": "Deployment", "name": "web"}
    await ground.create(buffers, crds.a_buffer("share", scalableRef=web, percentage=50))
    await ground.create(buffers, crds.a_buffer("lost", podTemplateRef={"name": "nobody"}, replicas=1))

    async def reported() -> dict[str, tuple[int | None, dict[str, str]]]:
        items = (await ground.read(buffers))["items"]
        return {item["metadata"]["name"]: said(item.get("status", {})) for item in items}

    def said(status: Json) -> tuple[int | None, dict[str, str]]:
        return status.get("replicas"), {c["type"]: f"{c['status']}/{c['reason']}" for c in status.get("conditions", ())}

    good = {"ReadyForProvisioning": "True/AttributesSetSuccessfully", "Provisioning": "True/FakePodsInjected"}
    bad = {"ReadyForProvisioning": "False/error", "Provisioning": "False/NotReadyForProvisioning"}
    want = {"fixed": (2, good), "share": (1, good), "lost": (None, bad)}
    await eventually(reported, lambda seen: seen == want, within_seconds=60, wanted=f"conditions {want}")
    room = {**marked, f"buffer {ground.name}/fixed": (2, 1000), f"buffer {ground.name}/share": (1, 1000)}
    await eventually(by_source, lambda seen: seen == room, within_seconds=60, wanted=f"room {room}")

    for name in ("fixed", "share", "lost"):
        async with ground.api.delete(f"{buffers}/{name}") as answer:
            assert answer.status == 200
    await eventually(by_source, lambda seen: seen == marked, within_seconds=60, wanted="no room for buffers that are gone")
    for name in ("marked", "web"):
        async with ground.api.delete(f"{deployments}/{name}") as answer:
            assert answer.status == 200
