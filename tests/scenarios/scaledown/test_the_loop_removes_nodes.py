"""The real loop over a cloud on virtual time: under-used nodes go, side by side, and nobody is left without a place."""

import itertools
from dataclasses import replace

import pytest

from slackwater.controllers.scaledown.drains.limits import DrainLimits
from slackwater.controllers.scaledown.loop import ShrinkDelays
from slackwater.controllers.scaledown.policy import ScaleDownPolicy
from slackwater.model.effects import Announce
from slackwater.model.ids import Instant, NodeName
from slackwater.model.pod_constraints import Particulars, PodTerm
from slackwater.model.selectors import Requirement
from slackwater.model.unremovable_reasons import Hindrance
from tests.support.builders import a_node, a_pod
from tests.support.shrinking import ShrinkScene

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def pool(scene: ShrinkScene, size: int, *, min_size: int = 0) -> list[str]:
    """Nodes of 4 CPUs, up since long; their names."""
    template = replace(a_node("template", cpu="4", memory="64Gi"), scalars=(("pods", 110),))
    scene.cloud.has("a", size=size, min_size=min_size, template=template)
    scene.settle()
    return sorted(scene._shown)


async def test_under_used_nodes_are_packed_onto_the_fewest() -> None:
    scene = ShrinkScene()
    nodes = pool(scene, 12)
    scene.runs("web", nodes)
    await scene.pass_time(900)
    assert scene.sizes()["a"] in (3, 4)  # a node that is three quarters full is left alone
    assert (scene.unhappy(), scene.cordoned & set(scene._shown)) == ([], set())
    assert 2 <= scene.watched.most_drains <= 5
    told = [effect for effect in scene.said_effects if isinstance(effect, Announce) and effect.reason == "ScaleDown"]
    assert len(told) == 12 - scene.sizes()["a"]
    assert all(effect.about == "Node" and "worth" in effect.note for effect in told)


async def test_nothing_goes_before_its_time_and_the_time_is_kept_in_taints() -> None:
    scene = ShrinkScene(shrink=ScaleDownPolicy(unneeded_seconds=100.0))
    pool(scene, 3)
    await scene.pass_time(90)
    assert scene.sizes() == {"a": 3}
    assert {taint.key for taints in scene.taints.values() for taint in taints} == {"DeletionCandidateOfClusterAutoscaler"}
    await scene.pass_time(60)
    assert scene.sizes() == {"a": 0}


async def test_a_restart_goes_on_where_the_taints_say() -> None:
    scene = ShrinkScene(shrink=ScaleDownPolicy(unneeded_seconds=100.0))
    pool(scene, 3)
    await scene.pass_time(90)
    scene.restart()
    await scene.pass_time(40)
    assert scene.sizes() == {"a": 0}


async def test_a_drain_goes_on_after_a_restart() -> None:
    scene = ShrinkScene(limits=DrainLimits(settle_seconds=30.0))
    nodes = pool(scene, 2)
    scene.runs("web", nodes[:1])
    scene.runs("other", nodes[1:], cpu="2500m")
    await scene.pass_time(90)
    assert list(scene.world.removals.drains.nodes) == nodes[:1]
    scene.restart()
    await scene.pass_time(60)
    assert (scene.sizes(), scene.unhappy()) == ({"a": 1}, [])


async def test_a_group_keeps_its_minimum() -> None:
    scene = ShrinkScene()
    pool(scene, 6, min_size=4)
    await scene.pass_time(200)
    assert scene.sizes() == {"a": 4}


async def test_a_budget_delays_its_own_nodes_and_is_never_violated() -> None:
    scene = ShrinkScene(shrink=ScaleDownPolicy(unneeded_seconds=30.0))
    nodes = pool(scene, 8)
    scene.runs("guarded", nodes[:4], least=3)
    scene.runs("plain", nodes[4:])
    await scene.pass_time(500)
    assert (scene.sizes(), scene.unhappy()) == ({"a": 2}, [])


async def test_a_cool_down_after_growth_is_the_groups_own() -> None:
    scene = ShrinkScene(delays=ShrinkDelays(after_add=300.0, after_delete=0.0, after_failure=0.0))
    pool(scene, 2)
    scene.fleet.observe([], {}, Instant(0.0), silent={})
    scene.wants_many(3, tag="burst")
    await scene.pass_time(60)
    assert scene.sizes()["a"] >= 3
    scene.finishes([uid for uid in scene.pods if "burst" in uid])
    await scene.pass_time(150)
    assert scene.sizes()["a"] >= 3
    await scene.pass_time(300)
    assert scene.sizes() == {"a": 0}


