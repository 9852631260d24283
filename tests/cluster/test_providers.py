"""The conformance suite of providers once more, on a real API server, with the rights that the service asks for."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec
import pytest

from slackwater.adapters.api_calls import ApiCalls
from slackwater.adapters.cloud.clusterapi.provider import GroupSelection
from slackwater.adapters.cloud.externalgrpc import reading
from slackwater.adapters.kube.client import open_client
from slackwater.adapters.kube.decode import NodeDecoder
from slackwater.app import rbac
from slackwater.app.settings import Settings, loads
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node
from tests.cluster.clusterapi import crds
from tests.cluster.support.ground import Ground
from tests.controlplane.talk import create
from tests.providers.clusterapi_rig import ClusterApiRig, a_provider
from tests.providers.kwok_rig import SLOW, TEMPLATE, KwokRig, a_group
from tests.providers.kwok_rig import a_provider as a_kwok_provider
from tests.providers.rig import FIRST_SIZE, MIN_SIZE, Rig
from tests.providers.test_conformance import *  # noqa: F403  # the suite: run here with the rigs of this file
from tests.support.controlplane.stack import ControlPlane
from tests.support.flakyapi import FlakyApi
from tests.support.machines import MachineController
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_GROUND: Final = "slackwater.test/ground"
_USES_ALL: Final = """
apiVersion: config.slackwater.dev/v1alpha1
kind: SlackwaterConfiguration
autoscaler:
  enabled: true
  nodeGroups: [{name: a}, {name: b, provider: clusterapi}]
  providers: {kwok: {namespace: NAMESPACE}}
