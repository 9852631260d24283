"""The real loop with disruption budgets, on virtual time: nothing goes in a window, then it goes, never more than allowed."""

from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.controllers.scaledown.policy import GroupPolicy
from slackwater.model.disruption_budgets import NodeDisruptionBudget
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import GroupName
from slackwater.runtime.autoscaler.status_document import record_document
from tests.support import installed
from tests.support.builders import a_node
from tests.support.shrinking import ShrinkScene

pytestmark = pytest.mark.anyio


class Scene(ShrinkScene):
    """Groups of 4-CPU nodes; it begins on a Thursday at 02:00 in Berlin. Notes how many nodes of each group were in removal."""

    def __init__(self, *budgets: NodeDisruptionBudget, own: dict[str, tuple[NodeDisruptionBudget, ...]] | None = None) -> None:
        groups = {GroupName(name): GroupPolicy(disruption_budgets=each) for name, each in (own or {}).items()}
        super().__init__(
            scale_down=replace(installed.SCALE_DOWN, unneeded_time=30.0, disruption_budgets=budgets, groups=groups)
        )
        self.most: dict[str, int] = {}

    def has(self, group: str, size: int) -> list[str]:
        template = structs.replace(a_node("template", cpu="4", memory="64Gi"), scalars=(("pods", 110),))
        self.cloud.has(group, size=size, template=template)
        self.settle()
        return sorted(name for name in self._shown if name.startswith(f"{group}-"))

    def _watch(self) -> None:
        super()._watch()
        for name in self.cloud.pool_names():
            count = sum(node in self._shown and node.startswith(f"{name}-") for node in self.state_machine.drains.nodes)
            self.most[name] = max(self.most.get(name, 0), count)

    def held(self, node: str) -> dict[str, str]:
        """What `explain node` says of it."""
        group = self.group_registry.group_status[GroupName(node[0])].group
        found = self.scale_down.held_back(NodeName(node), group, ready=True)[1]
        return {str(reason): text for reason, text in found}


NIGHT = NodeDisruptionBudget(nodes=0, schedule="0 2 * * *", duration=600.0, time_zone="Europe/Berlin")


async def test_in_a_maintenance_window_nothing_goes_and_after_it_everything_does() -> None:
    scene = Scene(NIGHT)
    nodes = scene.has("a", 4)
    scene.runs("web", nodes[:1])
    await scene.pass_time(590)
    assert (scene.sizes(), scene.watched.evicted) == ({"a": 4}, 0)
    held = scene.held(nodes[3])
    assert list(held) == ["DisruptionBudgetReached"]
    assert "at most 0 may be until 2026-01-01T02:10+01:00" in held["DisruptionBudgetReached"]
    document = record_document(scene.records[-1])["scaleDown"]
    assert (document["status"], list(document["overBudget"])) == ("throttled", ["a"])
    await scene.pass_time(120)
    assert scene.sizes() == {"a": 1}
    assert record_document(scene.records[-1])["scaleDown"]["overBudget"] == {}


async def test_each_group_has_its_own_count_and_a_group_may_have_its_own_budgets() -> None:
    scene = Scene(NodeDisruptionBudget(nodes="20%"), own={"b": (NodeDisruptionBudget(nodes=3),), "c": ()})
    for name, size in (("a", 6), ("b", 6), ("c", 4)):
        scene.has(name, size)
    await scene.pass_time(400)
    assert scene.sizes() == {"a": 0, "b": 0, "c": 0}
    assert scene.most == {"a": 2, "b": 3, "c": 4}


async def test_a_restart_counts_the_removals_that_go_on() -> None:
    scene = Scene(NodeDisruptionBudget(nodes=1))
    nodes = scene.has("a", 4)
    scene.runs("web", nodes)
    while not scene.state_machine.drains.nodes:
        await scene.pass_time(10)
    scene.restart()
    await scene.pass_time(400)
    assert (scene.sizes(), scene.most, scene.unhappy()) == ({"a": 1}, {"a": 1}, [])
