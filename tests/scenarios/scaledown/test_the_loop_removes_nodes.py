"""The real loop over a cloud on virtual time: under-used nodes go, side by side, and nobody is left without a place."""

import itertools
from dataclasses import replace

import pytest

from slackwater.controllers.scaledown.drains.limits import DrainLimits
from slackwater.controllers.scaledown.loop import ScaleDownDelays
from slackwater.controllers.scaledown.policy import ScaleDownPolicy
from slackwater.model.effects import Announce
from slackwater.model.ids import Instant, NodeName
from slackwater.model.pod_constraints import PodConstraints, PodTerm
from slackwater.model.selectors import Requirement
from slackwater.model.unremovable_reasons import UnremovableReason
from tests.support.builders import a_node, a_pod
from tests.support.shrinking import ShrinkScene

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def pool(planning_input: ShrinkScene, size: int, *, min_size: int = 0) -> list[str]:
    """Nodes of 4 CPUs, up since long; their names."""
    template = replace(a_node("template", cpu="4", memory="64Gi"), scalars=(("pods", 110),))
    planning_input.cloud.has("a", size=size, min_size=min_size, template=template)
    planning_input.settle()
    return sorted(planning_input._shown)


async def test_under_used_nodes_are_packed_onto_the_fewest() -> None:
    planning_input = ShrinkScene()
    nodes = pool(planning_input, 12)
    planning_input.runs("web", nodes)
    await planning_input.pass_time(900)
    assert planning_input.sizes()["a"] in (3, 4)  # a node that is three quarters full is left alone
    assert (planning_input.unhappy(), planning_input.cordoned & set(planning_input._shown)) == ([], set())
    assert 2 <= planning_input.watched.most_drains <= 5
    told = [effect for effect in planning_input.said_effects if isinstance(effect, Announce) and effect.reason == "ScaleDown"]
    assert len(told) == 12 - planning_input.sizes()["a"]
    assert all(effect.about == "Node" and "worth" in effect.note for effect in told)


async def test_nothing_goes_before_its_time_and_the_time_is_kept_in_taints() -> None:
    planning_input = ShrinkScene(scale_down=ScaleDownPolicy(unneeded_seconds=100.0))
    pool(planning_input, 3)
    await planning_input.pass_time(90)
    assert planning_input.sizes() == {"a": 3}
    assert {taint.key for taints in planning_input.taints.values() for taint in taints} == {
        "DeletionCandidateOfClusterAutoscaler"
    }
    await planning_input.pass_time(60)
    assert planning_input.sizes() == {"a": 0}


async def test_a_restart_goes_on_where_the_taints_say() -> None:
    planning_input = ShrinkScene(scale_down=ScaleDownPolicy(unneeded_seconds=100.0))
    pool(planning_input, 3)
    await planning_input.pass_time(90)
    planning_input.restart()
    await planning_input.pass_time(40)
    assert planning_input.sizes() == {"a": 0}


async def test_a_drain_goes_on_after_a_restart() -> None:
    planning_input = ShrinkScene(limits=DrainLimits(settle_seconds=30.0))
    nodes = pool(planning_input, 2)
    planning_input.runs("web", nodes[:1])
    planning_input.runs("other", nodes[1:], cpu="2500m")
    await planning_input.pass_time(90)
    assert list(planning_input.state_machine.removals.drains.nodes) == nodes[:1]
    planning_input.restart()
    await planning_input.pass_time(60)
    assert (planning_input.sizes(), planning_input.unhappy()) == ({"a": 1}, [])


async def test_a_group_keeps_its_minimum() -> None:
    planning_input = ShrinkScene()
    pool(planning_input, 6, min_size=4)
    await planning_input.pass_time(200)
    assert planning_input.sizes() == {"a": 4}


async def test_a_budget_delays_its_own_nodes_and_is_never_violated() -> None:
    planning_input = ShrinkScene(scale_down=ScaleDownPolicy(unneeded_seconds=30.0))
    nodes = pool(planning_input, 8)
    planning_input.runs("guarded", nodes[:4], least=3)
    planning_input.runs("plain", nodes[4:])
    await planning_input.pass_time(500)
    assert (planning_input.sizes(), planning_input.unhappy()) == ({"a": 2}, [])


