"""Each set-up of examples/: applied to a real API server, run with its own configuration and rights, and tried.

What others bring into a cluster is a double where the example needs it: Cluster API's controller, a cloud behind external gRPC.
Their protocols and types are real, and so are the API server, kube-scheduler and KWOK.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import yaml

from slackwater.sandbox.free_ports import FreePorts
from tests.cluster.clusterapi import crds as clusterapi
from tests.cluster.neonvm import crds as neonvm
from tests.cluster.support.bodies import a_node
from tests.cluster.support.slackwater_process import SlackwaterProcess
from tests.cluster.test_deploy import FOREIGN, kubeconfig_of_the_account, path_of
from tests.controlplane.talk import create, read
from tests.helm.program import EXAMPLES, NAMES, Object, build, rendered, the
from tests.support.controlplane.build import Binaries
from tests.support.controlplane.stack import ControlPlane
from tests.support.externalserver import ExternalServer, Pool, a_template
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

_PLURALS: Final = {"Pod": "pods", "VirtualMachine": "virtualmachines", "MachineDeployment": "machinedeployments"}
_WITHIN_SECONDS: Final = 60.0


@pytest.fixture(scope="module")
def helm() -> Path:
    return build()


@pytest.fixture
async def cluster(anyio_backend: str, binaries: Binaries, tmp_path: Path) -> AsyncIterator[ControlPlane]:
    """A control plane of its own: each example uses the names of the chart."""
    async with ControlPlane(binaries, directory=tmp_path / "control-plane") as cp:
        yield cp


class Tried:
    """One example on its control plane."""

    def __init__(
        self, api: aiohttp.ClientSession, service: SlackwaterProcess, cloud: ExternalServer, items: list[Object]
    ) -> None:
        self.api = api
        self.service = service
        self.cloud = cloud
        self.items = items

    async def placed(self) -> bool:
        """Has every pod of the example a node?"""
        pods = [item["metadata"]["name"] for item in self.items if item["kind"] == "Pod"]
        found = [await read(self.api, f"/api/v1/namespaces/default/pods/{name}") for name in pods]
        return bool(found) and all(pod["spec"].get("nodeName") for pod in found)

    async def nodes(self) -> list[str]:
        return [node["metadata"]["name"] for node in (await read(self.api, "/api/v1/nodes"))["items"]]


async def pods_are_placed(tried: Tried) -> bool:
    return await tried.placed()


async def the_lease_names_a_leader(tried: Tried) -> bool:
    if not await tried.placed():
        return False
    lease = await read(tried.api, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/slackwater")
    return bool(lease["spec"].get("holderIdentity"))


async def nodes_were_added(tried: Tried) -> bool:
    return await tried.placed() and len(await tried.nodes()) >= 2


async def the_group_grew(tried: Tried) -> bool:
    path = "/apis/cluster.x-k8s.io/v1beta1/namespaces/default/machinedeployments/try-cluster-api"
    return bool((await read(tried.api, path))["spec"]["replicas"] == 1)


async def the_cloud_was_asked_for_a_node(tried: Tried) -> bool:
    return tried.cloud.pools["cloud"].target == 1


async def the_machine_is_known(tried: Tried) -> bool:
    return [each["key"][1] for each in (await tried.service.dumpstate())["virtualMachines"]] == ["try-neon-agents"]


SHOWN: Final[dict[str, Callable[[Tried], Awaitable[bool]]]] = {
    "single": pods_are_placed,
    "two-replicas": the_lease_names_a_leader,
    "kwok": nodes_were_added,
    "cluster-api": the_group_grew,
    "external-grpc": the_cloud_was_asked_for_a_node,
    "neon-agents": the_machine_is_known,
    "batch": nodes_were_added,
}


def test_every_example_is_tried() -> None:
    assert SHOWN.keys() == set(NAMES)
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    assert [name for name in NAMES if f"| `{name}` |" not in listed] == []


@pytest.mark.parametrize("name", NAMES)
async def test_an_example_does_what_it_is_for(
    name: str, cluster: ControlPlane, helm: Path, free_ports: FreePorts, tmp_path: Path
) -> None:
    async with cluster.session() as api, AsyncExitStack() as stack:
        await clusterapi.install(api)
        await neonvm.install(api)
        manifests = [item for item in rendered(helm, files=[name]) if item["kind"] not in FOREIGN]
        for item in manifests:
            await create(api, f"{path_of(item)}?fieldValidation=Strict", item)
        await create(api, "/api/v1/nodes", a_node("there", cpu="2", pods=10))
        settings = yaml.safe_load(the(manifests, "ConfigMap")["data"]["slackwater.yaml"])
        settings.pop("listeners")  # taken by others on this machine
        template = a_template(cpu="4", memory="16Gi", pods="110")
        del template.spec.taints[:]
        cloud = ExternalServer(pools={"cloud": Pool(id="cloud", min_size=0, max_size=5, template=template)})
        if name == "external-grpc":
            address = await stack.enter_async_context(cloud.serving())
            settings["autoscaler"]["providers"]["externalgrpc"]["address"] = address
        kubeconfig = await kubeconfig_of_the_account(cluster, api, tmp_path)
        process = SlackwaterProcess(folder=tmp_path, kubeconfig=kubeconfig, ports=free_ports, settings=settings)
        service = await stack.enter_async_context(process)
        await service.start()
        await start_scheduler(cluster, service, kubeconfig, settings)
        items = [item for item in yaml.safe_load_all((EXAMPLES / name / "try.yaml").read_text("utf-8")) if item]
        for item in items:
            version = "/apis/" if "/" in item["apiVersion"] else "/api/"
            path = f"{version}{item['apiVersion']}/namespaces/default/{_PLURALS[item['kind']]}"
            await create(api, path, item)
        tried = Tried(api, service, cloud, items)
        try:
            shown = SHOWN[name]
            await eventually(
                lambda: shown(tried), bool, within_seconds=_WITHIN_SECONDS, wanted=shown.__name__, every_seconds=0.3
            )
        finally:
            await cluster.stop("kube-scheduler")


async def start_scheduler(
    cluster: ControlPlane, service: SlackwaterProcess, kubeconfig: Path, settings: dict[str, Any]
) -> None:
    """kube-scheduler with what `slackwater scheduler-config` prints, and with the account's own rights."""
    document = yaml.safe_load(await service.scheduler_config())
    document["clientConnection"] = {**document.get("clientConnection", {}), "kubeconfig": str(kubeconfig)}
    lookups = [f"--{what}-kubeconfig={kubeconfig}" for what in ("authentication", "authorization")]
    elected = settings.get("leaderElection", {}).get("mode") == "scheduler"
    await cluster.start_scheduler(json.dumps(document), arguments=lookups, leader_elect=elected)
