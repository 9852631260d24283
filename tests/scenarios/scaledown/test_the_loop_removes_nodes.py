"""The real loop over a cloud on virtual time: under-used nodes go, side by side, and nobody is left without a place."""

import itertools
from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.model.effects import Announce
from slackwater.model.ids import Instant, NodeName
from slackwater.model.nodegroups import GroupName
from slackwater.model.pod_constraints import PodConstraints, PodTerm
from slackwater.model.reasons import UnremovableReason
from slackwater.model.selectors import Requirement
from tests.support import installed
from tests.support.builders import a_node, a_pod
from tests.support.shrinking import ShrinkScene

pytestmark = pytest.mark.anyio


def pool(scenario: ShrinkScene, size: int, *, min_size: int = 0) -> list[str]:
    """Nodes of 4 CPUs, up since long; their names."""
    template = structs.replace(a_node("template", cpu="4", memory="64Gi"), scalars=(("pods", 110),))
    scenario.cloud.has("a", size=size, min_size=min_size, template=template)
    scenario.settle()
    return sorted(scenario._shown)


async def test_under_used_nodes_are_packed_onto_the_fewest() -> None:
    scenario = ShrinkScene()
    nodes = pool(scenario, 12)
    scenario.runs("web", nodes)
    await scenario.pass_time(900)
    assert scenario.sizes()["a"] in (3, 4)  # a node that is three quarters full is left alone
    assert (scenario.unhappy(), scenario.cordoned & set(scenario._shown)) == ([], set())
    assert 2 <= scenario.watched.most_drains <= 5
    reported = [effect for effect in scenario.said_effects if isinstance(effect, Announce) and effect.reason == "ScaleDown"]
    assert len(reported) == 12 - scenario.sizes()["a"]
    assert all(effect.about == "Node" and "score" in effect.note for effect in reported)


async def test_nothing_goes_before_its_time_and_the_time_is_kept_in_taints() -> None:
    scenario = ShrinkScene(scale_down=replace(installed.SCALE_DOWN, unneeded_time=100.0))
    pool(scenario, 3)
    await scenario.pass_time(90)
    assert scenario.sizes() == {"a": 3}
    assert {taint.key for taints in scenario.taints.values() for taint in taints} == {"DeletionCandidateOfClusterAutoscaler"}
    await scenario.pass_time(60)
    assert scenario.sizes() == {"a": 0}


async def test_a_restart_goes_on_where_the_taints_say() -> None:
    scenario = ShrinkScene(scale_down=replace(installed.SCALE_DOWN, unneeded_time=100.0))
    pool(scenario, 3)
    await scenario.pass_time(90)
    scenario.restart()
    await scenario.pass_time(40)
    assert scenario.sizes() == {"a": 0}


async def test_a_drain_goes_on_after_a_restart() -> None:
    scenario = ShrinkScene(limits=replace(installed.DRAIN, settle_time=30.0))
    nodes = pool(scenario, 2)
    scenario.runs("web", nodes[:1])
    scenario.runs("other", nodes[1:], cpu="2500m")
    await scenario.pass_time(90)
    assert list(scenario.state_machine.drains.nodes) == nodes[:1]
    scenario.restart()
    await scenario.pass_time(60)
    assert (scenario.sizes(), scenario.unhappy()) == ({"a": 1}, [])


async def test_a_group_keeps_its_minimum() -> None:
    scenario = ShrinkScene()
    pool(scenario, 6, min_size=4)
    await scenario.pass_time(200)
    assert scenario.sizes() == {"a": 4}


async def test_a_budget_delays_its_own_nodes_and_is_never_violated() -> None:
    scenario = ShrinkScene(scale_down=replace(installed.SCALE_DOWN, unneeded_time=30.0))
    nodes = pool(scenario, 8)
    scenario.runs("guarded", nodes[:4], least=3)
    scenario.runs("plain", nodes[4:])
    await scenario.pass_time(500)
    assert (scenario.sizes(), scenario.unhappy()) == ({"a": 2}, [])


