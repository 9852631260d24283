"""Whoever makes the plans, the loop does the same: a thread on values as they are, or another process on copies of them."""

from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.model.resources import NOTHING
from slackwater.runtime.autoscaler.loop_record import LoopDurations, LoopRecord
from slackwater.runtime.planner.messages import LoopPlanner
from tests.support import installed
from tests.support.builders import a_node
from tests.support.planners import Conversation, a_feed
from tests.support.shrinking import ShrinkScene

pytestmark = pytest.mark.anyio


class Elsewhere(ShrinkScene):
    def planning(self) -> LoopPlanner:
        self.conversation = Conversation(a_feed(self.state_machine))
        return self.conversation


async def played(scenario: ShrinkScene) -> list[LoopRecord]:
    """Growth for many pods, slack beside them, removals when most have ended, and pods that need the room again."""
    rule = replace(installed.SLACK_RULE, name="cluster", min_rate=200_000, min=NOTHING, granularity=2, sizing="v2")
    scenario.slack = replace(installed.SLACK, rules=(rule,))
    template = structs.replace(a_node("template", cpu="4", memory="64Gi"), scalars=(("pods", 110),))
    scenario.cloud.has("a", template=template)
    scenario.cloud.has("b", template=template)
    scenario.wants_many(90, cpu="1")
    scenario.wants_many(3, cpu="400", tag="huge")
    await scenario.loop()
    await scenario.pass_time(200.0)
    scenario.finishes([uid for uid in scenario.pods if not uid.endswith(("0", "5"))])
    await scenario.pass_time(300.0)
    scenario.wants_many(20, cpu="2", tag="late", priority=5)
    await scenario.pass_time(200.0)
    return [without_times(record) for record in scenario.records]


def without_times(record: LoopRecord) -> LoopRecord:
    """Nor the node groups' status, in which the builders number their objects; it is sensed, not planned."""
    scale_down = None if record.scale_down is None else replace(record.scale_down, seconds=0.0)
    return replace(record, spent=LoopDurations(), scale_down=scale_down, group_status={})


def a_scene(kind: type[ShrinkScene]) -> ShrinkScene:
    return kind(scale_down=replace(installed.SCALE_DOWN, unneeded_time=60.0), limits=replace(installed.DRAIN, settle_time=10.0))


async def test_the_loop_does_the_same_in_whichever_process_plans_are_made() -> None:
    here, elsewhere = a_scene(ShrinkScene), a_scene(Elsewhere)
    want = await played(here)
    got = await played(elsewhere)
    for number, (mine, theirs) in enumerate(zip(want, got, strict=True)):
        assert theirs == mine, number
    assert elsewhere.said_effects == here.said_effects
    assert (elsewhere.sizes(), elsewhere.pods.keys()) == (here.sizes(), here.pods.keys())


async def test_the_input_has_growth_slack_removals_and_unhelpable_pods() -> None:
    """Without them the test above would say little."""
    scenario = a_scene(ShrinkScene)
    records = await played(scenario)
    assert any(record.asked for record in records)
    assert any(record.slack is not None and record.slack.state.placeholders for record in records)
    assert any(record.scale_down is not None and record.scale_down.begun for record in records)
    assert any(record.pending.unhelpable for record in records)
    assert {words.reason for words in scenario.said_effects if hasattr(words, "reason")} >= {
        "NotTriggerScaleUp",
        "ScaleDown",
    }
