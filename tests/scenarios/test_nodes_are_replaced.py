"""Consolidation in the running loop: new nodes come first, then the pods move, then the old nodes go."""

import re
from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.controllers import loop_plans
from slackwater.model.disruption_budgets import NodeDisruptionBudget
from slackwater.model.ids import NodeName
from slackwater.model.reasons import UnremovableReason
from tests.support.replacing import EAGER, ConsolidationScene

pytestmark = pytest.mark.anyio


def half_empty() -> ConsolidationScene:
    """Three nodes of 32 CPUs with 6 pods of 2 CPUs each, beside an empty group of 8 CPUs: 36 of 96 CPUs are in use."""
    scene = ConsolidationScene()
    scene.machines("large", 32, size=3)
    scene.machines("small", 8)
    scene.settle()
    for node in sorted(scene.shown_nodes()):
        scene.runs(f"web-{node}", [node] * 6, cpu="2")
    return scene


async def test_large_nodes_that_are_half_empty_give_way_to_smaller_ones() -> None:
    scene = half_empty()
    await scene.pass_time(600)
    assert (scene.pending(), scene.left_behind()) == (0, [])
    assert scene.sizes() == {"large": 1, "small": 1}
    assert set(scene.outcomes()) == {"done"}


async def test_new_nodes_are_ready_before_the_first_eviction() -> None:
    """The last large node has four small pods, and nothing else has room."""
    scene = ConsolidationScene()
    scene.machines("large", 32, size=1)
    scene.machines("small", 8)
    scene.settle()
    scene.runs("web", ["large-0000"] * 4)
    creating = 1
    while not scene.watched.evicted and scene.time.seconds < 3600:
        creating = scene.cloud.creating("small") or not scene.sizes()["small"]
        await scene.pass_time(1)
    assert scene.watched.evicted
    assert not creating
    await scene.pass_time(600)
    assert scene.sizes() == {"large": 0, "small": 1}


async def test_nothing_is_replaced_unless_it_is_switched_on() -> None:
    scene = half_empty()
    scene.consolidation = replace(EAGER, enabled=False)
    scene.shrink_policy = replace(scene.shrink_policy, only_empty=False)
    await scene.pass_time(600)
    assert scene.sizes() == {"large": 2, "small": 0}


async def test_what_was_bought_in_vain_goes_again() -> None:
    scene = half_empty()
    scene.cloud.pool("small").boot_outcome = lambda _: "failed"
    await scene.pass_time(1200)
    assert "nodes-did-not-come" in scene.outcomes()
    assert scene.left_behind() == []
    assert scene.pending() == 0


async def test_a_restart_in_the_middle_leaves_nothing_behind() -> None:
    scene = half_empty()
    while not scene.sizes()["small"]:
        await scene.pass_time(10)
    scene.restart()
    await scene.pass_time(1200)
    assert scene.left_behind() == []
    assert scene.pending() == 0
    assert scene.sizes() == {"large": 1, "small": 1}


async def test_no_node_comes_while_a_disruption_budget_lets_none_go() -> None:
    scene = half_empty()
    scene.shrink_policy = replace(scene.shrink_policy, disruption_budgets=(NodeDisruptionBudget(nodes=0),))
    await scene.pass_time(300)
    assert scene.sizes() == {"large": 3, "small": 0}
    scene.shrink_policy = replace(scene.shrink_policy, disruption_budgets=(NodeDisruptionBudget(nodes=1),))
    await scene.pass_time(900)
    assert scene.sizes() == {"large": 1, "small": 1}
    assert scene.watched.most_removals == 1


async def test_an_error_in_a_consolidation_plan_leaves_scale_down_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(loop_plans, "propose_consolidation", broken)
    scene = half_empty()
    scene.machines("idle", 4, size=1)
    await scene.pass_time(300)
    assert scene.sizes() == {"idle": 0, "large": 3, "small": 0}
    failures = [failure.about for record in scene.records for failure in record.failures]
    assert set(failures) == {"consolidation"}