async def test_a_cool_down_after_growth_is_the_groups_own() -> None:
    scenario = ShrinkScene(delays=(300.0, 0.0, 0.0))
    pool(scenario, 2)
    scenario.group_registry.observe([], {}, Instant(0.0), silent={})
    scenario.wants_many(3, tag="burst")
    await scenario.pass_time(60)
    assert scenario.sizes()["a"] >= 3
    scenario.finishes([uid for uid in scenario.pods if "burst" in uid])
    await scenario.pass_time(150)
    assert scenario.sizes()["a"] >= 3
    await scenario.pass_time(300)
    assert scenario.sizes() == {"a": 0}


async def test_pods_that_come_in_the_middle_stop_the_drains_whose_room_they_need() -> None:
    scenario = ShrinkScene(limits=replace(installed.DRAIN, settle_time=60.0))
    nodes = pool(scenario, 4)
    scenario.runs("web", nodes)
    await scenario.pass_time(85)
    assert len(scenario.state_machine.drains.nodes) == 3
    scenario.wants_many(8, cpu="1", tag="burst")
    await scenario.pass_time(60)
    assert (scenario.unhappy(), scenario.sizes()) == ([], {"a": 3})  # twelve pods of a CPU each
    given_up = {name for record in scenario.records if record.scale_down for name in record.scale_down.given_up}
    assert len(given_up) >= 2
    assert {end.unremovable_reason for end in scenario.watched.ended} == {UnremovableReason.ROOM_NEEDED}
    asked = [call for record in scenario.records for call, _ in record.asked]
    assert asked == []  # no new node is bought for room that is there


async def test_removals_end_when_another_autoscaler_marks_the_group() -> None:
    scenario = ShrinkScene(limits=replace(installed.DRAIN, settle_time=60.0))
    scenario.runs("web", pool(scenario, 4))
    await scenario.pass_time(85)
    assert len(scenario.state_machine.drains.nodes) == 3
    scenario.withheld = "theirs"
    await scenario.pass_time(120)
    assert (scenario.sizes(), list(scenario.state_machine.drains.nodes), scenario.cordoned) == ({"a": 4}, [], set())
    assert scenario.watched.evicted == 0
    assert {end.detail for end in scenario.watched.ended} == {"theirs"}


@pytest.mark.parametrize("restart", [False, True])
async def test_a_group_that_cannot_be_read_keeps_its_nodes_and_the_others_go_on(restart: bool) -> None:
    scenario = ShrinkScene(limits=replace(installed.DRAIN, settle_time=60.0))
    nodes = pool(scenario, 4)
    scenario.runs("web", nodes)
    other = scenario.cloud.has("b", size=3, template=scenario.cloud.pool("a").template)
    scenario.settle()
    await scenario.pass_time(85)
    assert scenario.state_machine.drains.nodes.keys() & set(nodes)
    scenario.cloud.pool("a").unreadable = "it is odd"
    if restart:
        scenario.restart()
    await scenario.pass_time(300)
    assert (len(scenario.cloud.pool("a").machines), len(other.machines)) == (4, 0)
    cordoned = scenario.cordoned & set(scenario._shown)
    assert (list(scenario.state_machine.drains.nodes), cordoned, scenario.watched.evicted) == ([], set(), 0)
    record, (node, *_) = scenario.records[-1], nodes
    assert record.scale_down is not None
    assert record.scale_down.reasons == {UnremovableReason.DISABLED_FOR_GROUP: 4}, "they are not nobody's"
    assert record.group_status[GroupName("a")].closed(Instant(0.0)) == "it cannot be read: it is odd"
    group = record.group_status[GroupName("a")].group
    why = (UnremovableReason.DISABLED_FOR_GROUP, "it cannot be read: it is odd")
    assert scenario.scale_down.held_back(NodeName(node), group, ready=True) == (None, [why])
    scenario.cloud.pool("a").unreadable = ""
    await scenario.pass_time(300)
    assert (scenario.sizes()["a"], scenario.unhappy()) == (1, [])


async def test_nothing_is_bought_twice_while_a_group_cannot_be_read() -> None:
    scenario = ShrinkScene()
    pool(scenario, 1)
    scenario.wants_many(8, cpu="3", tag="burst")
    await scenario.pass_time(15)
    scenario.cloud.has("b", template=scenario.cloud.pool("a").template)
    scenario.cloud.pool("a").unreadable = "it is odd"
    await scenario.pass_time(120)
    assert [(call.verb, call.group, call.to) for call in scenario.cloud.calls] == [("grow", "a", 8)]
    assert scenario.unhappy() == []


