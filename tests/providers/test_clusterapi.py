"""Cluster API's groups: which objects are some, what their annotations say, and that the right machines go."""

from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import pytest

from slackwater.adapters.api_calls import Call, Response
from slackwater.adapters.cloud.apiserver import listed
from slackwater.adapters.cloud.clusterapi.objects import MachineWire
from slackwater.adapters.cloud.clusterapi.provider import ClusterApiProvider, GroupSelection
from slackwater.model.nodegroups import GroupName, GroupOptions, Instance, InstanceId, NodeGroup
from slackwater.model.objects import Taint
from slackwater.ports.protocols import ProviderError
from slackwater_protocol.units import byte_count
from tests.providers.clusterapi_rig import CAPACITY, NAMESPACE, a_provider, a_store
from tests.support.flakyapi import FlakyApi
from tests.support.machines import GROUP_PATH, MARK, PLURALS, MachineController, a_scaled, sizes
from tests.support.objectstore import ObjectStore
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

POOL = GroupName(f"MachineDeployment/{NAMESPACE}/pool")
OPTION = "cluster.x-k8s.io/autoscaling-options-"
PREFIX = "capacity.cluster-autoscaler.kubernetes.io/"


class StateMachine:
    """A management cluster."""

    def __init__(self, wanted: GroupSelection | None = None) -> None:
        self.store: ObjectStore = a_store()
        self.api = FlakyApi(self.store)
        self.controller = MachineController(self.store, NAMESPACE)
        self.provider: ClusterApiProvider = a_provider(self.api, wanted)

    async def has(
        self,
        name: str = "pool",
        kind: str = "MachineDeployment",
        *,
        replicas: int = 3,
        annotations: Mapping[str, str] | None = None,
        labels: dict[str, str] | None = None,
        template: dict[str, Any] | None = None,
    ) -> None:
        said = dict(sizes(1, 10) if annotations is None else annotations)
        body = a_scaled(kind, name, replicas=replicas, annotations=said, labels=labels)
        if template is not None:
            body["spec"]["template"] = template
        await self.controller.create(PLURALS[kind], body)
        await self.controller.settle()

    async def groups(self) -> Sequence[NodeGroup]:
        return await self.provider.groups(timeout_seconds=60)

    async def pool(self) -> NodeGroup:
        (group,) = await self.groups()
        return group

    async def delete(self, *instances: Instance) -> None:
        await self.provider.delete(POOL, instances, timeout_seconds=60)

    def machines(self) -> dict[str, Any]:
        return {item["metadata"]["name"]: item for item in self.store.listed(f"{GROUP_PATH}/machines").values()}

    def marked(self) -> list[str]:
        return [name for name, item in self.machines().items() if MARK in item["metadata"].get("annotations", {})]

    def writes(self, method: str) -> list[str]:
        return [path for asked, path in self.store.asked if asked == method]


# --- which objects are groups -----------------------------------------------------------------------------------------------


async def test_where_cluster_api_is_not_installed_there_are_no_groups() -> None:
    state_machine = StateMachine()
    state_machine.store.served.clear()
    assert await state_machine.groups() == []