async def test_pods_that_come_in_the_middle_stop_the_drains_whose_room_they_need() -> None:
    scene = ShrinkScene(limits=DrainLimits(settle_seconds=60.0))
    nodes = pool(scene, 4)
    scene.runs("web", nodes)
    await scene.pass_time(85)
    assert len(scene.world.removals.drains.nodes) == 3
    scene.wants_many(8, cpu="1", tag="burst")
    await scene.pass_time(60)
    assert (scene.unhappy(), scene.sizes()) == ([], {"a": 3})  # twelve pods of a CPU each
    given_up = {name for record in scene.records if record.shrink for name in record.shrink.given_up}
    assert len(given_up) >= 2
    assert {end.hindrance for end in scene.watched.ended} == {Hindrance.ROOM_NEEDED}
    asked = [call for record in scene.records for call, _ in record.asked]
    assert asked == []  # no new node is bought for room that is there


async def test_a_person_cancels_and_the_node_is_left_alone_for_a_while() -> None:
    scene = ShrinkScene(limits=DrainLimits(settle_seconds=60.0))
    nodes = pool(scene, 2)
    scene.runs("web", nodes[:1])
    scene.runs("other", nodes[1:], cpu="2500m")
    await scene.pass_time(85)
    drains = scene.world.removals.drains
    answer, effects = drains.cancel(NodeName(nodes[0]), Hindrance.CANCELLED, "a person asked", scene.time.clock())
    scene.carry_out(effects)
    await scene.pass_time(20)
    assert (answer, list(drains.nodes), scene.cordoned) == ("cancelled", [], set())
    assert scene.records[-1].shrink is not None
    assert [end.hindrance for end in scene.watched.ended] == [Hindrance.CANCELLED]


async def test_a_provider_that_fails_gives_the_node_back_and_the_group_cools_down() -> None:
    scene = ShrinkScene(delays=ShrinkDelays(after_add=0.0, after_delete=0.0, after_failure=200.0))
    pool(scene, 1)
    scene.cloud.refuse("other")
    await scene.pass_time(100)
    assert (scene.sizes(), scene.cordoned) == ({"a": 1}, set())
    assert [end.hindrance for end in scene.watched.ended] == [Hindrance.DELETION_FAILED]
    [told] = [effect for effect in scene.said_effects if isinstance(effect, Announce) and effect.type == "Warning"]
    assert (told.reason, told.note.partition(":")[0]) == ("ScaleDownFailed", "removal given up")
    await scene.pass_time(300)
    assert scene.sizes() == {"a": 0}


async def test_without_overlap_one_batch_of_drains_ends_before_the_next_begins() -> None:
    scene = ShrinkScene(shrink=ScaleDownPolicy(unneeded_seconds=30.0, max_drains=2, overlap_drains=False))
    nodes = pool(scene, 8)
    scene.runs("web", nodes)
    await scene.pass_time(600)
    assert (scene.sizes(), scene.watched.most_drains) == ({"a": 2}, 2)


async def test_switched_off_nothing_goes_and_what_had_begun_is_given_up() -> None:
    scene = ShrinkScene(limits=DrainLimits(settle_seconds=60.0))
    pool(scene, 3)
    await scene.pass_time(85)
    assert len(scene.world.removals.drains.nodes) == 3
    scene.shrink_policy = ScaleDownPolicy(enabled=False)
    scene.restart()
    await scene.pass_time(120)
    assert (scene.sizes(), scene.cordoned) == ({"a": 3}, set())
    assert not any(scene.taints.values())


async def test_after_a_start_nothing_is_forgotten_while_the_provider_does_not_answer() -> None:
    scene = ShrinkScene(limits=DrainLimits(settle_seconds=60.0))
    pool(scene, 1)
    await scene.pass_time(85)
    scene.restart()
    scene.cloud.breaks()
    await scene.pass_time(30)
    assert scene.autoscaler._shrinking is not None
    assert scene.autoscaler._shrinking.state is None
    scene.cloud.breaks(None)
    await scene.pass_time(90)
    assert scene.sizes() == {"a": 0}


async def test_an_evicted_pod_of_a_kind_that_is_nowhere_any_more_can_still_be_planned_for() -> None:
    """The picture knows only labels that somebody reads; the pod's own rule reads one that nobody else does."""
    scene = ShrinkScene()
    pool(scene, 2)
    await scene.pass_time(10)
    own = (Requirement("tier", "In", ("rare",)),)
    rule = Particulars(anti_affinity=(PodTerm(topology_key="kubernetes.io/hostname", selector=own, namespaces=("default",)),))
    pod = a_pod("rare", on="gone", labels={"tier": "rare"})
    shrinking = scene.autoscaler._shrinking
    assert shrinking is not None
    assert shrinking.state is not None
    evicted = replace(pod, kind=replace(pod.kind, particulars=rule))
    shrinking.state = shrinking.state.evicted(evicted, scene.time.wall())
    record = await scene.loop()
    assert record.shrink is not None
    assert (record.shrink.homeless, record.shrink.reasons[Hindrance.DESTINATION]) == ("", 1)


