"""The service as a shadow, with exactly the rights that `slackwater config rbac --shadow` prints: what it asks of the API
server, by the audit log, and what it says."""

from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import yaml

from slackwater.app import rbac
from slackwater.app.settings import loads
from tests.cluster.support.audit_tail import SHADOW, AuditTail
from tests.cluster.support.bodies import Json, a_pod
from tests.cluster.support.ground import MERGE_PATCH, Ground
from tests.cluster.support.stage import Stage
from tests.controlplane.talk import create
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

_READS: Final = {"get", "list", "watch"}
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
            "scaleDown": {"unneededTime": "2s", "delayAfterAdd": "1s"},
        },
    }


async def test_it_writes_nothing_and_plans_and_explains(stage: Stage, ground: Ground, tmp_path: Path) -> None:
    settings = settings_of(ground, tmp_path)
    kubeconfig = await an_account(stage, ground, settings, tmp_path)
    audit = AuditTail(stage.control_plane.audit_log)
    group: str = settings["autoscaler"]["nodeGroups"][0]["name"]
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


async def an_account(stage: Stage, ground: Ground, settings: Json, folder: Path) -> Path:
    """A ServiceAccount with the rights of `slackwater config rbac --shadow` and no other; the kubeconfig with its token."""
    name = SHADOW.rpartition(":")[2]
    account = {"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}
    head = {"apiVersion": "config.slackwater.dev/v1alpha1", "kind": "SlackwaterConfiguration"}
    rights = rbac.rights(loads(yaml.safe_dump({**head, **settings})), account)
    metadata = {"name": name, "namespace": "kube-system"}
    await create(ground.api, _ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    for role in rights[::2]:
        own = {**role, "metadata": {**role["metadata"], "name": f"{role['metadata']['name']}-shadow"}}
        for item in (own, rbac.binding(own, account)):
            await create(ground.api, rbac.collection_path(item), item)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = await create(ground.api, f"{_ACCOUNTS}/{name}/token", request)
    config: dict[str, Any] = yaml.safe_load(stage.control_plane.kubeconfig("admin").read_text())
    config["users"] = [{**user, "user": {"token": token["status"]["token"]}} for user in config["users"]]
    path = folder / "shadow.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path
