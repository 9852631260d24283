"""A group with a minimum whose machines fail once gets healthy again: it grows, then the dead go, and no healthy node does."""

import pytest
from msgspec import structs

from tests.support.builders import a_node
from tests.support.cloud import BROKEN, MachineOutcome
from tests.support.shrinking import ShrinkScene

pytestmark = pytest.mark.anyio


def a_pool(*, healthy: int, dead: int, boot_outcome: MachineOutcome, least: int, most: int) -> ShrinkScene:
    scenario = ShrinkScene()
    template = structs.replace(a_node("template", cpu="4", memory="64Gi"), scalars=(("pods", 110),))
    pool = scenario.cloud.has("a", size=healthy + dead, min_size=least, max_size=most, template=template)
    for machine in pool.machines[healthy:]:
        machine.boot_outcome, machine.error = boot_outcome, BROKEN if boot_outcome == "failed" else None
    scenario.settle()
    return scenario


def ready(scenario: ShrinkScene) -> int:
    return sum(node.ready for node in scenario.cloud.nodes())


@pytest.mark.parametrize("boot_outcome", ["failed", "silent", "unready"])
@pytest.mark.parametrize(
    ("healthy", "dead", "least", "most"), [(1, 4, 3, 10), (2, 1, 3, 3), (0, 3, 3, 5), (2, 2, 4, 4)], ids=str
)
async def test_machines_that_failed_are_replaced_and_no_healthy_node_goes(
    boot_outcome: MachineOutcome, healthy: int, dead: int, least: int, most: int
) -> None:
    scenario = a_pool(healthy=healthy, dead=dead, boot_outcome=boot_outcome, least=least, most=most)
    fewest = ready(scenario)
    for _ in range(30):
        await scenario.pass_time(120, every=120)
        fewest = min(fewest, ready(scenario))
    assert (fewest, ready(scenario), scenario.sizes()) == (healthy, least, {"a": least})
    assert scenario.trace.most_nodes <= most
    assert [record.problems for record in scenario.records if record.problems] == []


async def test_machines_that_keep_failing_are_not_bought_without_end() -> None:
    scenario = a_pool(healthy=2, dead=1, boot_outcome="failed", least=3, most=3)
    scenario.cloud.pool("a").boot_outcome = lambda _: "failed"
    await scenario.pass_time(7200, every=60)
    assert (ready(scenario), scenario.sizes()) == (2, {"a": 3})
    assert scenario.cloud.pool("a").asked - 3 <= 7  # the back-off: 5, 10, 20, 30, 30 minutes


async def test_one_machine_that_cannot_go_does_not_keep_the_others() -> None:
    scenario = a_pool(healthy=1, dead=3, boot_outcome="failed", least=0, most=10)
    scenario.cloud.refuse("other", times=2)  # the call for all three, and that for the first alone
    await scenario.loop()
    assert scenario.sizes() == {"a": 2}
    assert len(scenario.records[-1].problems) == 1
