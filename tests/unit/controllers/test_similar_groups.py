"""Zones stay balanced whatever labels nodes carry, as long as these say nothing of their group."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from slackwater.controllers.scaleup.groups import GrowableGroup
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.scaleup.template import template_of
from slackwater.model.objects import Node
from tests.support import installed
from tests.support.builders import a_pod
from tests.support.scalingup import a_group, a_template, grown, planned

ZONE = "topology.kubernetes.io/zone"
BALANCED = {"a": 2, "b": 2, "c": 2}

#: The value of a label on a node, by zone and by the node's number in its zone.
Value = Callable[[str, int], str]


def groups(n_nodes: int, **labels: Value) -> list[GrowableGroup]:
    """One group for each of three zones, with full nodes of 4 CPU."""
    return [one_group(zone, [a_machine(zone, number, labels) for number in range(n_nodes)]) for zone in "abc"]


def a_machine(zone: str, number: int, labels: dict[str, Value]) -> Node:
    own = {f"example.com/{key}": value(zone, number) for key, value in labels.items()}
    return a_template(f"{zone}{number}", labels={ZONE: zone, **own})


def one_group(name: str, nodes: list[Node]) -> GrowableGroup:
    plain = a_group(name, size=len(nodes))
    return replace(plain, template=template_of(plain.group, nodes, pods_on=lambda _: ()))


def sizes(found: list[GrowableGroup], policy: ScaleUpPolicy | None = None) -> dict[str, int]:
    """What 24 pods of which four fill a node would add; the nodes that are there stand aside."""
    return grown(planned([a_pod(f"p{number}", cpu="1") for number in range(24)], found, policy=policy))


@pytest.mark.parametrize("n_nodes", [1, 2, 5])
@pytest.mark.parametrize(
    "value",
    [
        lambda zone, number: f"machine-{zone}{number}",
        lambda zone, number: "" if number else zone,
        lambda zone, _: zone,
        lambda zone, _: f"subnet-{zone}",
        lambda zone, _: {"a": "kernel-5", "b": "kernel-5", "c": "kernel-6"}[zone],
    ],
    ids=["each node's own", "on the first nodes alone", "the group's name", "each group's own", "some groups' own"],
)
def test_labels_that_do_not_describe_the_group_do_not_end_balancing(n_nodes: int, value: Value) -> None:
    assert sizes(groups(n_nodes, id=value)) == BALANCED


def test_a_label_that_differs_from_node_to_node_does_not_count_on_a_lone_node_either() -> None:
    found = groups(4, rack=lambda zone, number: f"{zone}{number}")
    found[0] = one_group("a", [a_machine("a", 0, {"rack": lambda zone, number: f"{zone}{number}"})])
    found[0] = replace(found[0], group=replace(found[0].group, target=4))
    assert sizes(found) == BALANCED


PAID = [
    ("karpenter.sh/capacity-type", "spot", "on-demand"),
    ("eks.amazonaws.com/capacityType", "SPOT", "ON_DEMAND"),
    ("cloud.google.com/gke-spot", "true", None),
    ("cloud.google.com/gke-provisioning", "spot", "standard"),
    ("kubernetes.azure.com/scalesetpriority", "spot", None),
    ("node.kubernetes.io/instance-type", "m5.large", "m6i.large"),
]


@pytest.mark.parametrize("n_nodes", [1, 3])
@pytest.mark.parametrize(("key", "one", "other"), PAID, ids=[key for key, _, _ in PAID])
def test_groups_that_are_paid_for_differently_are_not_balanced(key: str, one: str, other: str | None, n_nodes: int) -> None:
    values = {"spot": one, "on-demand": other}
    found = [
        one_group(
            name, [a_template(f"{name}{number}", labels={} if value is None else {key: value}) for number in range(n_nodes)]
        )
        for name, value in values.items()
    ]
    assert len(sizes(found)) == 1
    assert len(sizes(found, replace(installed.SCALE_UP, balancing_ignored_labels=(key,)))) == 2