async def makespan(drains: int) -> tuple[float, int]:
    """Seconds until eight nodes at a quarter are packed, and how many pods were evicted for it."""
    scene = ShrinkScene(
        shrink=ScaleDownPolicy(unneeded_seconds=30.0, max_drains=drains),
        limits=DrainLimits(settle_seconds=20.0),
    )
    scene.runs("web", pool(scene, 8))
    while scene.sizes()["a"] > 2:
        await scene.pass_time(10)
        assert scene.time.seconds < 2000
    return scene.time.seconds, scene.watched.evicted


async def test_drains_side_by_side_take_a_fraction_of_the_time_and_disturb_no_more() -> None:
    side_by_side, in_a_row = await makespan(5), await makespan(1)
    print(f"5 drains at a time: {side_by_side[0]:.0f} s, {side_by_side[1]} evictions; one: {in_a_row[0]:.0f} s, {in_a_row[1]}")
    assert side_by_side[0] < 0.6 * in_a_row[0]
    assert side_by_side[1] <= in_a_row[1] + 2


async def test_a_pod_of_two_budgets_keeps_its_node_and_nobody_is_evicted_in_vain() -> None:
    scene = ShrinkScene(shrink=ScaleDownPolicy())
    nodes = pool(scene, 3)
    scene.runs("guarded", nodes[:1], cpu="100m", least=0, budgets=2)
    scene.runs("innocent", nodes[:1], cpu="100m")
    scene.runs("big", nodes[1:], cpu="2500m")
    await scene.pass_time(1800)
    assert (scene.watched.ended, scene.watched.evicted, scene.sizes()) == ([], 0, {"a": 3})
    shrink = scene.records[-1].shrink
    assert shrink is not None
    assert shrink.reasons[Hindrance.MULTIPLE_PDBS] == 1


async def test_a_drain_that_fails_again_and_again_is_tried_less_and_less_often() -> None:
    """A webhook refuses the eviction, whatever the budgets say. Without the pauses there are 19 drains in four hours."""
    scene = ShrinkScene(shrink=ScaleDownPolicy())
    nodes = pool(scene, 3)
    scene.refused.add("guarded")
    scene.runs("guarded", nodes[:1], cpu="100m")
    scene.runs("big", nodes[1:], cpu="2500m")
    began: list[float] = []
    while scene.time.seconds < 4 * 3600:
        await scene.pass_time(60, every=60.0)
        record = scene.records[-1].shrink
        began += [scene.time.seconds] if record is not None and record.begun else []
    pauses = [after - before for before, after in itertools.pairwise(began)]
    assert len(began) <= 7
    assert all(after > before for before, after in itertools.pairwise(pauses))
    shrink = scene.records[-1].shrink
    assert shrink is not None
    assert shrink.reasons[Hindrance.DRAIN_FAILED] == 1


async def test_a_failed_drain_is_forgotten_in_time() -> None:
    policy = ScaleDownPolicy(unneeded_seconds=30.0, recheck_seconds=100.0, longest_backoff_seconds=200.0)
    scene = ShrinkScene(shrink=policy)
    nodes = pool(scene, 3)
    scene.refused.add("guarded")
    scene.runs("guarded", nodes[:1], cpu="100m")
    scene.runs("big", nodes[1:], cpu="2500m")
    await scene.pass_time(190)
    shrinking = scene.autoscaler._shrinking
    assert shrinking is not None
    assert shrinking.state is not None
    assert {node: failed.count for node, failed in shrinking.state.failed_drains.items()} == {nodes[0]: 1}
    scene.refused.clear()
    scene.runs("busy", nodes[:1], cpu="2")  # no candidate any more, so that nothing is tried
    await scene.pass_time(200)
    assert shrinking.state.failed_drains.keys() == {nodes[0]}
    await scene.pass_time(120)
    assert shrinking.state.failed_drains == {}


@pytest.mark.parametrize("cutoff", [-10, 0, 1000])
async def test_expendable_pods_keep_no_node_whatever_the_cutoff(cutoff: int) -> None:
    scene = ShrinkScene()
    scene.cut_off(cutoff)
    nodes = pool(scene, 3)
    filler = a_pod("filler", on=nodes[0], cpu="3", memory="1Gi", priority=cutoff - 1)  # has no controller, and is large
    needed = a_pod("needed", on=nodes[1], cpu="3", memory="1Gi", priority=cutoff)
    scene.wants(filler, needed)
    await scene.pass_time(200)
    assert sorted(scene._shown) == [nodes[1]]


@pytest.mark.parametrize("cutoff", [-10, 0, 1000])
async def test_pods_that_may_preempt_expendable_ones_buy_no_node_whatever_the_cutoff(cutoff: int) -> None:
    scene = ShrinkScene(shrink=ScaleDownPolicy(enabled=False))
    scene.cut_off(cutoff)
    [node] = pool(scene, 1)
    scene.wants(a_pod("filler", on=node, cpu="3", memory="1Gi", priority=cutoff - 1))
    scene.wants(a_pod("wants", cpu="3", memory="1Gi", priority=cutoff))
    await scene.pass_time(60)
    assert [call for record in scene.records for call, _ in record.asked] == []
