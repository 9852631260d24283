"""What is special about Karpenter: NodePools become groups by variant, and its own controller acts on NodeClaims too."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from slackwater.adapters.cloud.karpenter import instance_types
from slackwater.adapters.cloud.karpenter.instance_types import Offering, read_instance_types
from slackwater.adapters.cloud.karpenter.objects import CLAIMS_PATH, POOLS_PATH
from slackwater.adapters.cloud.karpenter.provider import KarpenterGroups, KarpenterProvider
from slackwater.model.disruption_budgets import NodeDisruptionBudget
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.ports.protocols import ProviderError
from tests.support.nodeclaims import NODE_CLASS, STOPPED, NodeClaimController, a_pool, a_store
from tests.support.objectstore import ObjectStore

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
SECONDS: Final = 60.0
NANO: Final = 10**9
BIG, SMALL = GroupName("p/c.8/a/spot"), GroupName("p/m.2/b/on-demand")


def an_offering(type_: str, cpu: int, zone: str, capacity_type: str, **labels: str) -> Offering:
    amounts = {"cpu": cpu * NANO, "memory": cpu * (4 << 30) * NANO}
    said = {"node.kubernetes.io/instance-type": type_, "topology.kubernetes.io/zone": zone, "kubernetes.io/arch": "amd64"}
    labels = {**said, "karpenter.sh/capacity-type": capacity_type, **labels}
    return Offering(
        type=type_,
        zone=zone,
        capacity_type=capacity_type,
        labels=labels,
        capacity=amounts,
        allocatable=amounts,
        price_micros=cpu,
    )


OFFERINGS: Final = (an_offering("c.8", 8, "a", "spot"), an_offering("m.2", 2, "b", "on-demand"))


def at_work(store: ObjectStore, offerings: tuple[Offering, ...] = OFFERINGS) -> KarpenterProvider:
    return KarpenterProvider(store, offerings)


async def look(reader: KarpenterGroups) -> dict[str, NodeGroup]:
    return {group.name: group for group in await reader.groups(timeout_seconds=SECONDS)}


async def grow(to_grow: KarpenterProvider, group: GroupName, seen: int, to: int) -> None:
    await to_grow.grow(group, seen=seen, to=to, timeout_seconds=SECONDS)


def claims(store: ObjectStore) -> list[Json]:
    return list(store.listed(CLAIMS_PATH).values())


# --- NodePools as groups --------------------------------------------------------------------------------------------------


async def test_each_variant_that_meets_the_requirements_is_a_group() -> None:
    store = a_store()
    spot = {"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["spot"]}
    a_pool(store, "p")
    a_pool(store, "q", template={"requirements": [spot]})
    found = await look(at_work(store))
    assert list(found) == [BIG, SMALL, "q/m.2/b/on-demand"]
    assert {name: (group.pool, group.target, group.price_micros, group.held_by) for name, group in found.items()} == {
        BIG: ("karpenter/p", 0, 8, ""),
        SMALL: ("karpenter/p", 0, 2, ""),
        "q/m.2/b/on-demand": ("karpenter/q", 0, 2, ""),
    }


REQUIREMENTS: Final = [
    ("kubernetes.io/arch", "In", ["arm64", "amd64"], True),
    ("kubernetes.io/arch", "In", ["arm64"], False),
    ("karpenter.k8s.aws/instance-cpu", "Gte", ["8"], True),
    ("karpenter.k8s.aws/instance-cpu", "Gt", ["8"], False),
    ("karpenter.k8s.aws/instance-cpu", "Lte", ["7"], False),
    ("karpenter.k8s.aws/instance-family", "Exists", [], False),
    ("karpenter.k8s.aws/instance-family", "In", ["c7"], False),
    ("topology.k8s.aws/zone-id", "In", ["use1-az1"], False),
    ("team", "In", ["web", "api"], True),
    ("team", "DoesNotExist", [], True),
]


@pytest.mark.parametrize(("key", "operator", "values", "want"), REQUIREMENTS)
async def test_labels_of_the_cloud_come_with_the_type_and_others_from_the_requirement(
    key: str, operator: str, values: list[str], want: bool
) -> None:
    store = a_store()
    a_pool(store, "p", template={"requirements": [{"key": key, "operator": operator, "values": values, "minValues": 1}]})
    offering = an_offering("c.8", 8, "a", "spot", **{"karpenter.k8s.aws/instance-cpu": "8"})
    assert bool(await look(at_work(store, (offering,)))) == want


async def test_a_static_node_pool_and_those_that_are_not_named_are_no_groups() -> None:
    store = a_store()
    a_pool(store, "p")
    a_pool(store, "q")
    a_pool(store, "static", replicas=3)
    assert {group.pool for group in (await look(at_work(store))).values()} == {"karpenter/p", "karpenter/q"}
    assert {group.pool for group in (await look(KarpenterGroups(store, OFFERINGS, wanted=["q"]))).values()} == {"karpenter/q"}
    with pytest.raises(ProviderError, match="gone"):
        await grow(at_work(store), GroupName("static/c.8/a/spot"), 0, 1)


async def test_node_claims_show_variants_that_no_file_has_and_what_a_type_really_has() -> None:
    """Those of Karpenter too. One that may still become any of several types counts nowhere."""
    store = a_store()
    a_pool(store, "p")
    labels = {"karpenter.sh/nodepool": "p", "karpenter.sh/capacity-type": "spot", "topology.kubernetes.io/zone": "z"}
    for name, type_, memory in (("one", "r.4", "30Gi"), ("two", "c.8", "31Gi")):
        amounts = {"cpu": "3900m", "memory": memory}
        status = {"allocatable": amounts, "capacity": {**amounts, "cpu": "4"}, "providerID": f"x://{name}", "nodeName": name}
        named = {**labels, "node.kubernetes.io/instance-type": type_, "kubernetes.io/hostname": name, "gpu": "none"}
        store.put(f"{CLAIMS_PATH}/{name}", metadata={"labels": named}, spec={}, status=status)
    several = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c.8", "r.4"]}]
    store.put(
        f"{CLAIMS_PATH}/any", metadata={"labels": {"karpenter.sh/nodepool": "p"}}, spec={"requirements": several}, status={}
    )
    found = await look(at_work(store))
    assert {name: group.target for name, group in found.items()} == {BIG: 0, SMALL: 0, "p/r.4/z/spot": 1, "p/c.8/z/spot": 1}
    templates = {name: group.template for name, group in found.items() if group.template is not None}
    assert templates["p/r.4/z/spot"].labels["gpu"] == "none"
    assert "kubernetes.io/hostname" not in templates["p/r.4/z/spot"].labels
    assert {templates[name].allocatable for name in (BIG, "p/c.8/z/spot")} == {(3900, 31 << 30)}  # in another zone, too
    assert [instance.id for instance in found["p/r.4/z/spot"].instances] == ["x://one"]


async def test_nodes_that_do_not_meet_the_requirements_any_more_are_not_followed_by_more() -> None:
    store = a_store()
    a_pool(store, "p")
    ours = at_work(store)
    await grow(ours, BIG, 0, 1)
    NodeClaimController(store, {"cpu": "8", "memory": "32Gi"}).settle()
    on_demand = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    a_pool(store, "p", template={"requirements": [on_demand]})
    found = await look(ours)
    assert (found[BIG].target, found[BIG].max_size) == (1, 1)
    assert found[SMALL].max_size > 1


# --- NodeClaims -----------------------------------------------------------------------------------------------------------


async def test_a_node_claim_is_as_karpenter_makes_one_but_for_one_variant_and_without_an_expiry() -> None:
    store = a_store()
    startup = {"key": "booting", "effect": "NoExecute"}
    family = {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["c", "m"], "minValues": 2}
    template = {
        "requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c.8", "m.2"], "minValues": 2},
            family,
            {"key": "team", "operator": "In", "values": ["web", "api"]},
        ],
        "taints": [{"key": "dedicated", "value": "web", "effect": "NoSchedule"}],
        "startupTaints": [startup],
        "terminationGracePeriod": "1h",
        "expireAfter": "720h",
    }
    a_pool(store, "p", template=template, labels={"tier": "front"})
    await grow(at_work(store, (an_offering("c.8", 8, "a", "spot", **{"karpenter.k8s.aws/instance-family": "c"}),)), BIG, 0, 1)
    [claim] = claims(store)
    meta = claim["metadata"]
    assert meta["name"].startswith("p-")
    assert meta["labels"] == {
        "tier": "front",
        "team": "web",
        "karpenter.sh/nodepool": "p",
        "karpenter.kwok.sh/kwoknodeclass": "default",
        "node.kubernetes.io/instance-type": "c.8",
        "topology.kubernetes.io/zone": "a",
        "karpenter.sh/capacity-type": "spot",
    }
    # Without the same hashes, Karpenter would say that it has drifted.
    assert meta["annotations"] == {"karpenter.sh/nodepool-hash": "17", "karpenter.sh/nodepool-hash-version": "v3"}
    uid = store.objects[f"{POOLS_PATH}/p"]["metadata"]["uid"]
    owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "p", "uid": uid, "blockOwnerDeletion": True}
    assert meta["ownerReferences"] == [owner]
    assert claim["spec"] == {
        "nodeClassRef": NODE_CLASS,
        "requirements": [
            {"key": family["key"], "operator": "In", "values": ["c", "m"]},
            {"key": "team", "operator": "In", "values": ["web", "api"]},
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c.8"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
        ],
        "taints": template["taints"],
        "startupTaints": [startup],
        "terminationGracePeriod": "1h",
        "expireAfter": "Never",
    }


async def test_the_limits_of_a_node_pool_are_shared_by_its_variants() -> None:
    store = a_store()
    a_pool(store, "p", limits={"cpu": "20", "memory": "1Ti", "nodes": "0", "nvidia.com/gpu": 1})
    ours = at_work(store)
    assert {name: group.max_size for name, group in (await look(ours)).items()} == {BIG: 2, SMALL: 10}
    await grow(ours, BIG, 0, 2)
    assert {name: group.max_size for name, group in (await look(ours)).items()} == {BIG: 2, SMALL: 2}
    with pytest.raises(ProviderError, match=r"limit.*got 3 nodes, want at most 2"):
        await grow(ours, SMALL, 0, 3)
    [first, _] = (await look(ours))[BIG].instances
    await ours.delete(BIG, [first], timeout_seconds=SECONDS)
    assert (await look(ours))[SMALL].max_size == 6


async def test_a_limit_of_nodes_beside_zero_counts_nodes() -> None:
    store = a_store()
    a_pool(store, "p", limits={"nodes": "3"})
    found = await look(at_work(store))
    assert found[BIG].max_size == 3
    assert found[BIG].held_by


NOT_STOPPED: Final = [
    ({"limits": {}}, "spec.limits.nodes"),
    ({"limits": {"nodes": "4", "cpu": "0"}}, "spec.limits.nodes"),
    ({"disruption": {"budgets": [{"nodes": "10%"}]}}, "spec.disruption.budgets"),
    ({"disruption": {"budgets": [{**STOPPED, "reasons": ["Empty"]}]}}, "spec.disruption.budgets"),
    ({"disruption": {"budgets": [{**STOPPED, "schedule": "@daily", "duration": "8h"}]}}, "spec.disruption.budgets"),
]


@pytest.mark.parametrize(("spec", "want"), NOT_STOPPED)
async def test_a_node_pool_that_karpenter_still_changes_is_not_changed(spec: Json, want: str) -> None:
    store = a_store()
    a_pool(store, "p", **spec)
    ours = at_work(store)
    group = (await look(ours))[BIG]
    assert want in (group.held_by or "")
    with pytest.raises(ProviderError, match=want):
        await grow(ours, BIG, 0, 1)
    with pytest.raises(ProviderError, match=want):
        await ours.delete(BIG, [], timeout_seconds=SECONDS)
    assert claims(store) == []


# --- failures -------------------------------------------------------------------------------------------------------------


async def test_a_node_claim_that_karpenter_gives_up_fails_with_its_reason_until_it_is_deleted() -> None:
    store = a_store()
    a_pool(store, "p")
    ours, karpenter = at_work(store), NodeClaimController(store, {"cpu": "8", "memory": "32Gi"})
    await grow(ours, BIG, 0, 2)
    karpenter.give_up()
    failed = (await look(ours))[BIG]
    assert (failed.target, len(failed.instances)) == (2, 2)
    errors = {instance.error for instance in failed.instances}
    [kind] = {error.kind for error in errors if error is not None}
    [code] = {error.code for error in errors if error is not None}
    assert (kind, code) == ("out-of-resources", "InsufficientCapacityError")
    await ours.delete(BIG, failed.instances[:1], timeout_seconds=SECONDS)
    await ours.lower(BIG, seen=1, to=0, timeout_seconds=SECONDS)
    assert (await look(ours))[BIG].instances == ()


async def test_without_an_event_the_second_look_says_that_it_is_gone() -> None:
    store = a_store()
    a_pool(store, "p")
    ours = at_work(store)
    await grow(ours, BIG, 0, 1)
    store.drop(next(iter(store.listed(CLAIMS_PATH))))
    [waiting] = (await look(ours))[BIG].instances
    assert (waiting.state, waiting.error) == ("creating", None)
    [gone] = (await look(ours))[BIG].instances
    assert gone.error is not None
    assert (gone.error.kind, gone.error.code) == ("other", "NodeClaimDeleted")


async def test_what_vanishes_from_a_node_pool_that_karpenter_changes_is_not_our_failure() -> None:
    store = a_store()
    a_pool(store, "p")
    ours = at_work(store)
    await grow(ours, BIG, 0, 1)
    assert (await look(ours))[BIG].target == 1
    a_pool(store, "p", limits={})
    store.drop(next(iter(store.listed(CLAIMS_PATH))))
    assert [(await look(ours))[BIG].instances for _ in range(2)] == [(), ()]


async def test_an_event_that_cannot_be_read_keeps_no_group_from_being_read() -> None:
    store = a_store()
    store.served.remove("/api/v1/events")
    a_pool(store, "p")
    ours = at_work(store)
    await grow(ours, BIG, 0, 1)
    store.drop(next(iter(store.listed(CLAIMS_PATH))))
    await look(ours)
    [gone] = (await look(ours))[BIG].instances
    assert gone.error is not None
    assert gone.error.code == "NodeClaimDeleted"


async def test_what_we_delete_has_not_failed() -> None:
    store = a_store()
    a_pool(store, "p")
    ours, karpenter = at_work(store), NodeClaimController(store, {"cpu": "8", "memory": "32Gi"})
    await grow(ours, BIG, 0, 2)
    karpenter.step()
    coming = (await look(ours))[BIG].instances
    await ours.delete(BIG, coming[:1], timeout_seconds=SECONDS)
    await ours.lower(BIG, seen=1, to=0, timeout_seconds=SECONDS)
    leaving = (await look(ours))[BIG]
    assert ([each.state for each in leaving.instances], leaving.target) == (["deleting", "deleting"], 0)
    karpenter.settle()
    assert (await look(ours))[BIG].instances == ()


@pytest.mark.parametrize(
    ("message", "want"),
    [
        ("insufficient capacity, all requested instance types were unavailable", "out-of-resources"),
        ("VcpuLimitExceeded: you have requested more vCPU capacity than your limit", "quota"),
        ("no credentials", "other"),
    ],
)
async def test_a_launch_that_fails_says_why(message: str, want: str) -> None:
    store = a_store()
    a_pool(store, "p")
    ours = at_work(store)
    await grow(ours, BIG, 0, 1)
    [path] = store.listed(CLAIMS_PATH)
    launched = {"type": "Launched", "status": "Unknown", "reason": "LaunchFailed", "message": message}
    store.put(path, **{**store.objects[path], "status": {"conditions": [launched]}})
    [instance] = (await look(ours))[BIG].instances
    assert instance.error is not None
    assert (instance.error.kind, instance.error.code, instance.error.message) == (want, "LaunchFailed", message)


async def test_to_lower_leaves_a_node_claim_that_got_its_node_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    store = a_store()
    a_pool(store, "p")
    ours, karpenter = at_work(store), NodeClaimController(store, {"cpu": "8", "memory": "32Gi"})
    await grow(ours, BIG, 0, 1)
    send, looks = store.send, 0

    async def booting(call: Any) -> Any:
        nonlocal looks
        looks += call.method == "DELETE"
        if looks == 1:
            looks += 1
            karpenter.settle()
        return await send(call)

    monkeypatch.setattr(store, "send", booting)
    with pytest.raises(ProviderError, match=r"unknown.*got its node meanwhile"):
        await ours.lower(BIG, seen=1, to=0, timeout_seconds=SECONDS)
    assert [instance.state for instance in (await look(ours))[BIG].instances] == ["running"]


async def test_a_machine_that_karpenter_calls_drifted_says_so() -> None:
    store = a_store()
    a_pool(store, "p")
    ours, karpenter = at_work(store), NodeClaimController(store, {"cpu": "8", "memory": "32Gi"})
    await grow(ours, BIG, 0, 1)
    karpenter.settle()
    [path] = store.listed(CLAIMS_PATH)
    claim = store.objects[path]
    drifted = {"type": "Drifted", "status": "True", "reason": "AMIDrift"}
    conditions = [*claim["status"]["conditions"], drifted]
    store.put(path, **{**claim, "status": {**claim["status"], "conditions": conditions}})
    [instance] = (await look(ours))[BIG].instances
    assert instance.drifted == "Karpenter says AMIDrift"


# --- options --------------------------------------------------------------------------------------------------------------


async def test_the_settings_of_a_node_pool_are_those_of_its_groups() -> None:
    store = a_store()
    window = {"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h", "reasons": ["Underutilized", "Drifted"]}
    budgets = [
        {"nodes": "20%"},
        window,
        {"nodes": "3", "reasons": ["Unhealthy"]},
        {"nodes": "1", "schedule": "0 99 * * *", "duration": "8h"},
        STOPPED,
    ]
    a_pool(
        store,
        "p",
        template={"expireAfter": "48h30m"},
        disruption={"budgets": budgets, "consolidateAfter": "5m", "consolidationPolicy": "WhenEmpty"},
        weight=7,
    )
    options = (await look(at_work(store)))[BIG].options
    assert (options.unneeded_time, options.expire_after, options.priority) == (300.0, 174_600.0, 7)
    assert options.disruption_budgets == (
        NodeDisruptionBudget(nodes="20%"),
        NodeDisruptionBudget(nodes=0, reasons=("Underutilized", "Drifted"), schedule="0 9 * * mon-fri", duration=28_800.0),
        NodeDisruptionBudget(nodes=0),  # a schedule that cannot be read allows nothing, as in Karpenter
        NodeDisruptionBudget(nodes=0, reasons=("Underutilized",)),
    )


async def test_consolidate_after_never_holds_empty_nodes_too() -> None:
    store = a_store()
    a_pool(store, "p", template={"expireAfter": "Never"}, disruption={"budgets": [STOPPED], "consolidateAfter": "Never"})
    options = (await look(at_work(store)))[BIG].options
    assert (options.unneeded_time, options.expire_after) == (None, 0.0)
    assert options.disruption_budgets == (NodeDisruptionBudget(nodes=0, reasons=("Empty", "Underutilized")),)


# --- the file of instance types -------------------------------------------------------------------------------------------


def a_type(**more: Any) -> Json:
    chosen = [
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
    ]
    offerings = [{"Price": 0.0315, "Available": True, "Requirements": chosen}, {"Available": False}]
    resources = {"cpu": "4", "memory": "8Gi", "pods": "58"}
    return {"name": "c.4", "architecture": "arm64", "resources": resources, "offerings": offerings, **more}


def test_the_file_has_karpenters_format_and_two_keys_more(tmp_path: Path) -> None:
    file = tmp_path / "types.json"
    more = {"allocatable": {"cpu": "3920m"}, "labels": {"karpenter.k8s.aws/instance-family": "c"}}
    file.write_text(json.dumps([a_type(**more, operatingSystems=["linux"], somethingElse=1)]))
    [found], problems = read_instance_types(str(file))
    assert problems == ()
    assert (found.type, found.zone, found.capacity_type, found.price_micros) == ("c.4", "a", "spot", 31_500)
    assert (found.capacity["cpu"], found.allocatable["cpu"], found.allocatable["memory"]) == (
        4 * NANO,
        3920 * 10**6,
        (8 << 30) * NANO,
    )
    assert found.labels == {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "arm64",
        "karpenter.k8s.aws/instance-family": "c",
        "node.kubernetes.io/instance-type": "c.4",
        "topology.kubernetes.io/zone": "a",
        "karpenter.sh/capacity-type": "spot",
    }


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("{", "want a list of instance types as Karpenter's kwok provider reads it"),
        ("{}", "Expected `array`"),
        (json.dumps([{"name": "x"}]), r"\$\[0\] \(x\): .*missing required field `resources`"),
        (json.dumps([17, {"name": 3}]), r"\$\[0\]: Expected `object`"),
        (json.dumps([a_type(resources={"cpu": "1"})]), r"\$\[0\] \(c.4\): resources: got cpu, want cpu and memory"),
        (json.dumps([a_type(resources={"cpu": "much", "memory": "1Gi"})]), r"\$\[0\] \(c.4\): .*much"),
        (json.dumps([a_type(resources={"cpu": "-1", "memory": "1Gi"})]), r"\(c.4\): cpu: got an amount below 0"),
        (json.dumps([a_type(offerings=[])]), r"length >= 1 - at `\$.offerings`"),
        (json.dumps([a_type(offerings=[{"Price": -1}])]), r"`float` >= 0"),
    ],
)
def test_a_file_that_cannot_be_read_says_where(tmp_path: Path, text: str, want: str) -> None:
    file = tmp_path / "types.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=want):
        read_instance_types(str(file))


def test_a_type_that_cannot_be_read_is_left_out_alone(tmp_path: Path) -> None:
    file = tmp_path / "types.json"
    file.write_text(
        json.dumps([a_type(name="a"), a_type(resources={"cpu": "1"}), {"name": "b", "resources": 3}, a_type(name="z")])
    )
    found, problems = read_instance_types(str(file))
    assert [offering.type for offering in found] == ["a", "z"]
    assert [problem.removeprefix(f"{file}: ")[:12] for problem in problems] == ["$[1] (c.4): ", "$[2] (b): Ex"]


def test_a_file_has_a_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "types.json"
    file.write_text(json.dumps([a_type()]))
    monkeypatch.setattr(instance_types, "LARGEST_FILE", 10)
    with pytest.raises(ValueError, match="got more bytes, want at most 10"):
        read_instance_types(str(file))
    with pytest.raises(ValueError, match=r"nowhere\.json: No such file"):
        read_instance_types(str(tmp_path / "nowhere.json"))