async def test_a_cool_down_after_growth_is_the_groups_own() -> None:
    planning_input = ShrinkScene(delays=ScaleDownDelays(after_add=300.0, after_delete=0.0, after_failure=0.0))
    pool(planning_input, 2)
    planning_input.group_registry.observe([], {}, Instant(0.0), silent={})
    planning_input.wants_many(3, tag="burst")
    await planning_input.pass_time(60)
    assert planning_input.sizes()["a"] >= 3
    planning_input.finishes([uid for uid in planning_input.pods if "burst" in uid])
    await planning_input.pass_time(150)
    assert planning_input.sizes()["a"] >= 3
    await planning_input.pass_time(300)
    assert planning_input.sizes() == {"a": 0}


async def test_pods_that_come_in_the_middle_stop_the_drains_whose_room_they_need() -> None:
    planning_input = ShrinkScene(limits=DrainLimits(settle_seconds=60.0))
    nodes = pool(planning_input, 4)
    planning_input.runs("web", nodes)
    await planning_input.pass_time(85)
    assert len(planning_input.state_machine.removals.drains.nodes) == 3
    planning_input.wants_many(8, cpu="1", tag="burst")
    await planning_input.pass_time(60)
    assert (planning_input.unhappy(), planning_input.sizes()) == ([], {"a": 3})  # twelve pods of a CPU each
    given_up = {name for record in planning_input.records if record.scale_down for name in record.scale_down.given_up}
    assert len(given_up) >= 2
    assert {end.unremovable_reason for end in planning_input.watched.ended} == {UnremovableReason.ROOM_NEEDED}
    asked = [call for record in planning_input.records for call, _ in record.asked]
    assert asked == []  # no new node is bought for room that is there


async def test_a_person_cancels_and_the_node_is_left_alone_for_a_while() -> None:
    planning_input = ShrinkScene(limits=DrainLimits(settle_seconds=60.0))
    nodes = pool(planning_input, 2)
    planning_input.runs("web", nodes[:1])
    planning_input.runs("other", nodes[1:], cpu="2500m")
    await planning_input.pass_time(85)
    drains = planning_input.state_machine.removals.drains
    answer, effects = drains.cancel(
        NodeName(nodes[0]), UnremovableReason.CANCELLED, "a person asked", planning_input.time.clock()
    )
    planning_input.carry_out(effects)
    await planning_input.pass_time(20)
    assert (answer, list(drains.nodes), planning_input.cordoned) == ("cancelled", [], set())
    assert planning_input.records[-1].scale_down is not None
    assert [end.unremovable_reason for end in planning_input.watched.ended] == [UnremovableReason.CANCELLED]


async def test_a_provider_that_fails_gives_the_node_back_and_the_group_cools_down() -> None:
    planning_input = ShrinkScene(delays=ScaleDownDelays(after_add=0.0, after_delete=0.0, after_failure=200.0))
    pool(planning_input, 1)
    planning_input.cloud.refuse("other")
    await planning_input.pass_time(100)
    assert (planning_input.sizes(), planning_input.cordoned) == ({"a": 1}, set())
    assert [end.unremovable_reason for end in planning_input.watched.ended] == [UnremovableReason.DELETION_FAILED]
    [told] = [effect for effect in planning_input.said_effects if isinstance(effect, Announce) and effect.type == "Warning"]
    assert (told.reason, told.note.partition(":")[0]) == ("ScaleDownFailed", "removal given up")
    await planning_input.pass_time(300)
    assert planning_input.sizes() == {"a": 0}


async def test_without_overlap_one_batch_of_drains_ends_before_the_next_begins() -> None:
    planning_input = ShrinkScene(scale_down=ScaleDownPolicy(unneeded_seconds=30.0, max_drains=2, overlap_drains=False))
    nodes = pool(planning_input, 8)
    planning_input.runs("web", nodes)
    await planning_input.pass_time(600)
    assert (planning_input.sizes(), planning_input.watched.most_drains) == ({"a": 2}, 2)


