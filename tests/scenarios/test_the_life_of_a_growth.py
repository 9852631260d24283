"""Pods that fit nowhere -> nodes: the real loop, fleet and planner over a cloud on virtual time, with all that goes wrong.

Each pod takes a whole node, so that the right number of nodes is the number of pods. What must hold whatever happens:
never a node more than pods (no double growth), in the end a node for each pod (no lost demand), and never more nodes
on their way than allowed.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import structs

from slackwater.cluster.nodegroups.status import NodeGroupPolicy
from slackwater.model.nodegroups import GroupOptions
from slackwater.model.objects import Taint
from tests.support.builders import a_node, a_pod
from tests.support.cloud import Delays, MachineOutcome, Pool
from tests.support.scaling import Scenario

pytestmark = pytest.mark.anyio

PROVISION = 900.0


def has(
    scenario: Scenario,
    name: str,
    *,
    cloud: int = 0,
    size: int = 0,
    max_size: int = 1000,
    scalars: tuple[tuple[str, int], ...] = (),
    **node: Any,
) -> Pool:
    """A group of nodes of 4 CPUs, unless said otherwise."""
    template = structs.replace(a_node(f"template-of-{name}", **node), scalars=(*scalars, ("pods", 110)))
    return scenario.clouds[cloud].has(name, size=size, max_size=max_size, template=template)


async def test_five_hundred_pods_get_five_hundred_nodes_a_hundred_at_a_time() -> None:
    scenario = Scenario()
    has(scenario, "a")
    scenario.wants_many(500)
    first = await scenario.loop()
    assert (first.planned, first.in_creation) == ({"a": 500}, 100)
    assert [(call.seen, call.to) for call, _ in first.asked] == [(0, 100)]
    assert sum(queued.nodes for queued in first.queued) == 400
    await scenario.pass_time(600)
    assert (scenario.pending(), scenario.sizes()) == (0, {"a": 500})
    assert scenario.trace.most_in_creation == 100


async def test_pods_that_fit_nodes_on_their_way_are_not_planned_for_twice() -> None:
    scenario = Scenario()
    has(scenario, "a")
    scenario.wants_many(30)
    await scenario.loop()
    again = await scenario.loop()
    assert (again.planned, again.pending.schedulable) == ({}, 30)
    assert scenario.sizes() == {"a": 30}


async def test_one_in_twenty_machines_fails_and_is_replaced() -> None:
    def boot_outcome(number: int) -> MachineOutcome:
        return "failed" if number % 20 == 7 else "fine"

    scenario = Scenario()
    has(scenario, "a").boot_outcome = boot_outcome
    scenario.wants_many(200)
    await scenario.pass_time(900)
    assert (scenario.pending(), scenario.sizes()) == (0, {"a": 200})
    assert scenario.trace.most_nodes == 200
    assert scenario.trace.most_in_creation <= 100
    assert sum(sum(record.deleted.values()) for record in scenario.records) == scenario.cloud.pool("a").asked - 200 > 0


async def test_where_machines_are_out_of_stock_another_group_is_tried() -> None:
    scenario = Scenario()
    has(scenario, "a").stock = 8
    has(scenario, "b", cpu="5")
    scenario.wants_many(20)
    await scenario.pass_time(300)
    assert scenario.pending() == 0
    assert scenario.sizes() == {"a": 8, "b": 12}
    backoff = scenario.records[-1].group_status[scenario.group("a")].backoff
    assert backoff is not None
    assert (backoff.code, backoff.message) == ("STOCKOUT", "no more of these machines in this zone")


async def test_a_group_that_was_out_of_stock_is_tried_again_after_its_back_off() -> None:
    scenario = Scenario()
    pool = has(scenario, "a")
    pool.stock = 5
    scenario.wants_many(10)
    await scenario.pass_time(120)
    assert scenario.sizes() == {"a": 5}
    pool.stock = None
    await scenario.pass_time(150)
    assert scenario.sizes() == {"a": 5}, "it is left alone for five minutes"
    await scenario.pass_time(300)
    assert (scenario.pending(), scenario.sizes()) == (0, {"a": 10})


async def test_a_call_beyond_the_quota_closes_the_group_and_another_one_grows() -> None:
    scenario = Scenario()
    has(scenario, "a").quota = 3
    has(scenario, "b", cpu="5")
    scenario.wants_many(6)
    first = await scenario.loop()
    assert [str(problem) for _, problem in first.asked] == ["node group a: quota: got 6 nodes, quota is 3"]
    await scenario.pass_time(120)
    assert (scenario.pending(), scenario.sizes()) == (0, {"a": 0, "b": 6})


async def test_a_slow_boot_is_waited_for() -> None:
    scenario = Scenario()
    has(scenario, "a").delays = Delays(running_after=300.0, registered_after=500.0, ready_after=800.0)
    scenario.wants_many(10)
    await scenario.pass_time(850)
    assert (scenario.pending(), scenario.sizes()) == (0, {"a": 10})
    assert len(scenario.cloud.calls) == 1


@pytest.mark.parametrize("boot_outcome", ["unready", "silent"])
async def test_a_node_that_never_comes_to_life_is_replaced_and_its_pod_waits_no_longer_than_that(
    boot_outcome: MachineOutcome,
) -> None:
    def first_fails(number: int) -> MachineOutcome:
        return boot_outcome if number == 0 else "fine"

    scenario = Scenario()
    has(scenario, "a").boot_outcome = first_fails
    scenario.wants_many(3)
    await scenario.pass_time(PROVISION - 60)
    assert (scenario.pending(), scenario.sizes()) == (1, {"a": 3})
    await scenario.pass_time(200)
    assert (scenario.pending(), scenario.sizes()) == (0, {"a": 3})
    assert scenario.trace.most_nodes == 3


async def test_a_node_whose_devices_are_not_there_yet_is_still_on_its_way() -> None:
    scenario = Scenario()
    has(scenario, "a", scalars=(("nvidia.com/gpu", 1),)).boot_outcome = lambda _: "bare"
    scenario.wants_many(2)
    await scenario.pass_time(60)
    group_status = scenario.records[-1].group_status[scenario.group("a")]
    assert (len(group_status.starting), group_status.ready) == (2, ())
    await scenario.pass_time(120)
    assert len(scenario.records[-1].group_status[scenario.group("a")].ready) == 2
    assert scenario.sizes() == {"a": 2}


async def test_while_the_provider_is_down_no_other_group_grows_for_the_requested_nodes() -> None:
    scenario = Scenario(clouds=2)
    has(scenario, "a")
    has(scenario, "b", cpu="5", cloud=1)
    scenario.wants_many(5)
    await scenario.loop()
    assert scenario.sizes() == {"a": 5, "b": 0}
    scenario.cloud.breaks()
    await scenario.pass_time(30)
    assert scenario.sizes() == {"a": 5, "b": 0}
    assert len(scenario.records[-1].problems) == 1, "it does not answer"
    scenario.wants_many(2, tag="more")
    await scenario.loop()
    assert scenario.sizes() == {"a": 5, "b": 2}, "the others need not wait for it"
    scenario.cloud.breaks(None)
    await scenario.pass_time(60)
    assert (scenario.pending(), scenario.sizes()) == (0, {"a": 5, "b": 2})


@pytest.mark.parametrize("done", [True, False], ids=["after it was done", "before it was done"])
async def test_a_lost_answer_grows_nothing_twice_and_loses_nothing(done: bool) -> None:
    scenario = Scenario()
    has(scenario, "a")
    has(scenario, "b", cpu="5")
    scenario.wants_many(7)
    scenario.cloud.lose_answers(done=done)
    await scenario.loop()
    await scenario.pass_time(120)
    assert (scenario.pending(), scenario.sizes()) == (0, {"a": 7, "b": 0})
    assert {(call.seen, call.to) for call in scenario.cloud.calls} == {(0, 7)}


@pytest.mark.parametrize("done", [True, False], ids=["after the call", "before the call"])
async def test_a_process_that_is_killed_around_its_call_grows_nothing_twice(done: bool) -> None:
    """What the dead process decided is forgotten; what the cloud was told it still knows."""
    scenario = Scenario()
    has(scenario, "a")
    has(scenario, "b", cpu="5")
    scenario.wants_many(7)
    scenario.cloud.lose_answers(done=done)
    await scenario.loop()
    scenario.restart()
    await scenario.pass_time(120)
    assert (scenario.pending(), scenario.sizes()) == (0, {"a": 7, "b": 0})
    assert scenario.trace.most_nodes == 7


async def test_a_restart_in_the_middle_counts_what_is_on_its_way() -> None:
    scenario = Scenario(group_registry=NodeGroupPolicy(in_cluster=10))
    has(scenario, "a")
    scenario.wants_many(25)
    for _ in range(40):
        await scenario.pass_time(10)
        scenario.restart()
    assert (scenario.pending(), scenario.sizes()) == (0, {"a": 25})
    assert scenario.trace.most_in_creation == 10


async def test_demand_that_goes_away_while_it_waits_gets_no_nodes() -> None:
    scenario = Scenario(group_registry=NodeGroupPolicy(in_cluster=10))
    has(scenario, "a")
    scenario.wants_many(30)
    await scenario.loop()
    scenario.finishes([uid for uid, pod in scenario.pods.items() if pod.key.name not in {f"p{n}" for n in range(12)}])
    await scenario.pass_time(200)
    assert (scenario.pending(), scenario.sizes()) == (0, {"a": 12})


async def test_more_important_pods_get_the_first_nodes() -> None:
    scenario = Scenario(group_registry=NodeGroupPolicy(in_cluster=4))
    has(scenario, "a")
    has(scenario, "b", cpu="16", labels={"pool": "b"})
    scenario.wants_many(6, tag="low", priority=1)
    scenario.wants(*(a_pod(f"high{n}", cpu="16", priority=9, node_selector={"pool": "b"}) for n in range(3)))
    first = await scenario.loop()
    assert [(call.group, call.nodes) for call, _ in first.asked] == [("b", 3), ("a", 1)]
    assert {(queued.group, queued.nodes, queued.priority) for queued in first.queued} == {("a", 5, 1)}


async def test_a_group_that_is_switched_off_does_not_grow_and_events_on_its_pods_say_why() -> None:
    scenario = Scenario()
    scenario.node_group_policy = NodeGroupPolicy(off=frozenset({scenario.group("a")}))
    scenario._begin()
    has(scenario, "a")
    scenario.wants_many(1)
    await scenario.loop()
    assert scenario.sizes() == {"a": 0}
    assert [event.note for event in scenario.said("NotTriggerScaleUp")] == ["pod didn't trigger scale-up: 1 switched off (a)"]


async def test_a_group_of_all_or_nothing_waits_until_all_of_it_may_be_asked_for() -> None:
    scenario = Scenario(group_registry=NodeGroupPolicy(in_cluster=8))
    has(scenario, "other")
    has(scenario, "whole", max_size=6, labels={"pool": "w"}).options = GroupOptions(all_or_nothing=True)
    scenario.wants_many(4, priority=5)
    scenario.wants(*(a_pod(f"w{n}", cpu="4", node_selector={"pool": "w"}) for n in range(2)))
    await scenario.loop()
    assert scenario.sizes() == {"other": 4, "whole": 0}
    await scenario.pass_time(200)
    assert (scenario.pending(), scenario.sizes()) == (0, {"other": 4, "whole": 6})


async def test_events_on_pods_say_which_nodes_were_requested_or_why_none_was() -> None:
    scenario = Scenario()
    has(scenario, "a", max_size=9)
    has(scenario, "b", cpu="64", taints=[Taint("dedicated", "x", "NoSchedule")])
    scenario.wants_many(2)
    scenario.wants(a_pod("large", cpu="32"))
    await scenario.loop()
    assert {event.note for event in scenario.said("TriggeredScaleUp")} == {"pod triggered scale-up: [{a 0->2 (max: 9)}]"}
    assert [event.key.name for event in scenario.said("TriggeredScaleUp")] == ["p0", "p1"]
    (why,) = scenario.said("NotTriggerScaleUp")
    assert why.key.name == "large"
    assert "1 Insufficient cpu (a)" in why.note
    assert "1 node(s) had untolerated taint(s) (b)" in why.note or "taint" in why.note

    await scenario.loop()
    assert len(scenario.said("NotTriggerScaleUp")) == 1, "the same is not said again at once"


async def test_running_expendable_pods_block_no_other_pod() -> None:
    scenario = Scenario()
    has(scenario, "a", size=1)
    scenario.wants_many(1, tag="expendable", priority=-20)
    scenario.settle()
    assert scenario.pending() == 0
    scenario.wants_many(1)
    record = await scenario.loop()
    assert (record.planned, record.pending.schedulable) == ({}, 1), "kube-scheduler preempts for it"


async def test_a_plan_that_failed_is_made_again_from_everything() -> None:
    scenario = Scenario()
    has(scenario, "a")
    scenario.wants_many(3)
    broken = scenario.policy
    scenario.policy = replace(broken, expanders=("no such expander",))  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        await scenario.loop()
    scenario.policy = broken
    await scenario.pass_time(60)
    assert (scenario.pending(), scenario.sizes()) == (0, {"a": 3})


hazards = st.lists(
    st.sampled_from(["lost", "lost done", "refused", "unknown", "down", "up", "restart", "burst", "wait"]), max_size=25
)
outcomes = st.lists(st.sampled_from(["fine", "fine", "fine", "failed", "silent", "unready"]), min_size=1, max_size=12)


@given(hazards=hazards, outcomes=outcomes)
@settings(
    max_examples=20,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
async def test_whatever_fails_no_pod_gets_two_nodes_and_every_pod_gets_one(
    hazards: list[str], outcomes: list[MachineOutcome]
) -> None:
    # Nothing is replaced whose deletion has not succeeded: a late machine might come after all.
    scenario = Scenario(group_registry=NodeGroupPolicy(in_cluster=4, replace_seconds=1e9))
    has(scenario, "a").boot_outcome = lambda number: outcomes[number] if number < len(outcomes) else "fine"
    wanted = 6
    scenario.wants_many(wanted)
    for hazard in hazards:
        match hazard:
            case "lost" | "lost done":
                scenario.cloud.lose_answers(done=hazard == "lost done")
            case "refused":
                scenario.cloud.refuse("out-of-resources")
            case "unknown":
                scenario.cloud.refuse("unknown")
            case "down" | "up":
                scenario.cloud.breaks("down" if hazard == "down" else None)
            case "restart":
                scenario.restart()
            case "burst":
                scenario.wants_many(2, tag=f"b{wanted}-")
                wanted += 2
            case _:
                pass
        await scenario.pass_time(20)
    scenario.cloud.breaks(None)
    for _ in range(16):
        if scenario.pending() or scenario.sizes() != {"a": wanted}:
            await scenario.pass_time(PROVISION, every=100.0)
    assert (scenario.pending(), scenario.sizes()) == (0, {"a": wanted})
    assert scenario.trace.most_nodes <= wanted
    assert scenario.trace.most_in_creation <= 4