async def test_a_person_cancels_and_the_node_is_left_alone_for_a_while() -> None:
    scenario = ShrinkScene(limits=replace(installed.DRAIN, settle_time=60.0))
    nodes = pool(scenario, 2)
    scenario.runs("web", nodes[:1])
    scenario.runs("other", nodes[1:], cpu="2500m")
    await scenario.pass_time(85)
    drains = scenario.state_machine.drains
    answer, effects = drains.cancel(NodeName(nodes[0]), UnremovableReason.CANCELLED, "a person asked", scenario.time.clock())
    scenario.carry_out(effects)
    await scenario.pass_time(20)
    assert (answer, list(drains.nodes), scenario.cordoned) == ("cancelled", [], set())
    assert scenario.records[-1].scale_down is not None
    assert [end.unremovable_reason for end in scenario.watched.ended] == [UnremovableReason.CANCELLED]


async def test_a_provider_that_fails_gives_the_node_back_and_the_group_cools_down() -> None:
    scenario = ShrinkScene(delays=(0.0, 0.0, 200.0))
    pool(scenario, 1)
    scenario.cloud.refuse("other")
    await scenario.pass_time(100)
    assert (scenario.sizes(), scenario.cordoned) == ({"a": 1}, set())
    assert [end.unremovable_reason for end in scenario.watched.ended] == [UnremovableReason.DELETION_FAILED]
    [reported] = [effect for effect in scenario.said_effects if isinstance(effect, Announce) and effect.type == "Warning"]
    assert (reported.reason, reported.note.partition(":")[0]) == ("ScaleDownFailed", "removal given up")
    await scenario.pass_time(400)  # node and group back off for 300 s, longer than the cool-down
    assert scenario.sizes() == {"a": 0}


async def test_without_overlap_one_batch_of_drains_ends_before_the_next_begins() -> None:
    scenario = ShrinkScene(
        scale_down=replace(installed.SCALE_DOWN, unneeded_time=30.0, max_drain_parallelism=2, parallel_drain=False)
    )
    nodes = pool(scenario, 8)
    scenario.runs("web", nodes)
    await scenario.pass_time(600)
    assert (scenario.sizes(), scenario.watched.most_drains) == ({"a": 2}, 2)


async def test_switched_off_nothing_goes_and_what_had_begun_is_given_up() -> None:
    scenario = ShrinkScene(limits=replace(installed.DRAIN, settle_time=60.0))
    pool(scenario, 3)
    await scenario.pass_time(85)
    assert len(scenario.state_machine.drains.nodes) == 3
    scenario.shrink_policy = replace(installed.SCALE_DOWN, enabled=False)
    scenario.restart()
    await scenario.pass_time(120)
    assert (scenario.sizes(), scenario.cordoned) == ({"a": 3}, set())
    assert not any(scenario.taints.values())


async def test_after_a_start_nothing_is_forgotten_while_the_provider_does_not_answer() -> None:
    scenario = ShrinkScene(limits=replace(installed.DRAIN, settle_time=60.0))
    pool(scenario, 1)
    await scenario.pass_time(85)
    scenario.restart()
    scenario.cloud.breaks()
    await scenario.pass_time(30)
    assert scenario.autoscaler._scale_down_loop is not None
    assert scenario.autoscaler._scale_down_loop.state is None
    scenario.cloud.breaks(None)
    await scenario.pass_time(90)
    assert scenario.sizes() == {"a": 0}


