"""A provider that deletes nothing: hardly a pod is evicted in vain, and removals go on when it deletes again."""

from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.model.ids import NodeName
from tests.support import installed
from tests.support.builders import a_node
from tests.support.cloud import Pool
from tests.support.shrinking import ShrinkScene

pytestmark = pytest.mark.anyio


def a_scene(*, empty: int = 0) -> tuple[ShrinkScene, Pool]:
    """Six nodes with four small pods each, and empty ones."""
    scenario = ShrinkScene(scale_down=replace(installed.SCALE_DOWN, unneeded_time=60.0))
    template = structs.replace(a_node("template", cpu="4", memory="64Gi"), scalars=(("pods", 110),))
    pool = scenario.cloud.has("a", size=6 + empty, template=template)
    scenario.settle()
    for number in range(4):
        scenario.runs(f"web-{number}", sorted(scenario._shown)[:6], cpu="200m")
    return scenario, pool


async def test_refused_deletions_back_off_and_evict_hardly_a_pod() -> None:
    scenario, pool = a_scene(empty=2)
    pool.undeletable, pool.reports = "locked by its owner", False
    await scenario.pass_time(2000, every=60)
    assert scenario.watched.evicted <= 6 * 4  # at most five drains began before the first answer, and one after it
    assert len({(end.order.node, end.order.stamp) for end in scenario.watched.ended}) <= 20
    assert sum(call.verb == "delete" for call in scenario.cloud.calls) <= 5
    record = scenario.records[-1].scale_down
    assert record is not None
    assert "a deletion was refused" in record.cooling[pool.name]
    pool.undeletable = ""
    await scenario.pass_time(1000, every=60)
    assert (scenario.sizes()["a"], scenario.unhappy()) == (2, [])


async def test_where_the_provider_says_so_in_advance_nothing_is_touched() -> None:
    scenario, pool = a_scene(empty=2)
    pool.undeletable = "it rolls out"
    await scenario.pass_time(300, every=60)
    assert (scenario.watched.evicted, scenario.cloud.calls, scenario.watched.ended) == (0, [], [])
    group = scenario.group_registry.group_status[pool.name].group
    held = scenario.scale_down.held_back(NodeName("a-0007"), group, ready=True)[1]
    assert ("ScaleDownInCooldown", "a: it rolls out") in held
    pool.undeletable = ""
    await scenario.pass_time(90, every=30)
    assert scenario.sizes()["a"] < 8