def of_an_old_image(pod_rest: float = EAGER.pod_rest) -> ConsolidationScene:
    """Two full nodes of version 1; new nodes of their group have version 2."""
    scene = ConsolidationScene(rules=replace(EAGER, drift=True, pod_rest=pod_rest))
    pool = scene.machines("web", 8, size=2)
    scene.settle()
    for node in sorted(scene.shown_nodes()):
        scene.runs(f"web-{node}", [node] * 3, cpu="2500m")
    before = {**pool.template.labels, "version": "1"}
    for machine in pool.machines:
        machine.template = structs.replace(pool.template, labels=before)
    pool.template = structs.replace(pool.template, labels={**pool.template.labels, "version": "2"})
    return scene


def versions(scene: ConsolidationScene) -> list[str]:
    return sorted(node.labels["version"] for node in scene._shown.values())


async def test_nodes_of_an_old_template_are_replaced_as_budgets_for_drift_allow() -> None:
    scene = of_an_old_image()
    none = NodeDisruptionBudget(nodes=0, reasons=("Drifted",))
    scene.shrink_policy = replace(scene.shrink_policy, disruption_budgets=(none,))
    await scene.pass_time(300)
    assert versions(scene) == ["1", "1"]
    budgets = (NodeDisruptionBudget(nodes=1, reasons=("Drifted",)), NodeDisruptionBudget(nodes=0, reasons=("Underutilized",)))
    scene.shrink_policy = replace(scene.shrink_policy, disruption_budgets=budgets)
    await scene.pass_time(600)
    assert versions(scene) == ["2", "2"]
    assert (scene.watched.most_removals, scene.pending(), scene.left_behind(), scene.moved_twice) == (1, 0, [], [])


async def test_a_promise_that_no_new_node_keeps_replaces_nodes_once() -> None:
    scene = of_an_old_image(pod_rest=0.0)
    pool = scene.cloud.pool("web")
    pool.promised, pool.template = pool.template, pool.machines[0].template or pool.template
    await scene.pass_time(1200)
    assert versions(scene) == ["1", "1"]
    assert len(scene.lives) <= 2


async def test_nodes_expire_and_those_that_came_in_their_place_stay() -> None:
    scene = ConsolidationScene(rules=replace(EAGER, expire_after=600.0))
    scene.machines("web", 8, size=2)
    scene.settle()
    for node in sorted(scene.shown_nodes()):
        scene.runs(f"web-{node}", [node] * 3, cpu="2500m")
    await scene.pass_time(500)
    assert not scene.lives
    await scene.pass_time(500)
    assert [life >= 600 for life in scene.lives.values()] == [True, True]
    assert (scene.sizes(), scene.pending(), scene.left_behind(), scene.moved_twice) == ({"web": 2}, 0, [], [])


async def test_the_loop_says_why_no_plan_replaces_a_node() -> None:
    scene = ConsolidationScene()
    scene.machines("web", 8, size=1)
    scene.settle()
    scene.runs("web", ["web-0000"] * 3, cpu="2")
    assert scene.consolidating.words(NodeName("web-0000")) == []
    await scene.pass_time(120)
    ((reason, text),) = scene.consolidating.words(NodeName("web-0000"))
    assert reason is UnremovableReason.SAVES_TOO_LITTLE
    assert re.fullmatch(r"consolidation: it costs .* an hour, and has to save .*; planned \d+ s ago", text)
    scene.consolidation = replace(EAGER, enabled=False)
    assert scene.consolidating.words(NodeName("web-0000")) == []


@pytest.mark.parametrize("rest", [86_400.0, 0.0])
async def test_moved_pods_rest_after_a_restart_too(rest: float) -> None:
    """Small nodes replace a large one, and then there are still smaller ones."""
    scene = ConsolidationScene(rules=replace(EAGER, pod_rest=rest, min_saving_ratio=0.1))
    scene.machines("large", 32, size=1)
    scene.machines("small", 8)
    scene.settle()
    scene.runs("web", ["large-0000"] * 4, cpu="500m")
    await scene.pass_time(400)
    assert scene.sizes() == {"large": 0, "small": 1}
    scene.restart()
    scene.machines("tiny", 3)
    await scene.pass_time(400)
    assert bool(scene.moved_twice) is (rest == 0.0)
    assert scene.sizes()["tiny"] == int(rest == 0.0)
