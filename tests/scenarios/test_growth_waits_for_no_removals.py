"""Growth is asked for as soon as it is planned, and removals that pods need back are given up at once.

The plan of removals may take its whole `simulationTimeout`; a pod that waits for a node does not wait for it.
"""

import pytest
from msgspec import structs

from slackwater.controllers.scaledown.replica_plan import ScaleDownProposal
from slackwater.ports.clock import Watch
from slackwater.runtime.planner.messages import LoopPlanner
from tests.support.builders import a_node
from tests.support.planners import InlinePlanning, a_feed
from tests.support.shrinking import ShrinkScene

pytestmark = pytest.mark.anyio

#: How long a plan of removals takes here.
SLOW = 30.0
MACHINE = structs.replace(a_node("t", cpu="4"), scalars=(("pods", 110),))


class SlowShrinking(InlinePlanning):
    """Time goes by while removals are planned; or planning them fails."""

    def __init__(self, scenario: "SlowScene") -> None:
        super().__init__(a_feed(scenario.state_machine))
        self._scenario = scenario

    async def scale_down(self, watch: Watch) -> ScaleDownProposal | None:
        if self._scenario.broken:
            raise RuntimeError("no plan of removals")
        self._scenario.sizes_before_shrinking.append(self._scenario.sizes())
        self._scenario.time.seconds += SLOW
        return await super().scale_down(watch)


class SlowScene(ShrinkScene):
    """A cluster whose plans of removals are slow."""

    def __init__(self) -> None:
        self.broken = False
        self.sizes_before_shrinking: list[dict[str, int]] = []
        super().__init__()

    def planning(self) -> LoopPlanner:
        return SlowShrinking(self)


async def test_growth_is_asked_for_before_removals_are_planned() -> None:
    scenario = SlowScene()
    scenario.cloud.has("a", template=MACHINE)
    scenario.wants_many(3)
    await scenario.loop()
    assert [(call.verb, call.to, call.at) for call in scenario.cloud.calls] == [("grow", 3, 0.0)]
    assert scenario.sizes_before_shrinking == [{"a": 3}]
    assert scenario.records[0].scale_down is not None


async def test_removals_that_cannot_be_planned_keep_no_pod_waiting() -> None:
    scenario = SlowScene()
    scenario.broken = True
    scenario.cloud.has("a", template=MACHINE)
    scenario.wants_many(3)
    record = await scenario.loop()
    assert scenario.sizes() == {"a": 3}
    assert record.scale_down is None
    assert record.notes == ("removals were not planned: RuntimeError",)
    assert scenario.autoscaler.counts.errors["internalError"] == 1
    scenario.broken = False
    await scenario.pass_time(120.0)
    assert (scenario.pending(), scenario.sizes()) == (0, {"a": 3})
    assert scenario.records[-1].scale_down is not None