"""


async def _nodes_of(ground: Ground) -> list[Node]:
    decoder = NodeDecoder()
    mine = [node for node in await ground.nodes() if node["metadata"].get("labels", {}).get(_GROUND) == ground.name]
    return [decoder.decode(msgspec.json.encode(node)) for node in mine]


@asynccontextmanager
async def kwok_rig(api: FlakyApi, _: ApiCalls, ground: Ground) -> AsyncIterator[Rig]:
    """Time is virtual; Nodes and their record are real."""
    clock = [1000.0]
    labels = {**TEMPLATE["metadata"]["labels"], _GROUND: ground.name}
    body = {**TEMPLATE, "metadata": {"labels": labels}}
    names = [f"{ground.name}-group", f"{ground.name}-other"]
    groups = [
        replace(a_group(name, simulated_failures=SLOW, min_size=smallest), body=body)
        for name, smallest in zip(names, (MIN_SIZE, 0), strict=True)
    ]
    make = partial(a_kwok_provider, api, groups, clock, namespace=ground.name)
    rig = KwokRig(api, clock, groups, make, lambda: _nodes_of(ground))
    await rig.start()
    yield rig


@asynccontextmanager
async def clusterapi_rig(api: FlakyApi, admin: ApiCalls, ground: Ground) -> AsyncIterator[Rig]:
    """The controller is ours, the API server real."""
    await crds.install(ground.api)
    controller = MachineController(admin, ground.name, node_labels={_GROUND: ground.name})
    make = partial(a_provider, api, GroupSelection(namespace=ground.name))
    rig = ClusterApiRig(api, controller, make, lambda: _nodes_of(ground), "MachineDeployment")
    await rig.start()
    yield rig


RIGS: Final[dict[str, Callable[[FlakyApi, ApiCalls, Ground], AbstractAsyncContextManager[Rig]]]] = {
    "kwok": kwok_rig,
    "clusterapi": clusterapi_rig,
}


@pytest.fixture(scope="session")
async def provider_rights(control_plane: ControlPlane) -> None:
    """The rights that a configuration with all providers asks for, beside those that the account has anyway."""
    async with control_plane.session() as api:
        role = rbac.cluster_role(_settings("any"))
        role["metadata"]["name"] = "slackwater-with-providers"
        binding = rbac.binding(role, rbac.user("slackwater"))
        await create(api, f"{_RBAC}/clusterroles", role)
        await create(api, f"{_RBAC}/clusterrolebindings", binding)


def _settings(namespace: str) -> Settings:
    return loads(_USES_ALL.replace("NAMESPACE", namespace))


async def _grant_record(ground: Ground) -> None:
    role = rbac.record_role(_settings(ground.name))
    assert role is not None
    binding = rbac.binding(role, rbac.user("slackwater"))
    await ground.create(f"{_RBAC}/namespaces/{ground.name}/roles", role)
    await ground.create(f"{_RBAC}/namespaces/{ground.name}/rolebindings", binding)


@pytest.fixture(params=RIGS)
async def rig(
    request: pytest.FixtureRequest, provider_rights: None, control_plane: ControlPlane, ground: Ground
) -> AsyncIterator[Rig]:
    await _grant_record(ground)
    ours, admins = (str(control_plane.kubeconfig(name)) for name in ("slackwater", "admin"))
    async with open_client(kubeconfig=ours) as client, open_client(kubeconfig=admins) as admin:
        api = FlakyApi(client)
        await _until_granted(ground)
        async with RIGS[request.param](api, admin, ground) as rig:
            yield rig


async def _until_granted(ground: Ground) -> None:
    """The API server reads roles a moment after they were written. It is asked about them, not tried: the last test of the
    session counts what was forbidden."""
    asked = (("", "configmaps", "create"), ("", "nodes", "delete"), ("cluster.x-k8s.io", "machines", "patch"))

    async def allowed() -> list[bool]:
        return [await _may(ground, *right) for right in asked]

    await eventually(allowed, all, within_seconds=60, wanted=f"all of {asked}")


async def _may(ground: Ground, group: str, resource: str, verb: str) -> bool:
    right = {"namespace": ground.name, "group": group, "resource": resource, "verb": verb}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    spec = {"user": "slackwater", "resourceAttributes": right}
    async with ground.api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", json={**body, "spec": spec}) as answer:
        assert answer.status == 201, await answer.text()
        return bool((await answer.json())["status"]["allowed"])


async def test_kwok_makes_the_nodes_of_a_group_live(provider_rights: None, control_plane: ControlPlane, ground: Ground) -> None:
    """With the real controller beside it, and the provider running by itself."""
    await _grant_record(ground)
    async with open_client(kubeconfig=str(control_plane.kubeconfig("slackwater"))) as client:
        api = FlakyApi(client)
        await _until_granted(ground)
        async with kwok_rig(api, client, ground) as rig:
            await rig.provider.grow(rig.group, seen=FIRST_SIZE, to=FIRST_SIZE + 2, timeout_seconds=60)
            await rig.settle()

            async def ready() -> int:
                return sum(node.ready for node in await rig.nodes())

            wanted = f"{FIRST_SIZE + 3} ready nodes"
            await eventually(ready, lambda count: count == FIRST_SIZE + 3, within_seconds=60, wanted=wanted)


async def test_a_node_as_the_api_server_serialises_it_is_read_as_its_json_is(ground: Ground) -> None:
    """What an external provider sends as a template are such bytes."""
    (name,) = await ground.make_nodes(1, labels={"tier": "batch"}, cpu="3900m")
    path = f"/api/v1/nodes/{name}"
    await ground.patch_node(name, {"spec": {"providerID": "ext://1", "taints": [{"key": "k", "effect": "NoSchedule"}]}})
    async with ground.api.get(path, headers={"Accept": "application/vnd.kubernetes.protobuf"}) as answer:
        raw = await answer.read()
    assert raw.startswith(b"k8s\x00")
    found = reading.template(_unwrapped(raw[4:]), GroupName("g"))
    want = NodeDecoder().decode(msgspec.json.encode(await ground.read(path)))
    assert found is not None
    assert (found.name, found.provider_id, found.labels) == (want.name, want.provider_id, want.labels)
    assert (found.allocatable, found.scalars, found.taints) == (want.allocatable, want.scalars, want.taints)


def _unwrapped(envelope: bytes) -> bytes:
    """Field 2 (raw) of runtime.Unknown."""
    at = 0
    while at < len(envelope):
        tag, at = _varint(envelope, at)
        assert tag & 7 == 2, "all fields of the envelope are of the length-delimited kind"
        length, at = _varint(envelope, at)
        if tag >> 3 == 2:
            return envelope[at : at + length]
        at += length
    raise AssertionError("no raw field")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
        shift += 7
