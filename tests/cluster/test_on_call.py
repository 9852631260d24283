"""On call: each question is answered by one command, with the rights of the ClusterRole `view` and our Role for readers.

The account may neither list nodes nor forward ports. What it asks the service goes through the API server's services/proxy to a
listener that is not on loopback, as in a Pod. No endpoints controller runs, so the test writes the Service's addresses.
"""

import json
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import anyio
import pytest
import yaml

from slackwater.app import rbac
from tests.cluster.support.bodies import SCHEDULER, Json, a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.slackwater_process import PROGRAM, SlackwaterProcess
from tests.cluster.support.stage import Stage
from tests.controlplane.talk import create
from tests.support.controlplane.stack import ControlPlane
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

KUBE_SYSTEM = "/api/v1/namespaces/kube-system"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
#: Without a controller that aggregates ClusterRoles, `view` has no rules of its own.
VIEWS = ("view", "system:aggregate-to-view")
ACCOUNT = "on-call"


def own_address() -> str:
    """An address of this machine that is not loopback: the API server proxies to no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has loopback alone, to which no API server proxies")
        return str(sock.getsockname()[0])


class OnCall:
    """An account that views, and the commands that it runs."""

    def __init__(self, ground: Ground, control_plane: ControlPlane, folder: Path) -> None:
        self.ground = ground
        self._control_plane = control_plane
        self._kubeconfig = folder / "on-call.yaml"
        self._bindings: list[str] = []
        self.subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": ground.name}

    async def begin(self) -> None:
        accounts = f"/api/v1/namespaces/{self.ground.name}/serviceaccounts"
        await self.ground.create(accounts, {"metadata": {"name": ACCOUNT}})
        made = await create(self.ground.api, f"{accounts}/{ACCOUNT}/token", {"spec": {"expirationSeconds": 3600}})
        config = yaml.safe_load(self._control_plane.kubeconfig("admin").read_text())
        config["users"][0]["user"] = {"token": made["status"]["token"]}
        config["contexts"][0]["context"]["namespace"] = self.ground.name
        self._kubeconfig.write_text(yaml.safe_dump(config))
        for role in VIEWS:
            await self._bind("ClusterRoleBinding", "clusterrolebindings", {"kind": "ClusterRole", "name": role})

    async def read_the_service(self) -> None:
        """Gives the account our Role for readers."""
        role = rbac.reader_role()
        await self.ground.create(f"{RBAC}/namespaces/kube-system/roles", role)
        self._bindings.append(f"{RBAC}/namespaces/kube-system/roles/{role['metadata']['name']}")
        await self._bind(
            "RoleBinding", "namespaces/kube-system/rolebindings", {"kind": "Role", "name": role["metadata"]["name"]}
        )

    async def _bind(self, kind: str, where: str, role: Json) -> None:
        name = f"{self.ground.name}-{role['name'].replace(':', '-')}"
        reference = {"apiGroup": "rbac.authorization.k8s.io", **role}
        body = {"kind": kind, "metadata": {"name": name}, "roleRef": reference, "subjects": [self.subject]}
        await self.ground.create(f"{RBAC}/{where}", body)
        self._bindings.append(f"{RBAC}/{where}/{name}")

    async def end(self) -> None:
        for path in self._bindings:
            await self.ground._send("DELETE", path)

    async def asks(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of a command."""
        environment = {**os.environ, "KUBECONFIG": str(self._kubeconfig)}
        program = str(PROGRAM.with_name("kubectl-slackwater"))
        done = await anyio.run_process([program, *arguments], check=False, stderr=PIPE, env=environment)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    async def answer(self, *arguments: str) -> Any:
        """The JSON of a command that answers without a note."""
        code, out, err = await self.asks(*arguments, "-o", "json")
        assert (code, err) == (0, ""), err
        return json.loads(out)


