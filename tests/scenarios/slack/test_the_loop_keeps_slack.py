"""The real loop over a cloud on virtual time: pods within the slack never wait for a node, slack refills, nothing eats it."""

from dataclasses import replace

import pytest

from slackwater.controllers.scaledown.policy import ScaleDownPolicy
from slackwater.controllers.slack.rule import SlackPolicy, SlackRule
from slackwater.model.resources import Amounts
from tests.support.builders import a_node, a_pod, amounts
from tests.support.shrinking import ShrinkScene

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def a_scene(size: int, *, least: Amounts, max_nodes: int = 0, largest: int = 1000) -> ShrinkScene:
    planning_input = ShrinkScene(scale_down=ScaleDownPolicy(unneeded_seconds=60.0))
    rule = SlackRule(name="cluster", least=least, granularity=4, sizing="v1")
    planning_input.slack = SlackPolicy(rules=(rule,), max_nodes=max_nodes, shrink_seconds=60.0)
    template = replace(a_node("template", cpu="4", memory="64Gi"), scalars=(("pods", 110),))
    planning_input.cloud.has("a", size=size, max_size=largest, template=template)
    planning_input.settle()
    return planning_input


def slack(planning_input: ShrinkScene) -> tuple[int, int, int]:
    """Placeholders: all, those that stand somewhere, those whose nodes are asked for."""
    plan = planning_input.records[-1].slack
    assert plan is not None
    placeholders = plan.state.placeholders
    return len(placeholders), sum(each.place is not None for each in placeholders), len(plan.coming)


async def test_slack_alone_buys_nodes_and_keeps_them() -> None:
    planning_input = a_scene(0, least=amounts("6", "8Gi"))
    await planning_input.pass_time(600)
    assert planning_input.sizes() == {"a": 2}
    assert slack(planning_input) == (6, 6, 0)
    assert planning_input.said("TriggeredScaleUp") == []  # nobody is told about pods that do not exist


async def test_pods_within_the_slack_start_at_once_and_slack_refills() -> None:
    planning_input = a_scene(2, least=amounts("4", "4Gi"))
    await planning_input.pass_time(30)
    planning_input.wants_many(4, cpu="1", tag="burst")
    planning_input.settle()
    assert planning_input.pending() == 0  # before any loop: no node start on their path
    await planning_input.pass_time(300)
    assert slack(planning_input)[:2] == (4, 4)
    planning_input.wants_many(4, cpu="1", tag="more")
    planning_input.settle()
    assert planning_input.pending() == 0


async def test_scale_down_never_eats_the_slack() -> None:
    planning_input = a_scene(12, least=amounts("8", "8Gi"))
    planning_input.runs("web", sorted(planning_input._shown)[:6])
    placed = []
    for _ in range(120):
        await planning_input.pass_time(10)
        placed.append(slack(planning_input)[1])
    assert min(placed) == 8
    assert planning_input.sizes() == {"a": 4}  # 6 and 8 of CPU, in nodes of 4
    assert planning_input.unhappy() == []


async def test_real_pods_never_wait_behind_placeholders() -> None:
    planning_input = a_scene(1, least=amounts("8", "8Gi"), largest=3)
    planning_input.wants_many(3, cpu="4")
    await planning_input.pass_time(300)
    assert planning_input.pending() == 0  # the group is at its maximum: the pods have all of it
    assert planning_input.sizes() == {"a": 3}
    assert slack(planning_input) == (8, 0, 0)


async def test_no_more_nodes_for_slack_alone_than_allowed() -> None:
    planning_input = a_scene(0, least=amounts("40", "40Gi"), max_nodes=3)
    await planning_input.pass_time(300)
    assert planning_input.sizes() == {"a": 3}
    plan = planning_input.records[-1].slack
    assert plan is not None
    assert plan.alone == 3
    planning_input.wants_many(4, cpu="4")
    await planning_input.pass_time(300)
    assert (planning_input.pending(), planning_input.sizes()) == (0, {"a": 7})  # the pods' own nodes are no part of it


async def test_a_restart_keeps_the_slack() -> None:
    planning_input = a_scene(4, least=amounts("6", "6Gi"))
    await planning_input.pass_time(50)
    planning_input.restart()
    await planning_input.pass_time(200)
    assert planning_input.sizes() == {"a": 2}
    assert slack(planning_input)[:2] == (6, 6)


async def test_what_is_asked_for_no_more_goes_and_its_nodes_with_it() -> None:
    planning_input = a_scene(3, least=amounts("10", "10Gi"))
    await planning_input.pass_time(200)
    assert planning_input.sizes() == {"a": 3}
    planning_input.slack = SlackPolicy()
    await planning_input.pass_time(200)
    assert planning_input.sizes() == {"a": 0}


async def test_a_pod_on_a_node_bought_for_slack_makes_it_a_node_like_any_other() -> None:
    planning_input = a_scene(0, least=amounts("2", "2Gi"), max_nodes=1)
    await planning_input.pass_time(100)
    planning_input.wants(a_pod("p", cpu="1", memory="1Gi"))
    await planning_input.pass_time(100)
    plan = planning_input.records[-1].slack
    assert plan is not None
    assert (plan.alone, planning_input.sizes()) == (0, {"a": 1})
