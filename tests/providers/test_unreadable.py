"""One object that cannot be read leaves out its own group, and nothing else; what was of that group stays known."""

from typing import Any, Final

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.adapters.cloud.karpenter import provider
from slackwater.adapters.cloud.karpenter.objects import CLAIMS_PATH, POOLS_PATH
from slackwater.adapters.cloud.karpenter.provider import KarpenterProvider
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.ports.protocols import ProviderError
from tests.providers.karpenter_rig import OFFERING
from tests.providers.test_clusterapi import POOL, StateMachine
from tests.providers.test_karpenter import an_offering, at_work, grow, look
from tests.support.machines import GROUP_PATH
from tests.support.nodeclaims import NodeClaimController, a_pool, a_store
from tests.support.objectstore import ObjectStore
from tests.support.odd import ODD, changed, places

Json = dict[str, Any]
AMOUNTS: Final = {"cpu": "4", "memory": "16Gi", "pods": "110"}


def variant(pool: str) -> GroupName:
    return GroupName(f"{pool}/m.4/a/on-demand")


async def three_pools() -> tuple[ObjectStore, KarpenterProvider]:
    """The NodePools a, b, c, each with a node and a NodeClaim under way."""
    store = a_store()
    work, controller = KarpenterProvider(store, [OFFERING]), NodeClaimController(store, AMOUNTS)
    for pool in "abc":
        requirement = {"key": "team", "operator": "In", "values": ["web"]}
        more = {"consolidateAfter": "5m", "budgets": [{"nodes": "0"}, {"nodes": "10%", "schedule": "@daily", "duration": "1h"}]}
        limits = {"nodes": "0", "cpu": "40"}
        template = {"requirements": [requirement], "expireAfter": "720h", "taints": [{"key": "x", "effect": "NoSchedule"}]}
        a_pool(store, pool, template=template, weight=3, limits=limits, disruption=more)
        await grow(work, variant(pool), 0, 1)
    controller.settle()
    for pool in "abc":
        await grow(work, variant(pool), 1, 2)
    controller.step()
    return store, work


def machines(groups: dict[str, NodeGroup]) -> set[str]:
    return {instance.id for group in groups.values() for instance in group.instances}


def nodes(groups: dict[str, NodeGroup]) -> set[tuple[str, str]]:
    return {(each.id, each.node) for group in groups.values() for each in group.instances if each.node}


# --- any object -----------------------------------------------------------------------------------------------------------


async def one_is_odd(data: st.DataObject, path: str) -> None:
    store, work = await three_pools()
    before = await look(work)
    key = data.draw(st.sampled_from(sorted(key for key in store.listed(path) if key.rpartition("/")[2].startswith("b"))))
    found = store.listed(path)[key]
    # The API server itself writes and checks the metadata.
    at = data.draw(st.sampled_from([each for each in places(found) if each[0] in ("spec", "status") and len(each) > 1]))
    to = data.draw(ODD)
    store.put(key, **changed(found, at, to))
    after = await look(work)
    assert {name: group for name, group in before.items() if not name.startswith("b")} == {
        name: group for name, group in after.items() if not name.startswith("b")
    }, "the others are as before"
    assert len(before) == 3
    if "replicas" not in at and at[:2] not in (("status", "nodeName"), ("status", "providerID")):
        assert machines(before) == machines(after), "what is of it is still of a group"
        assert nodes(before) == nodes(after), "no machine that has a node looks as if it were late"
    problems = {group.unreadable for name, group in after.items() if name.startswith("b") and group.unreadable}
    assert all("NodePool b" in problem for problem in problems)
    await grow(work, variant("a"), 2, 3)


@pytest.mark.slow
@pytest.mark.parametrize("path", [POOLS_PATH, CLAIMS_PATH])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_one_odd_object_of_many_leaves_the_others_as_they_are(path: str, data: st.DataObject) -> None:
    anyio.run(one_is_odd, data, path)


# --- NodePools and NodeClaims ---------------------------------------------------------------------------------------------

BAD_POOLS: Final = [
    (
        {"template": {"requirements": [{"key": "x", "operator": "Gte", "values": ["many"]}]}},
        r"x: got Gte \['many'\], want one",
    ),
    (
        {"template": {"requirements": [{"key": "x", "operator": "Like", "values": ["y"]}]}},
        "x: got operator 'Like', want one of",
    ),
    ({"template": {"taints": "none"}}, "Expected `array"),
    ({"limits": {"nodes": "0", "cpu": "much"}}, "limits: cpu: .*much"),
    ({"disruption": {"consolidateAfter": "soon", "budgets": [{"nodes": "0"}]}}, "disruption.consolidateAfter: .*soon"),
    ({"weight": 2**40}, "Expected `int` <= 2147483647"),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("spec", "problem"), BAD_POOLS)
async def test_a_bad_node_pool_is_left_out_alone_and_keeps_its_machines(spec: Json, problem: str) -> None:
    store, work = await three_pools()
    before = await look(work)
    a_pool(store, "b", **spec)
    after = await look(work)
    assert sorted(after) == ["a/m.4/a/on-demand", "b", "b/m.4/a/on-demand", "c/m.4/a/on-demand"]
    assert {name for name, group in after.items() if group.unreadable} == {"b", variant("b")}
    assert {group.pool for group in after.values() if group.unreadable} == {"karpenter/b"}
    assert len({group.unreadable for group in after.values()}) == 2, "it is said once"
    assert after["b"].unreadable.startswith("NodePool b: ")
    assert machines(before) == machines(after)
    with pytest.raises(ProviderError, match=problem):
        await grow(work, variant("b"), 2, 3)
    with pytest.raises(ProviderError, match=problem):
        await work.delete(variant("b"), after[variant("b")].instances, timeout_seconds=60)
    await grow(work, variant("c"), 2, 3)
    fresh = await look(KarpenterProvider(store, [OFFERING]))
    assert machines(fresh) == machines(await look(work)), "a process that never could read it knows its machines too"


