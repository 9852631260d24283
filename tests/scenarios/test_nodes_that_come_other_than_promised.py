"""Machines that are not what the group promised: at most one purchase is made in vain, and then the pods say why.

The real loop on virtual time. Without a memory of what came, each of these pods buys a machine a minute.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.cluster.nodegroups.status import BackoffPolicy, NodeGroupPolicy
from slackwater.model.effects import Announce
from slackwater.model.objects import Node, Pod, Taint
from slackwater.model.pod_constraints import PodConstraints
from slackwater.model.resources import amounts_of
from tests.support import installed
from tests.support.builders import a_node, a_pod
from tests.support.cloud import Delays, Pool
from tests.support.scaling import Scenario
from tests.support.shrinking import ShrinkScene

pytestmark = pytest.mark.anyio

FPGA = ("x.io/fpga", 1)


def a_template(cpu: str = "4", *scalars: tuple[str, int], labels: dict[str, str] | None = None) -> Node:
    node = a_node("template", cpu=cpu, memory="16Gi", labels=labels)
    return structs.replace(node, scalars=tuple(sorted((*scalars, ("pods", 110)))))


def bought(scenario: Scenario) -> int:
    return sum(call.to - call.seen for call in scenario.cloud.calls if call.verb == "grow")


def wants(cpu: str = "3", scalars: tuple[tuple[str, int], ...] = (), **selected: str) -> Pod:
    plain = a_pod("waits", cpu=cpu, memory="1Gi", node_selector=selected)
    return structs.replace(
        plain, kind=replace(plain.kind, pod_constraints=PodConstraints(scalars=scalars)) if scalars else plain.kind
    )


def full_group(scenario: Scenario, size: int, by_hand: int, change: Callable[[Node], Node]) -> Pool:
    """A group of full nodes, without a template, of which somebody changed the newest by hand."""
    pool = scenario.cloud.has("a", size=size, template=a_template())
    pool.template_known = False
    pool.by_hand = {f"a-{number:04}": change for number in range(size - by_hand, size)}
    scenario.settle()
    nodes = scenario._shown.values()
    scenario.wants(*(a_pod(f"on-{node.name}", on=node.name, cpu=f"{node.allocatable.cpu}m", memory="1Gi") for node in nodes))
    return pool


def larger(node: Node) -> Node:
    return structs.replace(node, allocatable=amounts_of((8000, node.allocatable.memory)))


def labelled(node: Node) -> Node:
    return structs.replace(node, labels={**node.labels, "disk": "ssd"})


def with_fpga(node: Node) -> Node:
    return structs.replace(node, scalars=tuple(sorted((*node.scalars, FPGA))))


@pytest.mark.parametrize(
    ("size", "by_hand", "change", "pod"),
    [(1, 1, larger, wants("6")), (20, 15, labelled, wants(disk="ssd")), (1, 1, with_fpga, wants(scalars=(FPGA,)))],
    ids=["a larger machine", "a label on 15 of 20 nodes", "a device that somebody installed"],
)
async def test_what_somebody_did_by_hand_is_bought_at_most_once(
    size: int, by_hand: int, change: Callable[[Node], Node], pod: Pod
) -> None:
    scenario = Scenario(group_registry=NodeGroupPolicy(provision_seconds=120.0))
    full_group(scenario, size, by_hand, change)
    scenario.wants(pod)
    await scenario.pass_time(600)
    assert (scenario.pending(), bought(scenario)) == (1, 1)
    assert "new nodes came with" in scenario.said("NotTriggerScaleUp")[-1].note


async def test_a_configured_size_is_not_overruled_by_one_larger_machine() -> None:
    scenario = Scenario()
    full_group(scenario, 1, 1, larger).template_known = True
    scenario.wants(wants("6"))
    await scenario.pass_time(100)
    assert bought(scenario) == 0


async def test_pods_get_nodes_though_one_node_of_their_group_is_odd() -> None:
    def odd(node: Node) -> Node:
        return structs.replace(node, labels={**node.labels, "disk": "hdd"}, allocatable=amounts_of((1000, 1 << 30)))

    scenario = Scenario()
    full_group(scenario, 4, 1, odd).template = a_template(labels={"disk": "ssd"})
    scenario.settle()
    scenario.wants(wants(disk="ssd"))
    await scenario.pass_time(100)
    assert (scenario.pending(), bought(scenario)) == (0, 1)


async def test_problems_found_on_most_nodes_do_not_stop_their_group() -> None:
    scenario = Scenario()
    full_group(scenario, 4, 3, lambda node: structs.replace(node, taints=(Taint("kernel-deadlock", "", "NoSchedule"),)))
    scenario.wants(wants())
    await scenario.pass_time(100)
    assert (scenario.pending(), bought(scenario)) == (0, 1)


async def test_a_group_at_zero_remembers_that_its_machines_are_smaller_than_promised() -> None:
    scenario = ShrinkScene(scale_down=replace(installed.SCALE_DOWN, unneeded_time=20.0))
    pool = scenario.cloud.has("a", template=a_template("3920m"))
    pool.promised = a_template("4")
    scenario.wants(wants("4"))
    await scenario.pass_time(300)
    assert (bought(scenario), scenario.sizes()) == (1, {"a": 0})
    notes = [said.note for said in scenario.said_effects if isinstance(said, Announce) and said.reason == "NotTriggerScaleUp"]
    assert "cpu 3920m instead of 4000m" in notes[-1]
    pool.promised = pool.template = a_template("5")
    await scenario.pass_time(100)
    assert scenario.unhappy() == [], "another promise is tried"


@pytest.mark.parametrize("trouble", ["a taint", "no device"])
async def test_what_one_broken_machine_may_explain_is_tried_twice(trouble: str) -> None:
    scenario = Scenario(group_registry=NodeGroupPolicy(provision_seconds=60.0, backoff=BackoffPolicy(initial=30.0)))
    pool = scenario.cloud.has("a", template=a_template("4", FPGA))
    pool.delays = Delays(equipped_after=1e9, untainted_after=1e9)
    if trouble == "a taint":
        pool.startup_taints = (Taint("driver-not-up", "", "NoSchedule"),)
    else:
        pool.boot_outcome = lambda _: "bare"
    scenario.wants(wants(scalars=(FPGA,)))
    await scenario.pass_time(1000)
    assert (scenario.pending(), bought(scenario)) == (1, 2)
    assert "new nodes came with" in scenario.said("NotTriggerScaleUp")[-1].note
