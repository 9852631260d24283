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
    scene = ShrinkScene(shrink=ScaleDownPolicy(unneeded_seconds=60.0))
    rule = SlackRule(name="cluster", least=least, granularity=4, sizing="v1")
    scene.slack = SlackPolicy(rules=(rule,), max_nodes=max_nodes, shrink_seconds=60.0)
    template = replace(a_node("template", cpu="4", memory="64Gi"), scalars=(("pods", 110),))
    scene.cloud.has("a", size=size, max_size=largest, template=template)
    scene.settle()
    return scene


def slack(scene: ShrinkScene) -> tuple[int, int, int]:
    """Placeholders: all, those that stand somewhere, those whose nodes are asked for."""
    plan = scene.records[-1].slack
    assert plan is not None
    placeholders = plan.state.placeholders
    return len(placeholders), sum(each.place is not None for each in placeholders), len(plan.coming)


async def test_slack_alone_buys_nodes_and_keeps_them() -> None:
    scene = a_scene(0, least=amounts("6", "8Gi"))
    await scene.pass_time(600)
    assert scene.sizes() == {"a": 2}
    assert slack(scene) == (6, 6, 0)
    assert scene.said("TriggeredScaleUp") == []  # nobody is told about pods that do not exist


async def test_pods_within_the_slack_start_at_once_and_slack_refills() -> None:
    scene = a_scene(2, least=amounts("4", "4Gi"))
    await scene.pass_time(30)
    scene.wants_many(4, cpu="1", tag="burst")
    scene.settle()
    assert scene.pending() == 0  # before any loop: no node start on their path
    await scene.pass_time(300)
    assert slack(scene)[:2] == (4, 4)
    scene.wants_many(4, cpu="1", tag="more")
    scene.settle()
    assert scene.pending() == 0


async def test_scale_down_never_eats_the_slack() -> None:
    scene = a_scene(12, least=amounts("8", "8Gi"))
    scene.runs("web", sorted(scene._shown)[:6])
    placed = []
    for _ in range(120):
        await scene.pass_time(10)
        placed.append(slack(scene)[1])
    assert min(placed) == 8
    assert scene.sizes() == {"a": 4}  # 6 and 8 of CPU, in nodes of 4
    assert scene.unhappy() == []


async def test_real_pods_never_wait_behind_placeholders() -> None:
    scene = a_scene(1, least=amounts("8", "8Gi"), largest=3)
    scene.wants_many(3, cpu="4")
    await scene.pass_time(300)
    assert scene.pending() == 0  # the group is at its maximum: the pods have all of it
    assert scene.sizes() == {"a": 3}
    assert slack(scene) == (8, 0, 0)


async def test_no_more_nodes_for_slack_alone_than_allowed() -> None:
    scene = a_scene(0, least=amounts("40", "40Gi"), max_nodes=3)
    await scene.pass_time(300)
    assert scene.sizes() == {"a": 3}
    plan = scene.records[-1].slack
    assert plan is not None
    assert plan.alone == 3
    scene.wants_many(4, cpu="4")
    await scene.pass_time(300)
    assert (scene.pending(), scene.sizes()) == (0, {"a": 7})  # the pods' own nodes are no part of it


async def test_a_restart_keeps_the_slack() -> None:
    scene = a_scene(4, least=amounts("6", "6Gi"))
    await scene.pass_time(50)
    scene.restart()
    await scene.pass_time(200)
    assert scene.sizes() == {"a": 2}
    assert slack(scene)[:2] == (6, 6)


async def test_what_is_asked_for_no_more_goes_and_its_nodes_with_it() -> None:
    scene = a_scene(3, least=amounts("10", "10Gi"))
    await scene.pass_time(200)
    assert scene.sizes() == {"a": 3}
    scene.slack = SlackPolicy()
    await scene.pass_time(200)
    assert scene.sizes() == {"a": 0}


async def test_a_pod_on_a_node_bought_for_slack_makes_it_a_node_like_any_other() -> None:
    scene = a_scene(0, least=amounts("2", "2Gi"), max_nodes=1)
    await scene.pass_time(100)
    scene.wants(a_pod("p", cpu="1", memory="1Gi"))
    await scene.pass_time(100)
    plan = scene.records[-1].slack
    assert plan is not None
    assert (plan.alone, scene.sizes()) == (0, {"a": 1})