async def test_switched_off_nothing_goes_and_what_had_begun_is_given_up() -> None:
    planning_input = ShrinkScene(limits=DrainLimits(settle_seconds=60.0))
    pool(planning_input, 3)
    await planning_input.pass_time(85)
    assert len(planning_input.state_machine.removals.drains.nodes) == 3
    planning_input.shrink_policy = ScaleDownPolicy(enabled=False)
    planning_input.restart()
    await planning_input.pass_time(120)
    assert (planning_input.sizes(), planning_input.cordoned) == ({"a": 3}, set())
    assert not any(planning_input.taints.values())


async def test_after_a_start_nothing_is_forgotten_while_the_provider_does_not_answer() -> None:
    planning_input = ShrinkScene(limits=DrainLimits(settle_seconds=60.0))
    pool(planning_input, 1)
    await planning_input.pass_time(85)
    planning_input.restart()
    planning_input.cloud.breaks()
    await planning_input.pass_time(30)
    assert planning_input.autoscaler._scale_down_loop is not None
    assert planning_input.autoscaler._scale_down_loop.state is None
    planning_input.cloud.breaks(None)
    await planning_input.pass_time(90)
    assert planning_input.sizes() == {"a": 0}


async def test_an_evicted_pod_of_a_kind_that_is_nowhere_any_more_can_still_be_planned_for() -> None:
    """The cluster state knows only labels that somebody reads; the pod's own rule reads one that nobody else does."""
    planning_input = ShrinkScene()
    pool(planning_input, 2)
    await planning_input.pass_time(10)
    own = (Requirement("tier", "In", ("rare",)),)
    rule = PodConstraints(
        anti_affinity=(PodTerm(topology_key="kubernetes.io/hostname", selector=own, namespaces=("default",)),)
    )
    pod = a_pod("rare", on="gone", labels={"tier": "rare"})
    scale_down_loop = planning_input.autoscaler._scale_down_loop
    assert scale_down_loop is not None
    assert scale_down_loop.state is not None
    evicted = replace(pod, kind=replace(pod.kind, pod_constraints=rule))
    scale_down_loop.state = scale_down_loop.state.evicted(evicted, planning_input.time.wall())
    record = await planning_input.loop()
    assert record.scale_down is not None
    assert (record.scale_down.homeless, record.scale_down.reasons[UnremovableReason.DESTINATION]) == ("", 1)


async def makespan(drains: int) -> tuple[float, int]:
    """Seconds until eight nodes at a quarter are packed, and how many pods were evicted for it."""
    planning_input = ShrinkScene(
        scale_down=ScaleDownPolicy(unneeded_seconds=30.0, max_drains=drains),
        limits=DrainLimits(settle_seconds=20.0),
    )
    planning_input.runs("web", pool(planning_input, 8))
    while planning_input.sizes()["a"] > 2:
        await planning_input.pass_time(10)
        assert planning_input.time.seconds < 2000
    return planning_input.time.seconds, planning_input.watched.evicted


async def test_drains_side_by_side_take_a_fraction_of_the_time_and_disturb_no_more() -> None:
    side_by_side, in_a_row = await makespan(5), await makespan(1)
    print(f"5 drains at a time: {side_by_side[0]:.0f} s, {side_by_side[1]} evictions; one: {in_a_row[0]:.0f} s, {in_a_row[1]}")
    assert side_by_side[0] < 0.6 * in_a_row[0]
    assert side_by_side[1] <= in_a_row[1] + 2


async def test_a_pod_of_two_budgets_keeps_its_node_and_nobody_is_evicted_in_vain() -> None:
    planning_input = ShrinkScene(scale_down=ScaleDownPolicy())
    nodes = pool(planning_input, 3)
    planning_input.runs("guarded", nodes[:1], cpu="100m", least=0, budgets=2)
    planning_input.runs("innocent", nodes[:1], cpu="100m")
    planning_input.runs("big", nodes[1:], cpu="2500m")
    await planning_input.pass_time(1800)
    assert (planning_input.watched.ended, planning_input.watched.evicted, planning_input.sizes()) == ([], 0, {"a": 3})
    scale_down = planning_input.records[-1].scale_down
    assert scale_down is not None
    assert scale_down.reasons[UnremovableReason.MULTIPLE_PDBS] == 1


