"""The service as a shadow, with exactly the rights that `slackwater config rbac --shadow` prints: what it asks of the API
server, by the audit log, and what it says."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import yaml

from slackwater.app import rbac
from slackwater.app.cleanup import LAST_UPDATED
from slackwater.app.settings import loads
from tests.cluster.support.audit_tail import SHADOW, AuditTail
from tests.cluster.support.bodies import Json, a_pod
from tests.cluster.support.ground import MERGE_PATCH, Ground
from tests.cluster.support.stage import Stage
from tests.controlplane.talk import create
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

_READS: Final = {"get", "list", "watch"}
_CONFIG_MAPS: Final = "/api/v1/namespaces/kube-system/configmaps"
_ACCOUNTS: Final = "/api/v1/namespaces/kube-system/serviceaccounts"


def settings_of(ground: Ground, folder: Path) -> Json:
    """Two empty nodes are unneeded after two seconds. The pending pods fit on new nodes only."""
    group = {
        "name": f"{ground.name}-pool",
        "minSize": 0,
        "maxSize": 10,
        "template": {"status": {"capacity": {"cpu": "8", "memory": "16Gi", "pods": "110"}}},
    }
    return {
        "mode": "shadow",
        "history": {"file": str(folder / "history.json")},
        "autoscaler": {
            "enabled": True,
            "scanInterval": "1s",
            "nodeGroups": [group],
            "clusterAutoscalerStatus": f"{ground.name}-status",
            "scaleDown": {"unneededTime": "2s", "delayAfterAdd": "1s"},
        },
    }


async def test_it_writes_nothing_and_plans_and_explains(stage: Stage, ground: Ground, tmp_path: Path) -> None:
    settings = settings_of(ground, tmp_path)
    kubeconfig = await an_account(stage, ground, settings, tmp_path)
    audit = AuditTail(stage.control_plane.audit_log)
    group: str = settings["autoscaler"]["nodeGroups"][0]["name"]
    await ground.create(_CONFIG_MAPS, a_status(f"{ground.name}-status", group))
    nodes = await ground.make_nodes(2, labels={"slackwater.dev/node-group": group}, cpu="2", memory="4Gi")
    pods = await ground.make_pods(a_pod(f"p-{number}", cpu="6", memory="1Gi", scheduler="nobody") for number in range(2))
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes are available"}
    for pod in pods:
        body = {"status": {"conditions": [refused]}}
        async with ground.api.patch(f"{ground.pods_path}/{pod}/status", json=body, headers=MERGE_PATCH) as answer:
            assert answer.status == 200, await answer.text()

    service = await stage.up_service(settings, kubeconfig=kubeconfig)

    async def withheld() -> set[tuple[str, str]]:
        loop = (await service.dumpstate())["autoscaler"] or {}
        return {(each["kind"], each["name"]) for each in loop.get("withheld", ())}

    want = {("grow", group), *(("remove node", node) for node in nodes)}
    await eventually(withheld, lambda found: found == want, within_seconds=60, wanted="what it would do", every_seconds=0.2)

    loop = (await service.dumpstate())["autoscaler"]
    [shown] = loop["groups"]
    assert loop["notes"] == [f"{group} is planned as if it were handed over: Cluster Autoscaler's status lists it ({group})"]
    assert (shown["backoff"], shown["closed"], shown["asked"], shown["coming"]) == (None, None, None, 0)
    assert (loop["problems"], loop["scaleDown"]["begun"], loop["scaleDown"]["underWay"]) == ([], [], 0)
    status = await service.statusz()
    assert (status["mode"], status["ready"], status["leader"]["leads"]) == ("shadow", True, False)
    async with aiohttp.ClientSession(service.ops_url) as http:
        async with http.get(f"/explain/pods/{ground.name}/{pods[0]}") as answer:
            assert (answer.status, (await answer.json())["state"]) == (200, "pending")
        async with http.get("/readyz") as answer:
            assert "is a shadow" in await answer.text()
        async with http.get("/") as answer:
            assert "Shadow: nothing is written" in await answer.text()
        async with http.post(f"/drains/{nodes[0]}/cancel") as answer:
            assert (answer.status, "is a shadow" in await answer.text()) == (409, True)
        async with http.get("/metrics") as answer:
            metrics = await answer.text()
        async with http.post(service.agents_url, json={}) as answer:
            assert (answer.status, "is a shadow" in await answer.text()) == (503, True)
    assert "slackwater_shadow 1.0" in metrics
    assert "slackwater_api_calls_total{" not in metrics, "no effect counts"

    asked = [request for request in audit.read() if request.user == SHADOW]
    # A watch is logged when it ends.
    assert {"get", "list"} <= {request.verb for request in asked} <= _READS
    assert {request.resource for request in asked if request.status == 403} == set(), "the role is enough"
    taints = [node["spec"].get("taints") for node in await ground.nodes() if node["metadata"]["name"] in nodes]
    assert taints == [None, None]


async def test_groups_that_others_mark_are_not_written_to_unless_they_are_handed_over(
    stage: Stage, ground: Ground, tmp_path: Path
) -> None:
    """Three groups of one empty node each: Cluster Autoscaler's status lists two, of which one is handed over, and one has an
    annotated node."""
    names = [f"{ground.name}-{which}" for which in ("listed", "annotated", "handed-over")]
    await ground.create(_CONFIG_MAPS, a_status(f"{ground.name}-status", names[0], names[2]))
    nodes = []
    for name in names:
        nodes += await ground.make_nodes(1, tag=name[-4:], labels={"slackwater.dev/node-group": name}, cpu="2", memory="4Gi")
    await ground.patch_node(nodes[1], {"metadata": {"annotations": {"slackwater.dev/owned-by": "them"}}})
    template = {"status": {"capacity": {"cpu": "2", "memory": "4Gi", "pods": "110"}}}
    settings = settings_of(ground, tmp_path)
    settings = {"autoscaler": settings["autoscaler"] | {"handedOver": [names[2]]}}
    settings["autoscaler"]["nodeGroups"] = [{"name": name, "minSize": 0, "maxSize": 3, "template": template} for name in names]
    kubeconfig = await an_account(stage, ground, settings, tmp_path, name=ground.name)
    service = await stage.up_service(settings, kubeconfig=kubeconfig)

    async def left() -> list[str]:
        return [node["metadata"]["name"] for node in await ground.nodes() if node["metadata"]["name"] in nodes]

    await eventually(left, lambda found: sorted(found) == sorted(nodes[:2]), within_seconds=60, wanted="one node removed")

    async def withheld() -> set[str]:
        loop = (await service.dumpstate())["autoscaler"] or {}
        return {each["name"] for each in loop.get("withheld", ())}

    await eventually(withheld, lambda found: found == set(nodes[:2]), within_seconds=60, wanted="what it leaves alone")
    assert [node["spec"].get("taints") for node in await ground.nodes() if node["metadata"]["name"] in nodes] == [None, None]
    groups = {each["name"]: each["closed"] for each in (await service.dumpstate())["autoscaler"]["groups"]}
    assert groups[names[0]].startswith("Cluster Autoscaler's status lists it")
    assert groups[names[1]].startswith(f"node {nodes[1]} of it has the annotation slackwater.dev/owned-by: them")
    assert groups[names[2]] is None


async def test_without_node_groups_it_finds_those_that_labels_name(stage: Stage, ground: Ground, tmp_path: Path) -> None:
    settings = settings_of(ground, tmp_path)
    del settings["autoscaler"]["nodeGroups"]
    await ground.make_nodes(2, labels={"eks.amazonaws.com/nodegroup": f"{ground.name}-pool"}, cpu="2", memory="4Gi")
    kubeconfig = await an_account(stage, ground, settings, tmp_path, name=ground.name)
    service = await stage.up_service(settings, kubeconfig=kubeconfig)

    async def sizes() -> dict[str, int]:
        loop = (await service.dumpstate())["autoscaler"] or {}
        return {each["name"]: each["target"] for each in loop.get("groups", ())}

    await eventually(sizes, lambda found: found.get(f"{ground.name}-pool") == 2, within_seconds=60, wanted="the group")


def a_status(name: str, *groups: str) -> Json:
    """Cluster Autoscaler's status, as if it had been written now."""
    stamp = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f} +0000 UTC"
    metadata = {"name": name, "namespace": "kube-system", "annotations": {LAST_UPDATED: stamp}}
    status = {"clusterWide": {}, "nodeGroups": [{"name": group} for group in groups]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"status": yaml.safe_dump(status)}}


async def an_account(
    stage: Stage, ground: Ground, settings: Json, folder: Path, *, name: str = SHADOW.rpartition(":")[2]
) -> Path:
    """A ServiceAccount with the rights of `slackwater config rbac` and no other; the kubeconfig with its token."""
    account = {"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}
    head = {"apiVersion": "config.slackwater.dev/v1alpha1", "kind": "SlackwaterConfiguration"}
    rights = rbac.rights(loads(yaml.safe_dump({**head, **settings})), account)
    metadata = {"name": name, "namespace": "kube-system"}
    await create(ground.api, _ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    for role in rights[::2]:
        own = {**role, "metadata": {**role["metadata"], "name": f"{role['metadata']['name']}-{name}"}}
        for item in (own, rbac.binding(own, account)):
            await create(ground.api, rbac.collection_path(item), item)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = await create(ground.api, f"{_ACCOUNTS}/{name}/token", request)
    config: dict[str, Any] = yaml.safe_load(stage.control_plane.kubeconfig("admin").read_text())
    config["users"] = [{**user, "user": {"token": token["status"]["token"]}} for user in config["users"]]
    path = folder / "shadow.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path
