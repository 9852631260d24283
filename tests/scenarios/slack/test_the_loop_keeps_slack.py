"""The real loop over a cloud on virtual time: pods within the slack never wait for a node, slack refills, nothing eats it."""

from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import GroupName
from slackwater.model.reasons import UnremovableReason
from slackwater.model.resources import Amounts
from tests.support import installed
from tests.support.builders import a_node, a_pod, amounts
from tests.support.shrinking import ShrinkScene

pytestmark = pytest.mark.anyio


def a_scene(size: int, *, least: Amounts, max_nodes: int = 0, largest: int = 1000) -> ShrinkScene:
    scenario = ShrinkScene(scale_down=replace(installed.SCALE_DOWN, unneeded_time=60.0))
    rule = replace(installed.SLACK_RULE, name="cluster", min=least, granularity=4, sizing="v1")
    scenario.slack = replace(installed.SLACK, rules=(rule,), max_nodes=max_nodes, shrink_delay=60.0)
    template = structs.replace(a_node("template", cpu="4", memory="64Gi"), scalars=(("pods", 110),))
    scenario.cloud.has("a", size=size, max_size=largest, template=template)
    scenario.settle()
    return scenario


def slack(scenario: ShrinkScene) -> tuple[int, int, int]:
    """Placeholders: all, those that stand somewhere, those whose nodes are asked for."""
    plan = scenario.records[-1].slack
    assert plan is not None
    placeholders = plan.state.placeholders
    return len(placeholders), sum(each.place is not None for each in placeholders), len(plan.coming)


async def test_slack_alone_requests_nodes_and_keeps_them() -> None:
    scenario = a_scene(0, least=amounts("6", "8Gi"))
    await scenario.pass_time(600)
    assert scenario.sizes() == {"a": 2}
    assert slack(scenario) == (6, 6, 0)
    assert scenario.said("TriggeredScaleUp") == []  # nobody is told about pods that do not exist


async def test_pods_within_the_slack_start_at_once_and_slack_refills() -> None:
    scenario = a_scene(2, least=amounts("4", "4Gi"))
    await scenario.pass_time(30)
    scenario.wants_many(4, cpu="1", tag="burst")
    scenario.settle()
    assert scenario.pending() == 0  # before any loop: no node start on their path
    await scenario.pass_time(300)
    assert slack(scenario)[:2] == (4, 4)
    scenario.wants_many(4, cpu="1", tag="more")
    scenario.settle()
    assert scenario.pending() == 0


async def test_scale_down_never_takes_the_slack() -> None:
    scenario = a_scene(12, least=amounts("8", "8Gi"))
    scenario.runs("web", sorted(scenario._shown)[:6])
    placed = []
    for _ in range(120):
        await scenario.pass_time(10)
        placed.append(slack(scenario)[1])
    assert min(placed) == 8
    assert scenario.sizes() == {"a": 4}  # 6 and 8 of CPU, in nodes of 4
    assert scenario.unhappy() == []


async def test_a_node_whose_room_is_kept_as_slack_says_so_whenever_it_is_asked() -> None:
    """Also while the search for another place is not repeated: what was found last holds."""
    scenario = a_scene(3, least=amounts("10", "10Gi"))
    for _ in range(6):
        await scenario.pass_time(60)
        group = scenario.group_registry.group_status[GroupName("a")].group
        for name in scenario._shown:
            since, waits = scenario.scale_down.held_back(NodeName(name), group, ready=True)
            assert (since, waits[0][0]) == (None, UnremovableReason.SLACK_NEEDED)
    assert scenario.sizes() == {"a": 3}


async def test_real_pods_never_wait_behind_placeholders() -> None:
    scenario = a_scene(1, least=amounts("8", "8Gi"), largest=3)
    scenario.wants_many(3, cpu="4")
    await scenario.pass_time(300)
    assert scenario.pending() == 0  # the group is at its maximum: the pods have all of it
    assert scenario.sizes() == {"a": 3}
    assert slack(scenario) == (8, 0, 0)


async def test_no_more_nodes_for_slack_alone_than_allowed() -> None:
    scenario = a_scene(0, least=amounts("40", "40Gi"), max_nodes=3)
    await scenario.pass_time(300)
    assert scenario.sizes() == {"a": 3}
    plan = scenario.records[-1].slack
    assert plan is not None
    assert plan.alone == 3
    scenario.wants_many(4, cpu="4")
    await scenario.pass_time(300)
    assert (scenario.pending(), scenario.sizes()) == (0, {"a": 7})  # the pods' own nodes are no part of it


async def test_a_restart_keeps_the_slack() -> None:
    scenario = a_scene(4, least=amounts("6", "6Gi"))
    await scenario.pass_time(50)
    scenario.restart()
    await scenario.pass_time(200)
    assert scenario.sizes() == {"a": 2}
    assert slack(scenario)[:2] == (6, 6)


async def test_what_is_asked_for_no_more_goes_and_its_nodes_with_it() -> None:
    scenario = a_scene(3, least=amounts("10", "10Gi"))
    await scenario.pass_time(200)
    assert scenario.sizes() == {"a": 3}
    scenario.slack = installed.SLACK
    await scenario.pass_time(200)
    assert scenario.sizes() == {"a": 0}


async def test_a_pod_on_a_node_requested_for_slack_makes_it_a_node_like_any_other() -> None:
    scenario = a_scene(0, least=amounts("2", "2Gi"), max_nodes=1)
    await scenario.pass_time(100)
    scenario.wants(a_pod("p", cpu="1", memory="1Gi"))
    await scenario.pass_time(100)
    plan = scenario.records[-1].slack
    assert plan is not None
    assert (plan.alone, scenario.sizes()) == (0, {"a": 1})


async def test_placeholders_wait_for_pods_whose_nodes_are_to_come() -> None:
    """Packed as planned, five pods leave room for three of five placeholders on two nodes. Spread, they leave room for all."""
    scenario = a_scene(0, least=amounts("2", "80Gi"))
    scenario.wants_many(5, cpu="1", tag="burst")
    await scenario.pass_time(40)
    assert (scenario.sizes(), slack(scenario)) == ({"a": 2}, (5, 3, 0))
    await scenario.pass_time(260)  # the scheduler of this scene packs pods
    assert (scenario.sizes(), slack(scenario)) == ({"a": 3}, (5, 5, 0))
