"""What is special about groups of mere Nodes: their record, their weather, and Nodes that others make and delete."""

import json
from typing import Any

import anyio
import pytest

from slackwater.adapters.cloud.kwok.nodes import NODES_PATH, SimulatedFailures, timeline_of
from slackwater.adapters.cloud.kwok.provider import KwokProvider
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.ports.protocols import ProviderError
from slackwater_protocol.names import NODE_GROUP
from tests.providers.kwok_rig import CONFIG_MAPS, a_group, a_provider, a_store
from tests.support.flakyapi import FlakyApi
from tests.support.objectstore import ObjectStore
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

POOL = GroupName("pool")
CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/slackwater-kwok"


class StateMachine:
    """One group, `pool`, of at most 100 nodes."""

    def __init__(self, simulated_failures: SimulatedFailures) -> None:
        self.store: ObjectStore = a_store()
        self.api = FlakyApi(self.store)
        self.clock = [0.0]
        self.groups = [a_group("pool", simulated_failures=simulated_failures, max_size=100)]
        self.provider = self.restarted()

    def restarted(self) -> KwokProvider:
        return a_provider(self.api, self.groups, self.clock)

    async def grow(self, seen: int, to: int) -> None:
        await self.provider.grow(POOL, seen=seen, to=to, timeout_seconds=60)

    async def at(self, now: float) -> list[str]:
        """What has appeared by then."""
        self.clock[0] = now
        await self.provider.arrivals.settle()
        return sorted(node["metadata"]["name"] for node in self.nodes)

    async def look(self) -> NodeGroup:
        (group,) = await self.provider.groups(timeout_seconds=60)
        return group

    @property
    def nodes(self) -> list[dict[str, Any]]:
        return list(self.store.listed(NODES_PATH).values())


async def test_a_node_looks_as_the_template_says_and_names_its_machine() -> None:
    state_machine = StateMachine(SimulatedFailures())
    await state_machine.grow(0, 1)
    assert await state_machine.at(0) == ["pool-000000"]
    (node,) = state_machine.nodes
    assert node["metadata"]["labels"] == {"tier": "batch", "kubernetes.io/hostname": "pool-000000", NODE_GROUP: "pool"}
    assert node["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    assert node["spec"] == {
        "providerID": "kwok://pool-000000",
        "taints": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}],
    }
    assert node["status"] == {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}}