async def test_a_drain_that_fails_again_and_again_is_tried_less_and_less_often() -> None:
    """A webhook refuses the eviction, whatever the budgets say. Without the pauses there are 19 drains in four hours."""
    planning_input = ShrinkScene(scale_down=ScaleDownPolicy())
    nodes = pool(planning_input, 3)
    planning_input.refused.add("guarded")
    planning_input.runs("guarded", nodes[:1], cpu="100m")
    planning_input.runs("big", nodes[1:], cpu="2500m")
    began: list[float] = []
    while planning_input.time.seconds < 4 * 3600:
        await planning_input.pass_time(60, every=60.0)
        record = planning_input.records[-1].scale_down
        began += [planning_input.time.seconds] if record is not None and record.begun else []
    pauses = [after - before for before, after in itertools.pairwise(began)]
    assert len(began) <= 7
    assert all(after > before for before, after in itertools.pairwise(pauses))
    scale_down = planning_input.records[-1].scale_down
    assert scale_down is not None
    assert scale_down.reasons[UnremovableReason.DRAIN_FAILED] == 1


async def test_a_failed_drain_is_forgotten_in_time() -> None:
    policy = ScaleDownPolicy(unneeded_seconds=30.0, recheck_seconds=100.0, longest_backoff_seconds=200.0)
    planning_input = ShrinkScene(scale_down=policy)
    nodes = pool(planning_input, 3)
    planning_input.refused.add("guarded")
    planning_input.runs("guarded", nodes[:1], cpu="100m")
    planning_input.runs("big", nodes[1:], cpu="2500m")
    await planning_input.pass_time(190)
    scale_down_loop = planning_input.autoscaler._scale_down_loop
    assert scale_down_loop is not None
    assert scale_down_loop.state is not None
    assert {node: failed.count for node, failed in scale_down_loop.state.failed_drains.items()} == {nodes[0]: 1}
    planning_input.refused.clear()
    planning_input.runs("busy", nodes[:1], cpu="2")  # no candidate any more, so that nothing is tried
    await planning_input.pass_time(200)
    assert scale_down_loop.state.failed_drains.keys() == {nodes[0]}
    await planning_input.pass_time(120)
    assert scale_down_loop.state.failed_drains == {}


@pytest.mark.parametrize("cutoff", [-10, 0, 1000])
async def test_expendable_pods_keep_no_node_whatever_the_cutoff(cutoff: int) -> None:
    planning_input = ShrinkScene()
    planning_input.cut_off(cutoff)
    nodes = pool(planning_input, 3)
    filler = a_pod("filler", on=nodes[0], cpu="3", memory="1Gi", priority=cutoff - 1)  # has no controller, and is large
    needed = a_pod("needed", on=nodes[1], cpu="3", memory="1Gi", priority=cutoff)
    planning_input.wants(filler, needed)
    await planning_input.pass_time(200)
    assert sorted(planning_input._shown) == [nodes[1]]


@pytest.mark.parametrize("cutoff", [-10, 0, 1000])
async def test_pods_that_may_preempt_expendable_ones_buy_no_node_whatever_the_cutoff(cutoff: int) -> None:
    planning_input = ShrinkScene(scale_down=ScaleDownPolicy(enabled=False))
    planning_input.cut_off(cutoff)
    [node] = pool(planning_input, 1)
    planning_input.wants(a_pod("filler", on=node, cpu="3", memory="1Gi", priority=cutoff - 1))
    planning_input.wants(a_pod("wants", cpu="3", memory="1Gi", priority=cutoff))
    await planning_input.pass_time(60)
    assert [call for record in planning_input.records for call, _ in record.asked] == []
