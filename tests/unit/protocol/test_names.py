"""Well-known names: what Kubernetes would refuse is found here, not by a cluster."""

import re

from slackwater_protocol import names

QUALIFIED = re.compile(r"(?:[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9][-A-Za-z0-9_.]*")
ALL = {name: value for name, value in vars(names).items() if name.isupper()}


def test_every_name_is_one_that_kubernetes_accepts_as_a_key() -> None:
    assert {name: value for name, value in ALL.items() if not QUALIFIED.fullmatch(value)} == {}
    assert all(len(value.rpartition("/")[2]) <= 63 for value in ALL.values())


def test_no_two_names_have_the_same_value() -> None:
    assert len(set(ALL.values())) == len(ALL)


def test_everything_of_ours_is_under_our_own_group() -> None:
    ours = {value for value in ALL.values() if "slackwater.dev" in value}
    assert ours == {
        "slackwater.dev",
        "config.slackwater.dev/v1alpha1",
        "slackwater.dev/gate",
        "slackwater.dev/owned-by",
        "slackwater.dev/permit",
        "slackwater.dev/preempting",
        "slackwater.dev/bounds",
        "slackwater.dev/bounds-container",
        "slackwater.dev/target-node",
        "slackwater.dev/node-group",
        "slackwater.dev/cordoned",
        "slackwater.dev/touched",
        "slackwater.dev/slack",
    }