async def test_an_evicted_pod_of_a_kind_that_is_nowhere_any_more_can_still_be_planned_for() -> None:
    """The cluster state knows only labels that somebody reads; the pod's own rule reads one that nobody else does."""
    scenario = ShrinkScene()
    pool(scenario, 2)
    await scenario.pass_time(10)
    own = (Requirement("tier", "In", ("rare",)),)
    rule = PodConstraints(
        anti_affinity=(PodTerm(topology_key="kubernetes.io/hostname", selector=own, namespaces=("default",)),)
    )
    pod = a_pod("rare", on="gone", labels={"tier": "rare"})
    scale_down_loop = scenario.autoscaler._scale_down_loop
    assert scale_down_loop is not None
    assert scale_down_loop.state is not None
    evicted = structs.replace(pod, kind=replace(pod.kind, pod_constraints=rule))
    scale_down_loop.state = scale_down_loop.state.evicted(evicted, scenario.time.wall())
    record = await scenario.loop()
    assert record.scale_down is not None
    assert (record.scale_down.homeless, record.scale_down.reasons[UnremovableReason.DESTINATION]) == ("", 1)


async def makespan(drains: int) -> tuple[float, int]:
    """Seconds until eight nodes at a quarter are packed, and how many pods were evicted for it."""
    scenario = ShrinkScene(
        scale_down=replace(installed.SCALE_DOWN, unneeded_time=30.0, max_drain_parallelism=drains),
        limits=replace(installed.DRAIN, settle_time=20.0),
    )
    scenario.runs("web", pool(scenario, 8))
    while scenario.sizes()["a"] > 2:
        await scenario.pass_time(10)
        assert scenario.time.seconds < 2000
    return scenario.time.seconds, scenario.watched.evicted


async def test_drains_side_by_side_take_a_fraction_of_the_time_and_disturb_no_more() -> None:
    side_by_side, in_a_row = await makespan(5), await makespan(1)
    print(f"5 drains at a time: {side_by_side[0]:.0f} s, {side_by_side[1]} evictions; one: {in_a_row[0]:.0f} s, {in_a_row[1]}")
    assert side_by_side[0] < 0.6 * in_a_row[0]
    assert side_by_side[1] <= in_a_row[1] + 2


async def test_a_pod_of_two_budgets_keeps_its_node_and_no_pod_is_evicted_in_vain() -> None:
    scenario = ShrinkScene(scale_down=installed.SCALE_DOWN)
    nodes = pool(scenario, 3)
    scenario.runs("guarded", nodes[:1], cpu="100m", least=0, budgets=2)
    scenario.runs("innocent", nodes[:1], cpu="100m")
    scenario.runs("big", nodes[1:], cpu="2500m")
    await scenario.pass_time(1800)
    assert (scenario.watched.ended, scenario.watched.evicted, scenario.sizes()) == ([], 0, {"a": 3})
    scale_down = scenario.records[-1].scale_down
    assert scale_down is not None
    assert scale_down.reasons[UnremovableReason.MULTIPLE_PDBS] == 1


async def test_a_drain_that_fails_again_and_again_is_tried_less_and_less_often() -> None:
    """A webhook refuses the eviction, whatever the budgets say. Without the pauses there are 19 drains in four hours."""
    scenario = ShrinkScene(scale_down=installed.SCALE_DOWN)
    nodes = pool(scenario, 3)
    scenario.refused.add("guarded")
    scenario.runs("guarded", nodes[:1], cpu="100m")
    scenario.runs("big", nodes[1:], cpu="2500m")
    began: list[float] = []
    while scenario.time.seconds < 4 * 3600:
        await scenario.pass_time(60, every=60.0)
        record = scenario.records[-1].scale_down
        began += [scenario.time.seconds] if record is not None and record.begun else []
    pauses = [after - before for before, after in itertools.pairwise(began)]
    assert len(began) <= 7
    assert all(after > before for before, after in itertools.pairwise(pauses))
    scale_down = scenario.records[-1].scale_down
    assert scale_down is not None
    assert scale_down.reasons[UnremovableReason.DRAIN_FAILED] == 1


async def test_a_failed_drain_is_forgotten_in_time() -> None:
    policy = replace(installed.SCALE_DOWN, unneeded_time=30.0, unremovable_recheck_time=100.0, max_drain_backoff=200.0)
    scenario = ShrinkScene(scale_down=policy)
    nodes = pool(scenario, 3)
    scenario.refused.add("guarded")
    scenario.runs("guarded", nodes[:1], cpu="100m")
    scenario.runs("big", nodes[1:], cpu="2500m")
    await scenario.pass_time(190)
    scale_down_loop = scenario.autoscaler._scale_down_loop
    assert scale_down_loop is not None
    assert scale_down_loop.state is not None
    assert {node: failed.count for node, failed in scale_down_loop.state.failed_drains.items()} == {nodes[0]: 1}
    scenario.refused.clear()
    scenario.runs("busy", nodes[:1], cpu="2")  # no candidate any more, so that nothing is tried
    await scenario.pass_time(200)
    assert scale_down_loop.state.failed_drains.keys() == {nodes[0]}
    await scenario.pass_time(120)
    assert scale_down_loop.state.failed_drains == {}


