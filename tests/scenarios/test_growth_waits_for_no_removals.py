"""Growth is asked for as soon as it is planned, and removals that pods need back are given up at once.

The plan of removals may take its whole `simulationTimeout`; a pod that waits for a node does not wait for it.
"""

from dataclasses import replace

import pytest

from slackwater.runtime.autoscaler.clocks import Watch
from slackwater.runtime.autoscaler.planning import PlanMaker, Planning
from slackwater.runtime.autoscaler.planning_thread import ThreadPlanning
from slackwater.runtime.autoscaler.scaledown_planning import ShrinkPlan
from slackwater.runtime.autoscaler.scaleup_planning import GrowthPlanner
from tests.support.builders import a_node
from tests.support.shrinking import ShrinkScene

pytestmark = pytest.mark.anyio

#: How long a plan of removals takes here.
SLOW = 30.0
MACHINE = replace(a_node("t", cpu="4"), scalars=(("pods", 110),))


class SlowShrinking(ThreadPlanning):
    """Time goes by while removals are planned; or planning them fails."""

    def __init__(self, scene: "SlowScene") -> None:
        super().__init__(PlanMaker(GrowthPlanner()), timeout_seconds=60)
        self._scene = scene

    async def shrink(self, watch: Watch) -> ShrinkPlan | None:
        if self._scene.broken:
            raise RuntimeError("no plan of removals")
        self._scene.sizes_before_shrinking.append(self._scene.sizes())
        self._scene.time.seconds += SLOW
        return await super().shrink(watch)


class SlowScene(ShrinkScene):
    """A cluster whose plans of removals are slow."""

    def __init__(self) -> None:
        self.broken = False
        self.sizes_before_shrinking: list[dict[str, int]] = []
        super().__init__()

    def planning(self) -> Planning:
        return SlowShrinking(self)


async def test_growth_is_asked_for_before_removals_are_planned() -> None:
    scene = SlowScene()
    scene.cloud.has("a", template=MACHINE)
    scene.wants_many(3)
    await scene.loop()
    assert [(call.verb, call.to, call.at) for call in scene.cloud.calls] == [("grow", 3, 0.0)]
    assert scene.sizes_before_shrinking == [{"a": 3}]
    assert scene.records[0].shrink is not None


async def test_removals_that_cannot_be_planned_keep_no_pod_waiting() -> None:
    scene = SlowScene()
    scene.broken = True
    scene.cloud.has("a", template=MACHINE)
    scene.wants_many(3)
    record = await scene.loop()
    assert scene.sizes() == {"a": 3}
    assert record.shrink is None
    assert record.notes == ("removals were not planned: RuntimeError",)
    assert scene.autoscaler.counts.errors["internalError"] == 1
    scene.broken = False
    await scene.pass_time(120.0)
    assert (scene.pending(), scene.sizes()) == (0, {"a": 3})
    assert scene.records[-1].shrink is not None
