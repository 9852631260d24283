"""The commands of README, pages and examples that ask a cluster, as somebody types them who follows the pages.

kubectl, helm, API server, controller manager and kube-scheduler are real. KWOK plays the kubelets: the Pods that helm installs
become ready without running; a service beside the cluster answers for one of them, through the API server's port-forward.
"""

import json
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Final

import aiohttp
import anyio.to_thread
import pytest
import yaml

from slackwater.sandbox.free_ports import FreePorts
from tests.cluster.clusterapi import crds as clusterapi
from tests.cluster.neonvm import crds as neonvm
from tests.cluster.slack import crds as buffers
from tests.cluster.support.bodies import a_node, a_pod
from tests.cluster.support.ground import MERGE_PATCH
from tests.cluster.support.slackwater_process import PROGRAM, SlackwaterProcess
from tests.cluster.test_reaching import KUBE_SYSTEM, OPS, Kubelet
from tests.controlplane.talk import create, is_ready, is_running, read, read_until
from tests.helm import program as helm
from tests.helm.program import Object
from tests.support import kubectl
from tests.support.configuration import HEADER
from tests.support.controlplane.build import Binaries
from tests.support.controlplane.stack import ControlPlane
from tests.support.pages import PAGES, Command, objects_in, run
from tests.unit.docs.test_pages_run import SNIPPETS, kinds, place

pytestmark = [pytest.mark.anyio, pytest.mark.cluster, pytest.mark.timeout(300)]

ROOT: Final = Path(__file__).parents[2]
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TEXT: Final = "".join(page.read_text() for page in PAGES)
_SCHEDULER: Final = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
#: What stands for something of the reader's.
_PLACES: Final = {
    "YOUR-REGISTRY": "registry.example",
    "YOUR-IMAGE": "registry.example/app",
    "NAMESPACE/NAME": "shop/web-2",
    "NS/NAME": "shop/web-2",
    "node NAME": "node n17",
    "group G": "group pool-a",
    "drains/NODE": "drains/n17",
    "ACTIVITY": "all",
    "--kubeconfig F ": "",
}


@pytest.fixture
async def cluster(anyio_backend: str, binaries: Binaries, tmp_path: Path) -> AsyncIterator[ControlPlane]:
    """One of its own, with controllers: the pages use the names of the chart."""
    async with ControlPlane(binaries, directory=tmp_path / "control-plane", controllers=True) as cp:
        yield cp