async def test_a_node_that_waits_to_be_judged_again_says_so() -> None:
    """Its pod fitted nowhere when it was last judged. Now it is empty, and is judged again only after the recheck time."""
    scenario = ShrinkScene(scale_down=replace(installed.SCALE_DOWN, unneeded_time=600.0, unremovable_recheck_time=100.0))
    nodes = pool(scenario, 2)
    scenario.runs("web", nodes[:1], cpu="1900m")
    scenario.runs("big", nodes[1:], cpu="2500m")
    await scenario.pass_time(20)
    scenario.finishes([uid for uid, pod in scenario.pods.items() if pod.node == nodes[0]])
    group = scenario.group_registry.group_status[GroupName("a")].group
    since, waits = scenario.scale_down.held_back(NodeName(nodes[0]), group, ready=True)
    assert (since, [reason for reason, _ in waits]) == (None, [UnremovableReason.RECENTLY_UNREMOVABLE])
    assert "NoPlaceToMovePods" in waits[0][1]
    assert "judged again in" in waits[0][1]
    await scenario.pass_time(120)
    since, waits = scenario.scale_down.held_back(NodeName(nodes[0]), group, ready=True)
    assert since is not None
    assert UnremovableReason.RECENTLY_UNREMOVABLE not in [reason for reason, _ in waits]


@pytest.mark.parametrize("cutoff", [-10, 0, 1000])
async def test_expendable_pods_keep_no_node_whatever_the_cutoff(cutoff: int) -> None:
    scenario = ShrinkScene()
    scenario.cut_off(cutoff)
    nodes = pool(scenario, 3)
    filler = a_pod("filler", on=nodes[0], cpu="3", memory="1Gi", priority=cutoff - 1)  # has no controller, and is large
    needed = a_pod("needed", on=nodes[1], cpu="3", memory="1Gi", priority=cutoff)
    scenario.wants(filler, needed)
    await scenario.pass_time(200)
    assert sorted(scenario._shown) == [nodes[1]]


@pytest.mark.parametrize("cutoff", [-10, 0, 1000])
async def test_pods_that_may_preempt_expendable_ones_request_no_node_whatever_the_cutoff(cutoff: int) -> None:
    scenario = ShrinkScene(scale_down=replace(installed.SCALE_DOWN, enabled=False))
    scenario.cut_off(cutoff)
    [node] = pool(scenario, 1)
    scenario.wants(a_pod("filler", on=node, cpu="3", memory="1Gi", priority=cutoff - 1))
    scenario.wants(a_pod("wants", cpu="3", memory="1Gi", priority=cutoff))
    await scenario.pass_time(60)
    assert [call for record in scenario.records for call, _ in record.asked] == []


async def test_a_drain_whose_room_was_needed_does_not_begin_again_at_once() -> None:
    scenario = ShrinkScene(limits=replace(installed.DRAIN, settle_time=60.0))
    nodes = pool(scenario, 2)
    scenario.runs("web", nodes[:1])
    scenario.runs("other", nodes[1:], cpu="2500m")
    await scenario.pass_time(85)
    drains = scenario.state_machine.drains
    assert list(drains.nodes) == nodes[:1]
    scenario.wants_many(2, cpu="1500m", tag="burst")
    await scenario.pass_time(20)
    assert [end.unremovable_reason for end in scenario.watched.ended] == [UnremovableReason.ROOM_NEEDED]
    scenario.finishes([pod for pod in scenario.pods if "burst" in pod])
    await scenario.pass_time(200)  # three times as long as a node has to be unneeded
    assert (list(drains.nodes), scenario.cordoned) == ([], set())
    await scenario.pass_time(300)
    assert scenario.sizes() == {"a": 1}