async def test_a_node_appears_late_and_boots_later() -> None:
    state_machine = StateMachine(SimulatedFailures(appear_seconds=10, boot_seconds=20))
    await state_machine.grow(0, 1)
    assert await state_machine.at(9.9) == []
    assert await state_machine.at(10) == ["pool-000000"]
    (node,) = state_machine.nodes
    assert node["metadata"]["annotations"] == {}
    assert "node.kubernetes.io/not-ready" in [taint["key"] for taint in node["spec"]["taints"]]
    await state_machine.at(30)
    (node,) = state_machine.nodes
    assert node["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    assert [taint["key"] for taint in node["spec"]["taints"]] == ["dedicated"]
    assert json.loads(state_machine.store.objects[CONFIG_MAP]["data"]["pool"]) == {"nextNumber": 1, "askedAt": {}}


async def test_another_process_goes_on_with_what_was_asked() -> None:
    state_machine = StateMachine(SimulatedFailures(appear_seconds=10))
    await state_machine.grow(0, 3)
    state_machine.provider = state_machine.restarted()
    assert (await state_machine.look()).target == 3
    with pytest.raises(ProviderError, match="conflict"):
        await state_machine.grow(0, 3)
    assert await state_machine.at(10) == ["pool-000000", "pool-000001", "pool-000002"]


async def test_a_share_fails_and_which_is_the_same_after_a_restart() -> None:
    simulated_failures = SimulatedFailures(appear_seconds=10, failing=0.2, silent=0.1, unready=0.1)
    state_machine = StateMachine(simulated_failures)
    await state_machine.grow(0, 100)
    names = await state_machine.at(10)
    outcomes = [timeline_of(simulated_failures, 7, f"pool-{number:06}").ending for number in range(100)]
    assert len(names) == outcomes.count("fine") + outcomes.count("unready")
    group = await state_machine.look()
    assert group.target == 100
    assert sum(i.error is not None and i.error.kind == "other" for i in group.instances) == outcomes.count("failed") > 10
    assert sum(i.state == "running" and i.node is None for i in group.instances) == outcomes.count("silent") > 3
    assert sum(not node["metadata"]["annotations"] for node in state_machine.nodes) == outcomes.count("unready") > 3
    state_machine.provider = state_machine.restarted()
    assert (await state_machine.look()) == group


async def test_beyond_the_stock_machines_are_out_of_resources_until_others_go() -> None:
    state_machine = StateMachine(SimulatedFailures(stock=2))
    await state_machine.grow(0, 3)
    assert await state_machine.at(0) == ["pool-000000", "pool-000001"]
    group = await state_machine.look()
    assert [i.error and i.error.kind for i in group.instances] == [None, None, "out-of-resources"]
    await state_machine.provider.delete(POOL, group.instances[:1], timeout_seconds=60)
    assert await state_machine.at(0) == ["pool-000001", "pool-000002"]


async def test_a_growth_beyond_the_quota_is_refused() -> None:
    state_machine = StateMachine(SimulatedFailures(quota=2))
    with pytest.raises(ProviderError) as caught:
        await state_machine.grow(0, 3)
    assert caught.value.kind == "quota"
    assert (await state_machine.look()).target == 0
    await state_machine.grow(0, 2)


async def test_given_up_first_is_what_will_not_come() -> None:
    state_machine = StateMachine(SimulatedFailures(stock=2, appear_seconds=10))
    await state_machine.grow(0, 4)
    await state_machine.provider.lower(POOL, seen=4, to=2, timeout_seconds=60)
    assert [instance.error for instance in (await state_machine.look()).instances] == [None, None]


async def test_nodes_of_others_belong_to_the_group_they_name() -> None:
    state_machine = StateMachine(SimulatedFailures())
    state_machine.store.put(f"{NODES_PATH}/by-hand", metadata={"labels": {NODE_GROUP: "pool"}}, spec={})
    group = await state_machine.look()
    assert (group.target, [i.node for i in group.instances]) == (1, ["by-hand"])
    await state_machine.grow(1, 2)
    await state_machine.provider.delete(POOL, group.instances, timeout_seconds=60)
    assert await state_machine.at(0) == ["pool-000000"]


async def test_a_node_deleted_by_hand_lowers_the_target() -> None:
    state_machine = StateMachine(SimulatedFailures())
    await state_machine.grow(0, 2)
    await state_machine.at(0)
    state_machine.store.drop(f"{NODES_PATH}/pool-000001")
    assert (await state_machine.look()).target == 1
    await state_machine.grow(1, 2)
    assert await state_machine.at(0) == ["pool-000000", "pool-000002"]


async def test_numbers_are_not_given_again_when_the_record_is_lost() -> None:
    state_machine = StateMachine(SimulatedFailures())
    await state_machine.grow(0, 2)
    await state_machine.at(0)
    state_machine.store.drop(CONFIG_MAP)
    await state_machine.grow(2, 3)
    assert await state_machine.at(0) == ["pool-000000", "pool-000001", "pool-000002"]


async def test_a_node_on_its_way_out_does_not_count() -> None:
    state_machine = StateMachine(SimulatedFailures())
    await state_machine.grow(0, 2)
    await state_machine.at(0)
    state_machine.store.objects[f"{NODES_PATH}/pool-000000"]["metadata"]["finalizers"] = ["example.com/wait"]
    await state_machine.provider.delete(POOL, (await state_machine.look()).instances[:1], timeout_seconds=60)
    group = await state_machine.look()
    assert (group.target, [i.state for i in group.instances]) == (1, ["deleting", "running"])


async def test_groups_share_the_record_without_conflict() -> None:
    state_machine = StateMachine(SimulatedFailures())
    state_machine.groups.append(a_group("other", simulated_failures=SimulatedFailures()))
    state_machine.provider = state_machine.restarted()
    async with anyio.create_task_group() as tasks:
        for name in ("pool", "other"):
            tasks.start_soon(lambda name: state_machine.provider.grow(GroupName(name), seen=0, to=2, timeout_seconds=60), name)
    assert [group.target for group in await state_machine.provider.groups(timeout_seconds=60)] == [2, 2]


async def test_groups_that_grow_at_once_write_the_record_once_each() -> None:
    """A write that meets another one's is repeated, with all that was read for it."""
    state_machine, names = StateMachine(SimulatedFailures()), ["pool", *(f"pool-{number}" for number in range(7))]
    state_machine.groups += [a_group(name, simulated_failures=SimulatedFailures()) for name in names[1:]]
    state_machine.provider = state_machine.restarted()
    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(lambda name: state_machine.provider.grow(GroupName(name), seen=0, to=2, timeout_seconds=60), name)
    assert [method for method, _ in state_machine.store.asked if method != "GET"] == ["POST"] + ["PATCH"] * 7


async def test_names_of_groups_that_differ_in_case_alone_stay_apart() -> None:
    state_machine = StateMachine(SimulatedFailures())
    state_machine.groups = [a_group("Pool_a"), a_group("pool-a")]
    assert len({group.node_name(0) for group in state_machine.groups}) == 2
    assert all(group.number_of(group.node_name(7)) == 7 for group in state_machine.groups)
    assert state_machine.groups[0].number_of(state_machine.groups[1].node_name(7)) is None


async def test_machines_arrive_by_themselves_while_it_runs() -> None:
    state_machine = StateMachine(SimulatedFailures())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(state_machine.provider.arrivals.run)
        await state_machine.grow(0, 3)
        await eventually(lambda: _count(state_machine), lambda count: count == 3, within_seconds=60, wanted="3 nodes")
        tasks.cancel_scope.cancel()


async def _count(state_machine: StateMachine) -> int:
    return len(state_machine.nodes)


async def test_what_goes_wrong_is_tried_again() -> None:
    state_machine = StateMachine(SimulatedFailures())
    await state_machine.grow(0, 3)
    state_machine.api.lost.append(False)
    with pytest.raises(ProviderError, match="unknown"):
        await state_machine.provider.arrivals.settle()
    assert await state_machine.at(0) == ["pool-000000", "pool-000001", "pool-000002"]


async def test_an_unreadable_record_is_said() -> None:
    state_machine = StateMachine(SimulatedFailures())
    state_machine.store.put(CONFIG_MAP, data={"pool": "{"})
    assert CONFIG_MAPS in state_machine.store.served
    with pytest.raises(ProviderError, match="cannot be read"):
        await state_machine.look()
