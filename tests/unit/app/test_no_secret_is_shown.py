"""Whatever is secret and passes through the service comes out nowhere: a marker in every such place, and all outputs searched.

Places: environment, arguments and annotations of pods (kubectl keeps whole manifests there), annotations of nodes, bearer
tokens, queries, bodies that cannot be read, manifests of what-if, kubeconfigs. Outputs: state, status, metrics, explanations,
dashboard, answers, records, and the log at its most talkative, crashes included.
"""

import base64
import gzip
import io
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import httpx
import pytest

from slackwater.adapters.api_calls import Read
from slackwater.adapters.kube.access import load_access
from slackwater.adapters.kube.client import open_client
from slackwater.adapters.kube.errors import KubeConfigError, Unreachable
from slackwater.cli.commands.logs import LogFormat, set_up_logs
from slackwater.model.ids import PodKey
from tests.support.agents import a_request
from tests.support.wholeservice import Whole, a_whole_service

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("loggers_as_before")]

MARK = "s3cr3t-"
PODS = "/api/v1/namespaces/default/pods"


def a_pod_with_secrets(name: str, cpu: str = "1") -> dict[str, Any]:
    manifest = {"spec": {"containers": [{"env": [{"name": "PASSWORD", "value": f"{MARK}last-applied"}]}]}}
    container = {
        "name": "app",
        "image": "i",
        "command": ["serve", f"--password={MARK}argument"],
        "env": [{"name": "TOKEN", "value": f"{MARK}environment"}],
        "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}},
    }
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(manifest), "vault/token": f"{MARK}annotation"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"schedulerName": "slackwater", "containers": [container]},
    }


def a_node_with_secrets(name: str) -> dict[str, Any]:
    room = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {"provider/join-token": f"{MARK}node-annotation"}},
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
    }


class Outputs:
    """Everything that came out, by where."""

    def __init__(self) -> None:
        self.reported: dict[str, str] = {}

    def add(self, place: str, text: str) -> None:
        self.reported[place] = self.reported.get(place, "") + text

    def take(self, answer: httpx.Response) -> None:
        self.add(f"{answer.request.method} {answer.request.url.path}", f"{answer.text}{answer.headers}")

    def secrets(self) -> list[tuple[str, str]]:
        coded = base64.b64encode(MARK.encode())[:8].decode()
        return [
            (place, text[max(0, text.find(mark) - 100) : text.find(mark) + 60])
            for place, text in self.reported.items()
            for mark in (MARK, coded)
            if mark in text
        ]


@asynccontextmanager
async def a_service_full_of_secrets(record: Path) -> AsyncIterator[Whole]:
    async with a_whole_service({"recording": {"file": str(record)}, "autoscaler": AUTOSCALER}) as whole:
        for name in ("node-1", "node-2"):
            whole.create("/api/v1/nodes", a_node_with_secrets(name))
        for name, cpu in (("small", "1"), ("large", "3"), ("huge", "64")):
            whole.create(PODS, a_pod_with_secrets(name, cpu))
        state_machine = whole.running.state_machine
        await whole.until(
            lambda: (
                len(state_machine.state.nodes) >= 2 and state_machine.state.pods.by_key(PodKey("default", "huge")) is not None
            )
        )
        yield whole


AUTOSCALER: dict[str, Any] = {
    "enabled": True,
    "scanInterval": "1s",
    "nodeGroups": [
        {
            "name": "pool",
            "provider": "kwok",
            "maxSize": 3,
            "template": {"status": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}}},
        }
    ],
}