@pytest.fixture
def reader(cluster: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of somebody with a clone of the repository, a kubeconfig, and the programs that the pages need."""
    (programs := tmp_path / "programs").mkdir()
    for program in (helm.build(), kubectl.build(), PROGRAM, PROGRAM.with_name("kubectl-slackwater")):
        (programs / program.name).symlink_to(program)
    (folder := tmp_path / "clone").mkdir()
    for name in ("deploy", "examples"):
        (folder / name).symlink_to(ROOT / name)
    (fragment,) = (each.text for each in SNIPPETS if each.page == "docs/autoscaler.md")
    (folder / "slackwater.yaml").write_text(HEADER + fragment)
    (table,) = (each.text for each in SNIPPETS if each.text.startswith("instance type,"))
    (folder / "prices.csv").write_text(table)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig("admin")))
    monkeypatch.chdir(folder)
    return folder


def to_type() -> list[Command]:
    """The commands that ask a cluster, and those of their blocks that go on with what it answered; each text once."""
    asking = {(each.page, each.block) for each, kind in kinds().items() if each.block and kind == "cluster"}
    wanted = (
        each
        for each, kind in kinds().items()
        if kind == "cluster" or (kind == "slackwater" and (each.page, each.block) in asking)
    )
    return [*{each.text.partition(" #")[0].strip(): each for each in wanted}.values()]


def stage_of(command: Command) -> int:
    """Cleanup comes while nothing runs, then what installs; at the end what the others would miss."""
    if command.text.startswith("slackwater cleanup"):
        return 0
    if re.match(r"helm|kubectl (apply -k|-n kube-system rollout)", command.text):
        return 2 if command.text.startswith("helm uninstall") else 1
    return 4 if re.search(r" (cordon|delete) ", command.text) else 3


async def typed(command: Command, places: Mapping[str, str]) -> str:
    """What it prints; AssertionError unless it exits with 0. The doctor finds problems: nothing listens in a Pod of KWOK's."""
    text = command.text
    for name, here in places.items():
        text = text.replace(name, here)
    if re.match(r"(?:\.venv/bin/)?slackwater ", text):
        code, said = await anyio.to_thread.run_sync(run, text)
    else:
        code, said = await shell(text)
    refused = '"detail"' in said and "is not being removed" not in said
    assert not (refused and text.startswith("curl")), f"{place(command)}: {said}"
    assert code == 0 or (code == 1 and text == "slackwater doctor" and '"problem"' in said), f"{place(command)}: {said}"
    return said


async def shell(text: str, given: bytes | None = None) -> tuple[int, str]:
    done = await anyio.run_process(["bash", "-ec", text], input=given, check=False, stdout=PIPE, stderr=STDOUT)
    return done.returncode, done.stdout.decode()


async def make_objects(api: aiohttp.ClientSession, *, kubelet: Kubelet) -> None:
    """What the pages speak of: nodes n17, whose kubelet forwards ports, and node-000; the pods shop/web-2 and default/report-0,
    which wait; the Deployment shop/web; the types of others."""
    for types in (buffers, clusterapi, neonvm):
        await types.install(api)
    for kind in ("ServiceMonitor", "PrometheusRule"):
        await create(api, CRDS, a_type(kind, "monitoring.coreos.com", "v1"))
    for name in ("n17", "node-000"):
        await create(api, "/api/v1/nodes", a_node(name, labels={"slackwater.dev/node-group": "pool-a"}))
        await read_until(api, f"/api/v1/nodes/{name}", is_ready)
    endpoint = {"daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}}}
    status = {"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}], **endpoint}}
    async with api.patch("/api/v1/nodes/n17/status", json=status, headers=MERGE_PATCH) as answer:
        assert answer.status == 200, await answer.text()
    await create(api, "/api/v1/namespaces", {"metadata": {"name": "shop"}})
    for namespace, name in (("shop", "web-2"), ("default", "report-0")):
        await create(api, f"/api/v1/namespaces/{namespace}/pods", a_pod(name, cpu="20"))
    labels, container = {"app": "web"}, {"name": "c", "image": "registry.example/app"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    await create(api, "/apis/apps/v1/namespaces/shop/deployments", {"metadata": {"name": "web"}, "spec": spec})


def a_type(kind: str, group: str, version: str) -> Object:
    """A CustomResourceDefinition of any fields."""
    plural, anything = f"{kind.lower()}s", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    names = {"plural": plural, "kind": kind}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [served]}
    return {"metadata": {"name": f"{plural}.{group}"}, "spec": spec}


async def test_everything_can_be_typed_as_it_stands(
    cluster: ControlPlane, binaries: Binaries, reader: Path, free_ports: FreePorts, tmp_path: Path
) -> None:
    kubelet = Kubelet(cluster, binaries, tmp_path, free_ports.take())
    stages = {number: [each for each in to_type() if stage_of(each) == number] for number in range(5)}
    async with cluster.session() as api, AsyncExitStack() as stack:
        await make_objects(api, kubelet=kubelet)
        for item in (await read(api, CRDS))["items"]:
            assert item["metadata"]["name"] in TEXT, "a page names every type that others have to bring"
        await cluster.start_scheduler(yaml.safe_dump(_SCHEDULER))  # for the Pods that helm installs
        for command in (*stages[0], *stages[1], *stages[2]):
            if command.text.startswith("helm install"):
                await shell("helm uninstall slackwater --namespace kube-system --no-hooks")
            await typed(command, _PLACES)
            if command.text.startswith("helm upgrade"):
                _, values = await shell("helm get values slackwater --namespace kube-system")
                assert "registry.example" in values, "what was chosen at the installation stays"

        settings = {**yaml.safe_load((reader / "slackwater.yaml").read_text()), "leaderElection": {"mode": "own"}}
        process = SlackwaterProcess(
            folder=tmp_path, kubeconfig=cluster.kubeconfig("admin"), ports=free_ports, settings=settings
        )
        service = await stack.enter_async_context(process)
        await service.start()
        await kubelet.forward({"replica": int(service.ops_url.rpartition(":")[2])})
        stack.push_async_callback(kubelet.stop)
        replica = a_pod("replica", on="n17", labels={"name": "slackwater"})
        replica["spec"]["containers"][0]["ports"] = [{"name": "ops", "containerPort": OPS}]
        await create(api, KUBE_SYSTEM, replica)
        await read_until(api, f"{KUBE_SYSTEM}/replica", is_running)
        objects = [item for each in SNIPPETS if each.language == "yaml" for item in objects_in(yaml.safe_load(each.text))]
        for item in objects:
            manifest = json.dumps(item).replace("YOUR-IMAGE", "registry.example/app").encode()
            for options in ("--dry-run=server --validate=strict", "") if item["kind"] == "Pod" else ("--dry-run=server",):
                code, said = await shell(f"kubectl apply {options} -f -", manifest)
                assert code == 0, said
        places = {**_PLACES, "http://127.0.0.1:10298": service.ops_url, "http://127.0.0.1:29134": service.ops_url}
        for command in (*stages[3], *stages[4]):
            await typed(command, places)