@pytest.mark.anyio
async def test_what_vanishes_while_its_node_pool_cannot_be_read_has_failed_once_it_can() -> None:
    store, work = await three_pools()
    await look(work)
    good = store.listed(POOLS_PATH)[f"{POOLS_PATH}/b"]
    a_pool(store, "b", limits={"cpu": "much"})
    await look(work)
    NodeClaimController(store, AMOUNTS).give_up()
    await look(work)
    store.put(f"{POOLS_PATH}/b", **good)
    (failed,) = (each for each in (await look(work))[variant("b")].instances if each.error is not None)
    assert failed.error is not None
    assert failed.error.code == "InsufficientCapacityError"


@pytest.mark.anyio
async def test_a_node_claim_is_read_as_far_as_it_can_be() -> None:
    """Its machine counts, its group lives, and a limit has no more room while nobody knows what it has."""
    store, work = await three_pools()
    (name,) = (
        name for name in store.listed(CLAIMS_PATH) if "/b-" in name and "nodeName" in store.listed(CLAIMS_PATH)[name]["status"]
    )
    claim = store.listed(CLAIMS_PATH)[name]
    store.put(name, **{**claim, "status": {**claim["status"], "capacity": {"cpu": "1e-"}, "conditions": "none"}})
    after = await look(work)
    own = name.rpartition("/")[2]
    assert after[f"b/{own}"].unreadable.startswith(f"NodeClaim {own} of NodePool b: ")
    assert after[f"b/{own}"].instances == ()
    assert {each.node for each in after[variant("b")].instances} == {claim["status"]["nodeName"], None}
    assert after[variant("b")].max_size == 10, "the file says what it has"
    alone = await look(KarpenterProvider(store))
    assert {each.node for each in alone[f"b/{own}"].instances} == {claim["status"]["nodeName"]}


@pytest.mark.anyio
async def test_without_room_that_is_known_a_limit_has_none() -> None:
    store = a_store()
    a_pool(store, "p", limits={"nodes": "0", "cpu": "40"})
    labels = {"karpenter.sh/nodepool": "p", "node.kubernetes.io/instance-type": "r.9"}
    store.put(
        f"{CLAIMS_PATH}/one", metadata={"labels": labels}, spec={}, status={"capacity": {"cpu": "?"}, "providerID": "x://1"}
    )
    assert {group.max_size - group.target for group in (await look(at_work(store))).values()} == {0}


@pytest.mark.anyio
async def test_the_node_pools_with_the_most_variants_are_left_out_where_they_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(provider, "MOST_VARIANTS", 3)
    offerings = tuple(an_offering(f"m.{cpu}", cpu, "a", "spot") for cpu in (1, 2, 3))
    store = a_store()
    a_pool(store, "all")
    one = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m.2"]}
    for pool in ("small", "tiny"):
        a_pool(store, pool, template={"requirements": [one]})
    found = await look(at_work(store, offerings))
    assert list(found) == ["all", "small/m.2/a/spot", "tiny/m.2/a/spot"]
    assert found["all"].unreadable == (
        "NodePool all: got 3 variants, want at most 1, since all NodePools together may have 3: "
        "narrow its requirements, or the file of instance types"
    )


@pytest.mark.anyio
async def test_a_karpenter_that_is_too_old_says_so() -> None:
    store = ObjectStore(served={"/apis/karpenter.sh"})
    store.put("/apis/karpenter.sh", versions=[{"version": "v1beta1"}])
    with pytest.raises(ProviderError, match=r"the API server has v1beta1 of karpenter\.sh, want v1"):
        await look(at_work(store))
    assert await look(at_work(ObjectStore(served=set()))) == {}


@pytest.mark.anyio
async def test_a_budget_that_is_none_allows_nothing() -> None:
    store = a_store()
    a_pool(store, "p", disruption={"budgets": [{"nodes": "0"}, {"nodes": "ten"}, {"nodes": "1.5%"}, {"nodes": "7%"}]})
    found = (await look(at_work(store)))["p/m.2/b/on-demand"].options.disruption_budgets
    assert found is not None
    assert [(each.nodes, each.limit(100)) for each in found] == [(0, 0), (0, 0), ("7%", 7)]


# --- Cluster API ----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("plural", ["machinedeployments", "machines"])
async def test_an_odd_object_of_cluster_api_leaves_its_group_out_alone(plural: str) -> None:
    state_machine = StateMachine()
    await state_machine.has()
    path, odd = next(iter(state_machine.store.listed(f"{GROUP_PATH}/{plural}").items()))
    state_machine.store.put(path, **{**odd, "spec": {**odd["spec"], "replicas": "three", "providerID": 7}})
    (group,) = await state_machine.groups()
    what = POOL if plural == "machinedeployments" else f"{POOL}: Machine {odd['metadata']['name']}"
    assert group.unreadable.startswith(f"{what}: Expected")
    assert bool(group.instances) == (plural == "machinedeployments"), "a machine whose node is not known is none that is late"
    with pytest.raises(ProviderError, match="Expected"):
        await state_machine.delete(*group.instances)