async def ask_everything(whole: Whole, outputs: Outputs) -> None:
    """Every verb and path, with secrets in what is right and in what is wrong."""
    bearer = {"authorization": f"Bearer {MARK}bearer", "cookie": f"session={MARK}cookie"}
    pod = json.loads(whole.sandbox.request("GET", f"{PODS}/small").body)
    node = json.loads(whole.sandbox.request("GET", "/api/v1/nodes/node-1").body)
    async with httpx.AsyncClient(base_url=whole.url("extender"), headers=bearer, verify=False, timeout=60) as http:
        for body in (
            {"Pod": pod, "Nodes": None, "NodeNames": ["node-1", "node-2"]},
            *(broken(pod) | {"Nodes": None, "NodeNames": ["node-1"]} for broken in BROKEN),
        ):
            for verb in ("filter", "prioritize", "preempt"):
                outputs.take(await http.post(f"/scheduler/{verb}?token={MARK}query", json=body))
        # Whole Nodes go back to kube-scheduler as they came, by its protocol; only what is told elsewhere counts here.
        await http.post("/scheduler/filter", json={"Pod": pod, "Nodes": {"metadata": {}, "items": [node]}, "NodeNames": None})
        outputs.take(await http.post("/scheduler/filter", content=json.dumps(pod)[:-40].encode()))
        bind = {"PodName": "small", "PodNamespace": "default", "PodUID": pod["metadata"]["uid"], "Node": "node-1"}
        outputs.take(await http.post("/scheduler/bind", json=bind))
        outputs.take(await http.post("/scheduler/bind", json={**bind, "PodUID": {"a": f"{MARK}uid"}}))
    async with httpx.AsyncClient(base_url=whole.url("agents"), headers=bearer, verify=False, timeout=60) as http:
        for request in (a_request(), a_request(metrics=f"{MARK}metrics"), {"protoVersion": [f"{MARK}version"]}):
            outputs.take(await http.post("/", json=request))
    await ask_ops(whole.ops, bearer, pod, outputs)


async def ask_ops(http: httpx.AsyncClient, bearer: dict[str, str], pod: dict[str, Any], outputs: Outputs) -> None:
    supposed = deepcopy(pod)
    supposed["metadata"]["name"] = "supposed"
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"password": f"{MARK}secret-object"}}
    for question in ("placement", "scale-up", "scale-down"):
        for objects in ([supposed], [secret], *([broken(supposed)["Pod"]] for broken in BROKEN)):
            outputs.take(await http.post(f"/simulate/{question}", json={"objects": objects}, headers=bearer))
        outputs.take(await http.post(f"/simulate/{question}", content=json.dumps({"objects": [supposed]})[:-9], headers=bearer))
    outputs.take(await http.post("/drains/node-1/cancel", headers=bearer))
    for path in READS:
        outputs.take(await http.get(f"{path}?token={MARK}query", headers=bearer))
    async with http.stream("GET", "/dashboard/events") as events:
        async for text in events.aiter_text():
            outputs.add("/dashboard/events", text)
            break


READS = (
    "/dumpstate",
    "/statusz",
    "/metrics",
    "/explain/pods/default/small",
    "/explain/pods/default/large",
    "/explain/pods/default/huge",
    "/explain/nodes/node-1",
    "/explain/groups/pool",
    "/openapi.json",
    "/",
    "/none",
)


def broken_annotations(pod: dict[str, Any]) -> dict[str, Any]:
    return {"Pod": {**pod, "metadata": {**pod["metadata"], "annotations": [f"{MARK}annotation-list"]}}}


def broken_containers(pod: dict[str, Any]) -> dict[str, Any]:
    return {"Pod": {**pod, "spec": {"containers": f"{MARK}containers"}}}


def broken_environment(pod: dict[str, Any]) -> dict[str, Any]:
    container = {**pod["spec"]["containers"][0], "env": f"{MARK}env-text"}
    return {"Pod": {**pod, "spec": {**pod["spec"], "containers": [container]}}}


BROKEN = (broken_annotations, broken_containers, broken_environment)


