"""Which names count as misspelt: slips of the fingers do, names that differ on purpose do not."""

import pytest

from slackwater.model.near_names import near_name


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("spto", "spot"),
        ("fsat", "fast"),
        ("stanard", "standard"),
        ("workerr", "worker"),
        ("Fast", "fast"),
        ("node_type", "node-type"),
        ("nodetype", "node-type"),
        ("generel-purpose", "general-purpose"),
        ("topology.kubernetes.io/zoen", "topology.kubernetes.io/zone"),
    ],
)
def test_a_slip_of_the_fingers_is_found(name: str, known: str) -> None:
    assert near_name(name, ["another", known]) == known


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("us-west-1", "us-east-1"),
        ("us-east-1a", "us-east-1b"),
        ("large", "xlarge"),
        ("gp2", "gp3"),
        ("h100", "a100"),
        ("amd64", "arm64"),
        ("dev", "den"),
        ("prod", "preprod"),
        ("pool-1", "pool-2"),
        ("a", "b"),
        ("", "x"),
        ("x" * 400, "x" * 399),
    ],
)
def test_names_that_differ_on_purpose_are_not(name: str, known: str) -> None:
    assert near_name(name, [known]) is None


def test_a_name_that_exists_is_not_misspelt_and_the_fewest_slips_win() -> None:
    assert near_name("spot", ["spto", "spot"]) is None
    assert near_name("Spot", ["spto", "spot"]) == "spot"
