"""The image does the main job: the chart's Pod, run by podman with the chart's account and rights, places pods.

API server and nodes are those of the real control plane. All three containers of the Pod run in the image: kube-scheduler's own
image is in a registry, so its program, as the control plane has it, is mounted into ours.
"""

import functools
import random
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import anyio
import anyio.to_thread
import pytest

from slackwater.sandbox.free_ports import FreePorts
from tests.cluster.support.audit_tail import AuditTail
from tests.cluster.support.bodies import a_node, a_pod
from tests.cluster.test_deploy import ACCOUNT, ALL_OF_THE_ACCOUNT, USER, path_of
from tests.controlplane.talk import create, is_running, read_until
from tests.helm.program import build, rendered, the
from tests.image.pod import Account, Pod
from tests.image.podman import Podman
from tests.support.controlplane.build import Binaries
from tests.support.controlplane.stack import ControlPlane

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]

NODES: Final = 3
PODS: Final = 9
PODS_PATH: Final = "/api/v1/namespaces/default/pods"


@pytest.fixture
def ports() -> dict[str, int]:
    free = FreePorts(random.Random())
    return {name: free.take() for name in ("extender", "agents", "ops", "scheduler")}


@pytest.fixture
def objects(ports: dict[str, int]) -> list[dict[str, Any]]:
    """The chart's objects. Only ports differ from its defaults: others on this machine have those."""
    hosts = {"extender": "127.0.0.1", "agents": "127.0.0.1", "ops": "0.0.0.0"}
    listeners = {name: {"address": f"{host}:{ports[name]}"} for name, host in hosts.items()}
    scheduler = {"extraArgs": [f"--secure-port={ports['scheduler']}"]}
    return rendered(build(), {"config": {"listeners": listeners}, "kubeScheduler": scheduler})


@pytest.fixture
async def cluster(anyio_backend: str, binaries: Binaries, tmp_path: Path) -> AsyncIterator[ControlPlane]:
    """A control plane whose audit log has everything that the account asks."""
    async with ControlPlane(binaries, directory=tmp_path / "control-plane", audited=ALL_OF_THE_ACCOUNT) as cp:
        yield cp


async def account(cluster: ControlPlane, api: aiohttp.ClientSession) -> Account:
    """The chart's ServiceAccount, with a token as a kubelet would ask for it."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    granted = await create(api, f"{ACCOUNT}/token", request)
    address = urlsplit(cluster.api_url)
    assert address.hostname is not None
    assert address.port is not None
    return Account(
        token=granted["status"]["token"],
        ca=cluster.ca_file.read_text(),
        namespace="kube-system",
        host=address.hostname,
        port=address.port,
    )


async def ready(url: str, podman: Podman, name: str) -> None:
    """Waits for the container's readiness probe; AssertionError with its log after a minute."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
        with anyio.move_on_after(90):
            while True:
                try:
                    async with session.get(url) as answer:
                        if answer.status == 200:
                            return
                except aiohttp.ClientError:
                    pass
                await anyio.sleep(0.2)
    raise AssertionError(f"{name} is not ready:\n{podman.logs(name)}")


async def in_thread(function: Any, *arguments: Any, **more: Any) -> Any:
    return await anyio.to_thread.run_sync(functools.partial(function, *arguments, **more))


@pytest.fixture
async def api(cluster: ControlPlane) -> AsyncIterator[aiohttp.ClientSession]:
    async with cluster.session() as session:
        yield session


@pytest.fixture
async def pod(cluster: ControlPlane, api: aiohttp.ClientSession, objects: list[dict[str, Any]], tmp_path: Path) -> Pod:
    """The Pod of the chart's Deployment, all of whose objects are on the API server."""
    for item in objects:
        await create(api, f"{path_of(item)}?fieldValidation=Strict", item)
    config_maps = {item["metadata"]["name"]: item["data"] for item in objects if item["kind"] == "ConfigMap"}
    spec = the(objects, "Deployment")["spec"]["template"]["spec"]
    (folder := tmp_path / "pod").mkdir()
    return Pod(spec, config_maps=config_maps, account=await account(cluster, api), folder=folder)


@pytest.fixture
async def running(podman: Podman, pod: Pod, binaries: Binaries, ports: dict[str, int]) -> AsyncIterator[Podman]:
    """Both containers, ready, in the order of a kubelet."""
    await in_thread(podman.run, *pod.options("scheduler-config"))
    await in_thread(podman.start, "slackwater", *pod.options("slackwater"))
    options, arguments = pod.options("kube-scheduler")
    program = f"--volume={binaries.of('kube-scheduler')}:/usr/local/bin/kube-scheduler:ro"
    await in_thread(podman.start, "kube-scheduler", [*options, program], arguments)
    try:
        await ready(f"http://127.0.0.1:{ports['ops']}/readyz", podman, "slackwater")
        await ready(f"https://127.0.0.1:{ports['scheduler']}/readyz", podman, "kube-scheduler")
        yield podman
    finally:
        for name in ("kube-scheduler", "slackwater"):
            await in_thread(podman.ask, "rm", "--force", "--time", "1", name)


async def test_the_charts_pod_places_pods_with_its_own_rights(
    cluster: ControlPlane, api: aiohttp.ClientSession, running: Podman, ports: dict[str, int]
) -> None:
    audit = AuditTail(cluster.audit_log)
    for number in range(NODES):
        await create(api, "/api/v1/nodes", a_node(f"image-{number}", cpu="4"))
    for number in range(PODS):
        await create(api, PODS_PATH, a_pod(f"placed-{number}", cpu="1"))
    for number in range(PODS):
        await read_until(api, f"{PODS_PATH}/placed-{number}", is_running, seconds=60)
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{ports['ops']}/metrics") as answer:
        metrics = await answer.text()
    await in_thread(running.stop, "kube-scheduler", within_seconds=30)
    assert await in_thread(running.stop, "slackwater", within_seconds=30) == 0, running.logs("slackwater")

    (filtered,) = re.findall(r'^slackwater_extender_requests_total{code="200",verb="filter"} (\S+)$', metrics, re.MULTILINE)
    assert float(filtered) >= PODS, "each pod came by the extender"
    asked = [request for request in audit.read() if request.user == USER]
    bound = [
        request for request in asked if (request.verb, request.resource, request.status) == ("create", "pods/binding", 201)
    ]
    assert len(bound) == PODS
    assert [request for request in asked if request.status == 403] == [], "the chart's rights are enough"
