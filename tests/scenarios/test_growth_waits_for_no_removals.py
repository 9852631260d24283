"""Growth is asked for as soon as it is planned, and removals that pods need back are given up at once.

The plan of removals may take its whole `simulationTimeout`; a pod that waits for a node does not wait for it.
"""

from dataclasses import replace

import pytest

from slackwater.runtime.autoscaler.clocks import Watch
from slackwater.runtime.autoscaler.planning import PlanMaker, Planning
from slackwater.runtime.autoscaler.planning_thread import ThreadPlanning
from slackwater.runtime.autoscaler.scaledown_planning import ScaleDownProposal
from slackwater.runtime.autoscaler.scaleup_planning import ReplicaScaleUpPlanner
from tests.support.builders import a_node
from tests.support.shrinking import ShrinkScene

pytestmark = pytest.mark.anyio

#: How long a plan of removals takes here.
SLOW = 30.0
MACHINE = replace(a_node("t", cpu="4"), scalars=(("pods", 110),))


class SlowShrinking(ThreadPlanning):
    """Time goes by while removals are planned; or planning them fails."""

    def __init__(self, planning_input: "SlowScene") -> None:
        super().__init__(PlanMaker(ReplicaScaleUpPlanner()), timeout_seconds=60)
        self._planning_input = planning_input

    async def scale_down(self, watch: Watch) -> ScaleDownProposal | None:
        if self._planning_input.broken:
            raise RuntimeError("no plan of removals")
        self._planning_input.sizes_before_shrinking.append(self._planning_input.sizes())
        self._planning_input.time.seconds += SLOW
        return await super().scale_down(watch)


class SlowScene(ShrinkScene):
    """A cluster whose plans of removals are slow."""

    def __init__(self) -> None:
        self.broken = False
        self.sizes_before_shrinking: list[dict[str, int]] = []
        super().__init__()

    def planning(self) -> Planning:
        return SlowShrinking(self)


async def test_growth_is_asked_for_before_removals_are_planned() -> None:
    planning_input = SlowScene()
    planning_input.cloud.has("a", template=MACHINE)
    planning_input.wants_many(3)
    await planning_input.loop()
    assert [(call.verb, call.to, call.at) for call in planning_input.cloud.calls] == [("grow", 3, 0.0)]
    assert planning_input.sizes_before_shrinking == [{"a": 3}]
    assert planning_input.records[0].scale_down is not None


async def test_removals_that_cannot_be_planned_keep_no_pod_waiting() -> None:
    planning_input = SlowScene()
    planning_input.broken = True
    planning_input.cloud.has("a", template=MACHINE)
    planning_input.wants_many(3)
    record = await planning_input.loop()
    assert planning_input.sizes() == {"a": 3}
    assert record.scale_down is None
    assert record.notes == ("removals were not planned: RuntimeError",)
    assert planning_input.autoscaler.counts.errors["internalError"] == 1
    planning_input.broken = False
    await planning_input.pass_time(120.0)
    assert (planning_input.pending(), planning_input.sizes()) == (0, {"a": 3})
    assert planning_input.records[-1].scale_down is not None
