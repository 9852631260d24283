"""Groups whose nodes differ, in the running service: nothing is bought for a pod that may not fit on what comes, and pods get
nodes in the zone that they need where the cloud spreads the nodes evenly.

The real loop on virtual time. The cloud makes each machine of the type and in the zone that it likes.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec import structs

from slackwater.app.explain.service import ExplainService
from slackwater.app.settings import Settings
from slackwater.app.whatif.question import GroupRegistryView
from slackwater.model.auxiliary import AuxiliaryObjects
from slackwater.model.nodegroups import CLOUD_CHOOSES, EVEN_ZONES, VariantChoice
from slackwater.model.objects import Node, Pod
from slackwater.ports.protocols import Explained
from tests.support.builders import a_node, a_pod
from tests.support.cloud import Machine, Pool
from tests.support.planners import Conversation, KnownAuxiliary, a_feed
from tests.support.scaling import Scenario

pytestmark = pytest.mark.anyio

ZONE, TYPE = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"


def kind(cpu: str, zone: str = "a") -> Node:
    node = a_node("like", cpu=cpu, memory="64Gi", labels={ZONE: zone, TYPE: f"m.{cpu}"})
    return structs.replace(node, scalars=(("pods", 110),))


def spreading(machines: Sequence[Machine]) -> Node:
    """The next node, in the zone with the fewest."""
    zones = Counter({"a": 0, "b": 0, "c": 0})
    zones.update(machine.template.labels[ZONE] for machine in machines if machine.template is not None)
    return kind("4", min(zones, key=lambda zone: (zones[zone], zone)))


def in_turns(*kinds: Node) -> Callable[[Sequence[Machine]], Node]:
    return lambda machines: kinds[len(machines) % len(kinds)]


def full(scenario: Scenario, size: int, choice: VariantChoice, chooses: Callable[[Sequence[Machine]], Node]) -> Pool:
    """A group of full nodes whose provider has no template."""
    pool = scenario.cloud.has("g", template=kind("4"))
    pool.template_known, pool.choice, pool.chooses = False, choice, chooses
    scenario.cloud._ask(pool, size, asked_at=-1000.0)
    scenario.settle()
    nodes = scenario._shown.values()
    scenario.wants(*(a_pod(f"on-{node.name}", on=node.name, cpu=f"{node.allocatable.cpu}m", memory="1Gi") for node in nodes))
    return pool


def needs(name: str, cpu: str = "3", zone: str = "") -> Pod:
    return a_pod(name, cpu=cpu, memory="1Gi", node_selector={ZONE: zone} if zone else {})


def bought(scenario: Scenario) -> int:
    return sum(call.to - call.seen for call in scenario.cloud.calls if call.verb == "grow")


async def test_nothing_is_bought_for_a_pod_that_fits_only_on_some_of_the_types() -> None:
    scenario = Scenario()
    full(scenario, 4, CLOUD_CHOOSES, in_turns(kind("4"), kind("16")))
    scenario.wants(needs("large", cpu="12"))
    await scenario.pass_time(200)
    assert (scenario.pending(), bought(scenario)) == (1, 0)
    assert "the cloud chooses the type: m.16, m.4" in scenario.said("NotTriggerScaleUp")[-1].note


async def test_a_plan_holds_for_every_type_that_may_come() -> None:
    scenario = Scenario()
    full(scenario, 4, CLOUD_CHOOSES, in_turns(kind("4"), kind("16")))
    scenario.wants(*(needs(f"p{number}") for number in range(3)))
    await scenario.pass_time(20)
    assert bought(scenario) == 3, "one each, as if only small ones came"
    await scenario.pass_time(200)
    assert (scenario.pending(), bought(scenario)) == (0, 3)


async def test_pods_get_nodes_in_their_zones_where_the_cloud_spreads_evenly() -> None:
    scenario = Scenario()
    full(scenario, 3, EVEN_ZONES, spreading)
    scenario.wants(*(needs(f"p-{zone}{number}", zone=zone) for zone in "abc" for number in range(2)))
    await scenario.pass_time(200)
    assert (scenario.pending(), bought(scenario)) == (0, 6)
    assert "[{g 3->9" in scenario.said("TriggeredScaleUp")[0].note


async def test_nothing_is_bought_for_a_zone_that_the_cloud_may_not_choose() -> None:
    scenario = Scenario()
    full(scenario, 3, CLOUD_CHOOSES, spreading)
    scenario.wants(needs("bound", zone="c"), needs("free"))
    await scenario.pass_time(200)
    assert (scenario.pending(), bought(scenario)) == (1, 1)
    assert "the cloud chooses the zone: a, b, c" in scenario.said("NotTriggerScaleUp")[-1].note


async def test_a_cloud_that_does_not_spread_evenly_after_all_is_believed_no_longer() -> None:
    scenario = Scenario()
    pool = full(scenario, 6, EVEN_ZONES, spreading)
    pool.chooses = in_turns(kind("4", "a"))
    scenario.wants(*(needs(f"p{number}", zone="c") for number in range(2)))
    await scenario.pass_time(300)
    assert scenario.pending() == 2
    assert bought(scenario) <= 8
    assert "the cloud chooses the zone" in scenario.said("NotTriggerScaleUp")[-1].note


async def explained(scenario: Scenario, what: Explained, name: str) -> dict[str, Any]:
    status = scenario.group_registry.group_status
    explaining = ExplainService(
        scenario.state_machine,
        Conversation(a_feed(scenario.state_machine, KnownAuxiliary(AuxiliaryObjects()))),
        group_registry=lambda: GroupRegistryView(group_status=status),
        settings=Settings,
        held_back=lambda _node, _group: (None, ()),
        clock=scenario.time.clock,
        steady=scenario.time.wall,
    )
    found: dict[str, Any] = json.loads(await explaining(what, "default", name))
    return found


async def test_explanations_say_the_same_as_the_plan() -> None:
    scenario = Scenario()
    full(scenario, 3, EVEN_ZONES, spreading)
    scenario.cloud.pool("g").max_size = 3
    scenario.wants(needs("bound", zone="c"), needs("lost", zone="d"))
    await scenario.loop()
    pod, group = await explained(scenario, "pod", "bound"), await explained(scenario, "group", "g")
    verdicts = {each["group"]: [reason["code"] for reason in each["reasons"]] for each in pod["groups"]}
    assert (verdicts["g (c)"], "node_affinity" in verdicts["g (a)"]) == (["limit"], True)
    assert [remedy["change"] for remedy in pod["remedies"]] == ["raise max of group g from 3 to 4"]
    assert (group["state"], group["object"]) == ("stuck", "group g")
    assert [remedy["change"] for remedy in group["remedies"]] == ["raise max of group g from 3 to 4"]
    assert (await explained(scenario, "node", "g-0000"))["object"] == "node g-0000"
