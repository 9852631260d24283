"""Both sides of the comparison with Karpenter get the same, and a bill is the sum of the nodes' prices."""

import pytest

from slackwater.app.settings import loads
from tests.bench.contenders import HEADER
from tests.bench.karpenter.inputs import (
    PRICES,
    VARIANTS,
    WORKLOADS,
    bill,
    deployments,
    instance_types,
    node_groups,
    types_up_to,
)
from tests.support.builders import amounts


def a_node(kind: str) -> dict[str, object]:
    return {"metadata": {"labels": {"node.kubernetes.io/instance-type": kind}}}


def test_a_bill_is_the_sum_of_the_prices_of_the_nodes() -> None:
    micros, types = bill([a_node("c-2x"), a_node("s-4x"), a_node("c-2x")], {"c-2x": 54_000, "s-4x": 117_000})
    assert (micros, types) == (225_000, {"c-2x": 2, "s-4x": 1})


def test_a_node_of_an_unknown_type_is_no_gift() -> None:
    with pytest.raises(KeyError):
        bill([a_node("x-1x")], PRICES)


def test_both_sides_have_the_same_types_rooms_and_prices() -> None:
    """Karpenter's kwok provider takes 100m and 10Mi off the capacity."""
    groups = node_groups(VARIANTS)
    for theirs, ours in zip(instance_types(VARIANTS), groups, strict=True):
        [offering] = theirs["offerings"]
        assert (theirs["name"], f"{offering['Price']:.6f}") == (ours["name"], ours["price"])
        capacity, allocatable = theirs["resources"], ours["template"]["status"]["allocatable"]
        reserved = amounts(capacity["cpu"], capacity["memory"]).minus(amounts(allocatable["cpu"], allocatable["memory"]))
        assert reserved == amounts("100m", "10Mi")
        assert capacity["pods"] == allocatable["pods"]
    assert [each.name for each in types_up_to(2)] == ["c-2x", "s-2x", "m-2x"]
    assert types_up_to(256) == VARIANTS
    assert len(loads(HEADER + f"autoscaler: {{nodeGroups: {groups}}}").autoscaler.node_groups) == len(VARIANTS) == 33


def test_deployments_have_as_many_pods_as_asked() -> None:
    counts = [each["spec"]["replicas"] for each in deployments(WORKLOADS, 1007, "slackwater")]
    assert (sum(counts), max(counts) - min(counts), len(counts)) == (1007, 1, 20)