@pytest.mark.parametrize("log_format", ["json", "console"])
async def test_no_output_of_the_running_service_shows_a_secret(tmp_path: Path, log_format: LogFormat) -> None:
    log, outputs = io.StringIO(), Outputs()
    set_up_logs(log_format, stream=log, level=logging.DEBUG)
    record = tmp_path / "decisions.rec"
    async with a_service_full_of_secrets(record) as whole:
        await ask_everything(whole, outputs)

        def crash(*_: object) -> object:
            raise RuntimeError("on purpose")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(whole.running.state_machine, "filter", crash)
            patch.setattr(whole.running.state_machine, "cancel_drain", crash)
            await ask_everything(whole, outputs)
    outputs.add("log", log.getvalue())
    outputs.add("record", gzip.decompress(record.read_bytes()).decode("latin-1"))
    assert "on purpose" in log.getvalue(), "the crashes are part of what is searched"
    assert len(outputs.reported["record"]) > 1_000
    assert {place.partition(" ")[2] for place in outputs.reported} >= {"/dumpstate", "/metrics", "/scheduler/filter", "/"}
    assert outputs.secrets() == []


# --- how we reach the API server --------------------------------------------------------------------------------------------


def kubeconfig(user: str, cluster: str = "server: https://127.0.0.1:1") -> str:
    return f"""apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{{cluster}}}}}]
users: [{{name: u, user: {user}}}]
"""


CODED = base64.b64encode(MARK.encode()).decode()
UNUSABLE = {
    "no YAML": kubeconfig(f"{{token: [{MARK}}}"),
    "a tab": kubeconfig(f"{{token: {MARK}}}") + f"\t{MARK}: {{",
    "user is a text": kubeconfig(MARK),
    "no certificate": kubeconfig(f"{{client-certificate-data: {CODED}, client-key-data: {CODED}}}"),
    "no base64": kubeconfig(f"{{client-certificate-data: {MARK}, client-key-data: {MARK}}}"),
    "no CA": kubeconfig(f"{{token: {MARK}}}", f"server: https://x, certificate-authority-data: {CODED}"),
}
PLUGINS = {
    "prints no JSON": f"echo {MARK}",
    "prints half": f'echo \'{{"status":{{"token":"{MARK}"}}\'',
    "prints something else": f'echo \'{{"kind":"Other","token":"{MARK}"}}\'',
    "fails after printing": f'echo \'{{"status":{{"token":"{MARK}"}}}}\'; exit 3',
}


@pytest.mark.parametrize("text", UNUSABLE.values(), ids=UNUSABLE)
async def test_an_unusable_kubeconfig_is_refused_without_its_secrets(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    log = io.StringIO()
    set_up_logs("json", stream=log, level=logging.DEBUG)
    with pytest.raises(KubeConfigError) as refused:
        await load_access(kubeconfig=str(path))
    assert str(path) in str(refused.value)
    for secret in (MARK, CODED):
        assert secret not in str(refused.value) + log.getvalue()


@pytest.mark.parametrize("script", PLUGINS.values(), ids=PLUGINS)
async def test_a_plug_in_that_fails_does_not_show_its_token(tmp_path: Path, script: str) -> None:
    plugin, path = tmp_path / "plugin", tmp_path / "config"
    plugin.write_text(f"#!/bin/sh\n{script}\n")
    plugin.chmod(0o755)
    command = f"{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {plugin}, interactiveMode: Never}}}}"
    path.write_text(kubeconfig(command))
    log = io.StringIO()
    set_up_logs("json", stream=log, level=logging.DEBUG)
    with pytest.raises(KubeConfigError) as refused:
        await load_access(kubeconfig=str(path))
    assert MARK not in str(refused.value) + log.getvalue()


async def test_an_unreachable_api_server_is_reported_without_the_token(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(kubeconfig(f"{{token: {MARK}}}"))
    log = io.StringIO()
    set_up_logs("json", stream=log, level=logging.DEBUG)
    async with open_client(kubeconfig=str(path)) as client:
        with pytest.raises(Unreachable) as failed:
            await client.send(Read("/version", timeout_seconds=60))
    assert MARK not in str(failed.value) + repr(failed.value) + log.getvalue()