@pytest.fixture
async def on_call(ground: Ground, control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[OnCall]:
    made = OnCall(ground, control_plane, tmp_path)
    await made.begin()
    yield made
    with anyio.CancelScope(shield=True):
        await made.end()


@pytest.fixture
async def service(stage: Stage, ground: Ground) -> AsyncIterator[SlackwaterProcess]:
    """The service behind a Service of its name in kube-system; its ops listener is on every interface, as in the chart."""
    running = await stage.up()
    address, port = own_address(), int(running.ops_url.rpartition(":")[2])
    await running.kill()
    running.write_config({"listeners": {"ops": {"address": f"0.0.0.0:{port}"}}})
    await running.start()
    ports = [{"name": "ops", "port": port}]
    await ground.create(
        f"{KUBE_SYSTEM}/services", {"metadata": {"name": "slackwater"}, "spec": {"clusterIP": "None", "ports": ports}}
    )
    pod = f"{ground.name}-replica"
    await ground.create(f"{KUBE_SYSTEM}/pods", a_pod(pod, on="nowhere", labels={"name": "slackwater"}))
    status = {"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}}
    await ground._send(
        "PATCH", f"{KUBE_SYSTEM}/pods/{pod}/status", json=status, headers={"Content-Type": "application/merge-patch+json"}
    )
    target = {"kind": "Pod", "namespace": "kube-system", "name": pod}
    subsets = [{"addresses": [{"ip": address, "targetRef": target}], "ports": ports}]
    await ground.create(f"{KUBE_SYSTEM}/endpoints", {"metadata": {"name": "slackwater"}, "subsets": subsets})
    named = {"name": "slackwater-a", "labels": {"kubernetes.io/service-name": "slackwater"}}
    endpoint = {"addresses": [address], "conditions": {"ready": True}, "targetRef": target}
    await ground.create(SLICES, {"metadata": named, "addressType": "IPv4", "endpoints": [endpoint], "ports": ports})
    yield running
    with anyio.CancelScope(shield=True):
        for path in (f"{SLICES}/slackwater-a", f"{KUBE_SYSTEM}/endpoints/slackwater", f"{KUBE_SYSTEM}/services/slackwater"):
            await ground._send("DELETE", path)
        await ground._send("DELETE", f"{KUBE_SYSTEM}/pods/{pod}", params={"gracePeriodSeconds": "0"})


def owned_by(kind: str, made: Json, body: Json) -> Json:
    meta = made["metadata"]
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": True}
    return {**body, "metadata": {**body["metadata"], "ownerReferences": [reference]}}


async def a_deployment(ground: Ground, *, replicas: int) -> None:
    """A Deployment with its ReplicaSet, as controllers would leave them where a quota refuses the pod after two."""
    apps = f"/apis/apps/v1/namespaces/{ground.name}"
    labels = {"app": "web", "team": "x"}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1500m"}}}
    template = {"metadata": {"labels": labels}, "spec": {"schedulerName": SCHEDULER, "containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    deployment = await create(ground.api, f"{apps}/deployments", {"metadata": {"name": "web"}, "spec": spec})
    owned = owned_by("Deployment", deployment, {"metadata": {"name": "web-1", "labels": labels}, "spec": spec})
    replica_set = await create(ground.api, f"{apps}/replicasets", owned)
    for name in ("web-1", "web-2"):
        pod = a_pod(name, cpu="1500m", labels=labels)
        await create(ground.api, ground.pods_path, owned_by("ReplicaSet", replica_set, pod))
    await ground.create(f"/api/v1/namespaces/{ground.name}/serviceaccounts", {"metadata": {"name": "default"}})
    quotas = f"/api/v1/namespaces/{ground.name}/resourcequotas"
    await ground.create(quotas, {"metadata": {"name": "team"}, "spec": {"hard": {"pods": "2"}}})
    used = {"status": {"hard": {"pods": "2"}, "used": {"pods": "2"}}}
    patch = {"Content-Type": "application/merge-patch+json"}
    await ground._send("PATCH", f"{quotas}/team/status", json=used, headers=patch)


async def test_five_questions_are_answered_by_one_command_each(
    on_call: OnCall, ground: Ground, service: SlackwaterProcess
) -> None:
    await on_call.read_the_service()
    (node,) = await ground.make_nodes(1, cpu="2")
    await a_deployment(ground, replicas=3)
    (placed,) = await eventually(ground.names_bound, bool, within_seconds=60, wanted="one of two pods is bound")
    (waits,) = await ground.pending()
    await ground.until_refused(waits)

    answer = await on_call.answer("explain", "po", waits)
    assert answer["state"] == "pending"
    assert answer["reasons"][0]["short"] == {"milliCPU": 1000}
    assert answer["facts"]["schedulerSays"], "the service has answered"

    answer = await on_call.answer("explain", "deploy/web")
    assert (answer["state"], answer["reasons"][0]["code"]) == ("short of pods", "quota_exceeded")
    assert answer["facts"] | {"ready": 0} == {"wanted": 3, "pods": 2, "ready": 0, "pending": 1, "missing": 1}
    assert [each["pods"] for each in answer["waiting"]] == [[waits]]
    assert answer["waiting"][0]["explanation"]["reasons"][0]["code"] == "resources_short"
    assert answer["remedies"][0]["change"] == "raise pods of ResourceQuota team from 2 to 3"
    assert answer["notes"] == [
        "which PriorityClasses there are: the right to list priorityclasses is lacking",
        "what RuntimeClasses add to the pods: the right to list runtimeclasses is lacking",
    ]

    answer = await on_call.answer("explain", "node", node)
    assert answer["object"] == f"node {node}"
    assert any(f"pod {ground.name}/{placed}" in reason["objects"] for reason in answer["reasons"]), "it finds no place"

    async def recorded() -> list[Any]:
        return list((await on_call.answer("history", "--at", "2099-01-01T00:00Z"))["notes"])

    await eventually(recorded, lambda notes: not notes, within_seconds=60, wanted="the history is written")
    now = (await on_call.answer("history", "po", waits))["entries"][-1]["at"]
    entries = (await on_call.answer("history", "--at", now))["entries"]
    assert f"{ground.name}/{waits}" in {entry["pod"] for entry in entries if entry["action"] == "refused"}

    code, out, err = await on_call.asks("worth", "--by-label", "team", "-o", "json")
    assert code == 0, err
    assert err.startswith("slackwater: note: may not list nodes"), "the state of the service stands in for nodes"
    (share,) = (each for each in json.loads(out)["label"]["shares"] if each["name"] == "x")
    assert float(share["now"]["perHour"]) > 0


async def test_only_reading_is_possible_through_the_api_server(
    on_call: OnCall, ground: Ground, service: SlackwaterProcess, control_plane: ControlPlane
) -> None:
    await on_call.read_the_service()
    await ground.make_nodes(1)
    assert (await on_call.answer("dumpstate"))["nodes"]
    code, _, err = await on_call.asks("explain", "pod", "nobody")
    assert code == 3
    assert f"pods/{ground.name}/nobody: got status 404" in err

    code, _, err = await on_call.asks("simulate", "placement", "--live")
    assert code == 5
    assert "through services/proxy the service can only be read" in err
    # Whoever may send more, as the administrator, is refused by the listener: a proxy is not loopback.
    path = f"{KUBE_SYSTEM}/services/http:slackwater:ops/proxy/simulate/placement"
    async with ground.api.post(path, json={}) as answer:
        assert answer.status == 403
        assert "got neither loopback nor a client certificate" in (await answer.json())["detail"]


async def test_without_our_role_a_pending_pod_is_explained_by_what_its_viewer_sees(
    on_call: OnCall, ground: Ground, stage: Stage
) -> None:
    await stage.up()
    await ground.make_nodes(1, cpu="1")
    await ground.make_pods([a_pod("large", cpu="20")])
    await ground.until_refused("large")
    code, out, err = await on_call.asks("explain", "po", "large", "-o", "json")
    assert code == 0, err
    assert err == "slackwater: note: no service answers, explained from the objects of the API\n"
    answer = json.loads(out)
    assert answer["state"] == "pending"
    assert "Insufficient cpu" in next(each["detail"] for each in answer["reasons"] if each["code"] == "scheduler_says")
    assert "all rules: the right to list nodes is lacking" in answer["notes"]

    code, _, err = await on_call.asks("simulate", "scale-down")
    assert code == 5
    assert "may not list nodes, want the verb list on nodes and pods" in err
