"""Growth is asked for as soon as it is planned, and removals that pods need back are given up at once.

The plan of removals may take its whole `simulationTimeout`; a pod that waits for a node does not wait for it, nor for the plan
of a consolidation, which takes longest.
"""

from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.controllers.consolidation.outcome import ConsolidationPlan
from slackwater.controllers.scaledown.replica_plan import ScaleDownProposal
from slackwater.controllers.scaleup.outcome import PlanFailure
from slackwater.ports.clock import Watch
from slackwater.runtime.planner.messages import LoopPlanner
from tests.support.builders import a_node
from tests.support.planners import InlinePlanning, a_feed
from tests.support.replacing import EAGER, ConsolidationScene
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


class SlowConsolidation(InlinePlanning):
    """A consolidation plan arrives `SLOW` seconds after it was begun."""

    def __init__(self, scene: "LateScene") -> None:
        super().__init__(a_feed(scene.state_machine))
        self._scene, self._begun_at, self._made = scene, 0.0, list[ConsolidationPlan | PlanFailure | None]()

    async def scale_down(self, watch: Watch) -> ScaleDownProposal | None:
        found = await super().scale_down(watch)
        if found is not None and found.consolidates:
            self._begun_at, self._made = self._scene.time.seconds, [await super().consolidation(watch)]
        return found

    @property
    def consolidates(self) -> bool:
        return bool(self._made)

    async def consolidation(self, watch: Watch) -> ConsolidationPlan | PlanFailure | None:
        late = self._scene.time.seconds - self._begun_at >= SLOW
        return self._made.pop() if self._made and late else None


class LateScene(ConsolidationScene):
    """Three large nodes, each for six pods that a small node holds; consolidation plans are slow."""

    def __init__(self) -> None:
        super().__init__(rules=replace(EAGER, planned_time=0.0, min_node_age=0.0))
        self.machines("large", 32, size=3)
        self.machines("small", 16)
        self.settle()
        for node in sorted(self.shown_nodes()):
            self.runs(f"web-{node}", [node] * 6, cpu="2")

    def planning(self) -> LoopPlanner:
        return SlowConsolidation(self)

    async def planned(self) -> None:
        """Until a consolidation plan is being made."""
        while not self.autoscaler._planning.consolidates:
            await self.loop()
            self.time.seconds += 10.0

    def began(self) -> int:
        return sum(record.consolidation.began for record in self.records if record.consolidation is not None)


async def test_growth_is_asked_for_while_a_consolidation_is_planned() -> None:
    scene = LateScene()
    await scene.planned()
    scene.wants_many(9, cpu="14")
    await scene.loop()
    asked = [call for call in scene.cloud.calls if call.verb == "grow"]
    assert [call.at for call in asked] == [scene.time.seconds]
    assert scene.autoscaler._planning.consolidates


@pytest.mark.parametrize("pods", [0, 9])
async def test_a_consolidation_planned_before_pods_came_that_need_nodes_begins_nothing(pods: int) -> None:
    scene = LateScene()
    await scene.planned()
    scene.time.seconds += SLOW
    scene.wants_many(pods, cpu="14")
    await scene.loop()
    assert not scene.autoscaler._planning.consolidates
    assert bool(scene.began()) is not bool(pods)