async def test_a_set_of_a_deployment_is_no_group_of_its_own() -> None:
    state_machine = StateMachine()
    await state_machine.has()
    for item in state_machine.store.listed(f"{GROUP_PATH}/machinesets").values():
        item["metadata"]["annotations"] = sizes(0, 5)
    assert [group.name for group in await state_machine.groups()] == [POOL]


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {**sizes(1, 3), "cluster.x-k8s.io/paused": ""},
    ],
    ids=["none", "paused"],
)
async def test_an_object_that_does_not_say_its_sizes_is_left_alone(annotations: dict[str, str]) -> None:
    state_machine = StateMachine()
    await state_machine.has(annotations=annotations)
    assert await state_machine.groups() == []
    with pytest.raises(ProviderError, match="gone"):
        await state_machine.provider.grow(POOL, seen=3, to=4, timeout_seconds=60)


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        (sizes(4, 3), "sizes 4 to 3, want 0 <= min <= max and 1 <= max"),
        (sizes(0, 0), "sizes 0 to 0, want 0 <= min <= max and 1 <= max"),
        ({**sizes(1, 3), "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "-1"}, "got -1, want a whole number"),
        (
            {**sizes(1, 3), "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "many"},
            "got many, want a whole number",
        ),
        ({"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "1"}, "got nothing, want a whole number"),
    ],
    ids=["min above max", "max 0", "negative", "no number", "min alone"],
)
async def test_a_group_whose_sizes_cannot_be_read_says_so_and_keeps_its_machines(
    annotations: dict[str, str], problem: str
) -> None:
    state_machine = StateMachine()
    await state_machine.has(annotations=annotations)
    (group,) = await state_machine.groups()
    assert group.unreadable.startswith(f"{POOL}: ")
    assert problem in group.unreadable
    assert len(group.instances) == group.target == group.max_size > 0
    with pytest.raises(ProviderError, match="want"):
        await state_machine.provider.grow(POOL, seen=3, to=4, timeout_seconds=60)


@pytest.mark.parametrize(
    ("wanted", "want"),
    [
        (GroupSelection(), True),
        (GroupSelection(namespace=NAMESPACE), True),
        (GroupSelection(namespace="elsewhere"), False),
        (GroupSelection(cluster_name="here"), True),
        (GroupSelection(cluster_name="there"), False),
        (GroupSelection(labels={"autoscale": "yes"}), True),
        (GroupSelection(labels={"autoscale": "no"}), False),
    ],
)
async def test_only_wanted_groups_are_used(wanted: GroupSelection, want: bool) -> None:
    state_machine = StateMachine(wanted)
    await state_machine.has(labels={"autoscale": "yes", "team": "a"})
    assert [group.name for group in await state_machine.groups()] == ([POOL] if want else [])
    if not want:
        with pytest.raises(ProviderError, match="gone"):
            await state_machine.provider.grow(POOL, seen=3, to=4, timeout_seconds=60)


@pytest.mark.parametrize(("said", "want"), [({}, None), ({"slackwater.dev/owned-by": "x" * 101}, f"{'x' * 100}...")])
async def test_an_annotation_may_say_whose_group_it_is(said: dict[str, str], want: str | None) -> None:
    state_machine = StateMachine()
    await state_machine.has(annotations={**sizes(1, 3), **said})
    assert [group.owned_by for group in await state_machine.groups()] == [want]


# --- what annotations say ---------------------------------------------------------------------------------------------------


async def test_a_template_from_annotations_alone() -> None:
    state_machine = StateMachine()
    said = {
        PREFIX + "cpu": "15900m",
        PREFIX + "memory": "60Gi",
        PREFIX + "ephemeral-disk": "100Gi",
        PREFIX + "maxPods": "200",
        PREFIX + "gpu-type": "nvidia.com/gpu",
        PREFIX + "gpu-count": "2",
        PREFIX + "labels": "zone=a, tier=gpu",
        PREFIX + "taints": "gpu=yes:NoSchedule,old=:NoExecute",
    }
    labels = {"node-role.kubernetes.io/worker": "", "team": "a", "x.node.cluster.x-k8s.io/y": "z"}
    taints = [{"key": "gpu", "value": "no", "effect": "NoSchedule"}, {"key": "slow", "effect": "PreferNoSchedule"}]
    await state_machine.has(
        annotations=sizes(0, 5) | said, template={"metadata": {"labels": labels}, "spec": {"taints": taints}}
    )
    template = (await state_machine.pool()).template
    assert template is not None
    assert template.allocatable == (15900, 60 << 30)
    assert dict(template.scalars) == {"ephemeral-storage": byte_count("100Gi"), "pods": 200, "nvidia.com/gpu": 2}
    assert template.labels == {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node-role.kubernetes.io/worker": "",
        "x.node.cluster.x-k8s.io/y": "z",
        "zone": "a",
        "tier": "gpu",
    }
    assert set(template.taints) == {
        Taint("gpu", "yes", "NoSchedule"),
        Taint("slow", "", "PreferNoSchedule"),
        Taint("old", "", "NoExecute"),
    }


@pytest.mark.parametrize("reference", [{"apiVersion": "infra.example.com/v1"}, {"apiGroup": "infra.example.com"}])
async def test_what_annotations_leave_out_the_infrastructure_says(reference: dict[str, str]) -> None:
    state_machine = StateMachine()
    infra = "/apis/infra.example.com"
    ref = {"kind": "MetalTemplate", "name": "big", **reference}
    state_machine.store.objects[infra] = {"preferredVersion": {"version": "v1"}}
    state_machine.store.objects[f"{infra}/v1"] = {"resources": [{"name": "metaltemplates", "kind": "MetalTemplate"}]}
    capacity = {"cpu": "8", "memory": "32Gi", "pods": 50}
    node_info = {"architecture": "arm64", "operatingSystem": "linux"}
    path = f"{infra}/v1/namespaces/{NAMESPACE}/metaltemplates/big"
    state_machine.store.put(path, status={"capacity": capacity, "nodeInfo": node_info})
    await state_machine.has(annotations=sizes(0, 5) | {PREFIX + "cpu": "6"}, template={"spec": {"infrastructureRef": ref}})
    template = (await state_machine.pool()).template
    assert template is not None
    assert template.allocatable == (6000, 32 << 30)
    assert dict(template.scalars) == {"pods": 50}
    assert template.labels["kubernetes.io/arch"] == "arm64"
    asked = len(state_machine.writes("GET"))
    await state_machine.pool()
    assert not [get for get in state_machine.writes("GET")[asked:] if infra in get]  # templates do not change


@pytest.mark.parametrize(
    "said",
    [
        {},
        {PREFIX + "cpu": "4"},
        CAPACITY | {PREFIX + "cpu": "lots"},
        CAPACITY | {PREFIX + "taints": "gpu"},
        CAPACITY | {PREFIX + "labels": "=a"},
    ],
    ids=["nothing", "no memory", "no quantity", "no taint", "no label"],
)
async def test_without_a_readable_capacity_there_is_a_group_but_no_template(said: dict[str, str]) -> None:
    state_machine = StateMachine()
    await state_machine.has(annotations=sizes(0, 5) | said)
    group = await state_machine.pool()
    assert (group.template, group.target) == (None, 3)


async def test_a_groups_own_options() -> None:
    state_machine = StateMachine()
    said = {
        OPTION + "scaledownutilizationthreshold": "0.7",
        OPTION + "scaledownunneededtime": "90s",
        OPTION + "maxnodeprovisiontime": "1h",
    }
    await state_machine.has(annotations=sizes(0, 5) | said)
    assert (await state_machine.pool()).options == GroupOptions(
        utilization_threshold=0.7, unneeded_time=90, provision_seconds=3600
    )


# --- which machines go ------------------------------------------------------------------------------------------------------


async def test_sizes_go_through_the_scale_subresource_and_machines_are_marked_before() -> None:
    state_machine = StateMachine()
    await state_machine.has()
    await state_machine.provider.grow(POOL, seen=3, to=4, timeout_seconds=60)
    await state_machine.controller.settle()
    first = len(state_machine.store.asked)
    to_delete = (await state_machine.pool()).instances[1]
    await state_machine.delete(to_delete)
    writes = [(method, path.rpartition("/")[2]) for method, path in state_machine.store.asked[first:] if method != "GET"]
    assert writes == [("PATCH", state_machine.marked()[0]), ("PUT", "scale")]
    await state_machine.controller.step()
    assert state_machine.controller.deleted == state_machine.marked()


async def test_a_lost_answer_about_the_size_lowers_it_once() -> None:
    state_machine = StateMachine()
    await state_machine.has()
    to_delete = (await state_machine.pool()).instances[0]
    state_machine.api.lost_paths = ["/scale"]
    with pytest.raises(ProviderError, match="unknown"):
        await state_machine.delete(to_delete)
    await state_machine.delete(to_delete)
    assert (await state_machine.pool()).target == 2
    await state_machine.controller.settle()
    group = await state_machine.pool()
    assert (group.target, len(group.instances)) == (2, 2)
    assert to_delete.id not in {instance.id for instance in group.instances}


async def test_a_refused_size_takes_the_marks_back() -> None:
    state_machine = StateMachine()
    await state_machine.has()
    instances = (await state_machine.pool()).instances
    state_machine.api.refused_paths = {"/scale": 403}
    with pytest.raises(ProviderError, match="403"):
        await state_machine.delete(*instances[:2])
    assert state_machine.marked() == []


async def test_a_group_that_others_write_to_is_read_again() -> None:
    state_machine = StateMachine()
    await state_machine.has()
    to_delete = (await state_machine.pool()).instances[0]
    state_machine.api.refused_paths = {"/scale": 409}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(state_machine.delete, to_delete)
        await eventually(lambda: _puts(state_machine), lambda puts: puts > 1, within_seconds=60, wanted="a second attempt")
        state_machine.api.refused_paths = {}
    assert (await state_machine.pool()).target == 2
    assert len(state_machine.marked()) == 1


async def _puts(state_machine: StateMachine) -> int:
    return sum(path.endswith("/pool") for method, path in state_machine.store.asked if method == "GET")


async def test_a_machine_goes_although_others_are_still_coming() -> None:
    state_machine = StateMachine()
    await state_machine.has()
    to_delete = (await state_machine.pool()).instances[0]
    await state_machine.provider.grow(POOL, seen=3, to=5, timeout_seconds=60)
    await state_machine.delete(to_delete)  # their controller has three machines and is to have four: it would delete none
    await state_machine.controller.settle()
    await state_machine.controller.settle()
    group = await state_machine.pool()
    assert (group.target, len(group.instances)) == (4, 4)
    assert to_delete.id not in {instance.id for instance in group.instances}


async def test_giving_up_takes_failed_machines_first_and_never_one_with_a_node() -> None:
    state_machine = StateMachine()
    await state_machine.has()
    before = {instance.id for instance in (await state_machine.pool()).instances}
    await state_machine.provider.grow(POOL, seen=3, to=4, timeout_seconds=60)
    await state_machine.controller.step()
    await state_machine.controller.fail("CreateError")
    (failed,) = (instance for instance in (await state_machine.pool()).instances if instance.error)
    await state_machine.provider.grow(POOL, seen=4, to=6, timeout_seconds=60)
    await state_machine.controller.step()
    await state_machine.provider.lower(POOL, seen=6, to=5, timeout_seconds=60)
    await state_machine.controller.settle()
    after = {instance.id for instance in (await state_machine.pool()).instances}
    assert before < after
    assert failed.id not in after
    assert len(after) == 5


async def test_a_machine_that_got_its_id_meanwhile_is_still_known() -> None:
    state_machine = StateMachine()
    await state_machine.has()
    await state_machine.provider.grow(POOL, seen=3, to=4, timeout_seconds=60)
    await state_machine.controller.step()
    (coming,) = (instance for instance in (await state_machine.pool()).instances if instance.state == "creating")
    assert coming.id.startswith(f"machine://{NAMESPACE}/")
    await state_machine.controller.settle()
    await state_machine.delete(coming)
    await state_machine.controller.settle()
    assert (await state_machine.pool()).target == 3


async def test_nothing_is_deleted_while_a_deployment_rolls_out() -> None:
    state_machine = StateMachine()
    await state_machine.has()
    (deployment,) = state_machine.store.listed(f"{GROUP_PATH}/machinedeployments").values()
    owner = {"kind": "MachineDeployment", "name": "pool", "uid": deployment["metadata"]["uid"]}
    new = state_machine.store.put(
        f"{GROUP_PATH}/namespaces/{NAMESPACE}/machinesets/pool-2",
        metadata={"ownerReferences": [owner]},
        spec={"replicas": 1},
    )
    machine = next(iter(state_machine.machines().values()))
    machine["metadata"]["ownerReferences"] = [{"kind": "MachineSet", "name": "pool-2", "uid": new["metadata"]["uid"]}]
    with pytest.raises(ProviderError, match="rolls out"):
        await state_machine.delete((await state_machine.pool()).instances[0])
    assert state_machine.marked() == []
    assert "rolls out" in (await state_machine.pool()).undeletable


async def test_a_machine_that_never_finishes_its_deletion_is_no_rollout() -> None:
    state_machine = StateMachine()
    await state_machine.has()
    (deployment,) = state_machine.store.listed(f"{GROUP_PATH}/machinedeployments").values()
    owner = {"kind": "MachineDeployment", "name": "pool", "uid": deployment["metadata"]["uid"]}
    old = state_machine.store.put(
        f"{GROUP_PATH}/namespaces/{NAMESPACE}/machinesets/pool-old", metadata={"ownerReferences": [owner]}, spec={"replicas": 0}
    )
    stuck = next(iter(state_machine.machines().values()))
    stuck["metadata"]["ownerReferences"] = [{"kind": "MachineSet", "name": "pool-old", "uid": old["metadata"]["uid"]}]
    stuck["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    group = await state_machine.pool()
    assert group.undeletable == ""
    alive = next(instance for instance in group.instances if instance.state != "deleting")
    await state_machine.delete(alive)
    assert len(state_machine.marked()) == 1


class TestAPoolWithoutMachines:
    """Only its size can be told."""

    POOL = GroupName(f"MachinePool/{NAMESPACE}/pool")

    def state_machine(self, smallest: int = 0) -> StateMachine:
        state_machine = StateMachine()
        ids = ["cloud://1", "cloud://2"]
        spec = {"replicas": 2, "providerIDList": ids, "template": {}}
        path = f"{GROUP_PATH}/namespaces/{NAMESPACE}/machinepools/pool"
        state_machine.store.put(path, metadata={"annotations": sizes(smallest, 5)}, spec=spec)
        return state_machine

    async def test_it_grows_and_shows_its_instances(self) -> None:
        state_machine = self.state_machine()
        await state_machine.provider.grow(self.POOL, seen=2, to=4, timeout_seconds=60)
        group = await state_machine.pool()
        assert group.target == 4
        assert [(instance.id, instance.state) for instance in group.instances] == [
            ("cloud://1", "running"),
            ("cloud://2", "running"),
        ]

    async def test_all_of_it_can_go_but_not_one(self) -> None:
        state_machine = self.state_machine()
        one, two = (await state_machine.pool()).instances
        with pytest.raises(ProviderError, match="does not let us choose the instances"):
            await state_machine.provider.delete(self.POOL, [one], timeout_seconds=60)
        assert (await state_machine.pool()).target == 2
        await state_machine.provider.delete(self.POOL, [one, two], timeout_seconds=60)
        assert (await state_machine.pool()).target == 0

    async def test_its_minimum_holds(self) -> None:
        state_machine = self.state_machine(smallest=1)
        with pytest.raises(ProviderError, match="limit"):
            await state_machine.provider.delete(self.POOL, (await state_machine.pool()).instances, timeout_seconds=60)

    async def test_what_is_gone_is_done(self) -> None:
        state_machine = self.state_machine()
        gone = Instance(id=InstanceId("cloud://0"), state="running")
        await state_machine.provider.delete(self.POOL, [gone], timeout_seconds=60)
        assert (await state_machine.pool()).target == 2


class ANestedMachine:
    """An API server with one Machine, whose `managedFields` are nested nearly as deep as an API server stores."""

    async def send(self, call: Call) -> Response:
        nested = b"[" * 9_000 + b"]" * 9_000
        return Response(200, b'{"items":[{"metadata":{"name":"deep","managedFields":%s}}]}' % nested)


async def test_a_deeply_nested_machine_does_not_make_the_list_unreadable() -> None:
    assert [machine.metadata.name async for machine in listed(ANestedMachine(), "/machines", MachineWire)] == ["deep"]
