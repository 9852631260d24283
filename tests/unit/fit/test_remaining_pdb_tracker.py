"""What budgets still allow while several nodes are emptied in thought."""

from typing import Any

import pytest
from msgspec import structs

from slackwater.fit.remaining_pdb_tracker import Disruptions
from slackwater.model.objects import Pod
from tests.support.builders import a_budget, a_pod


def web(name: str, **labels: str) -> Pod:
    return a_pod(name, on="n1", labels={"app": "web", **labels})


def test_what_one_node_spends_the_next_one_lacks() -> None:
    left = Disruptions([a_budget("web", allowed=2, app="web")])
    left.spend([web("a")])
    assert left.allows(web("b"))
    left.spend([web("b"), web("c")])
    assert left.left("default", "web") == -1
    assert not left.allows(web("d"))


def test_every_budget_of_a_pod_is_spent() -> None:
    left = Disruptions([a_budget("web", allowed=2, app="web"), a_budget("front", allowed=1, tier="front")])
    left.spend([web("a", tier="front")])
    assert left.allows(web("b"))
    assert not left.allows(web("b", tier="front"))


@pytest.mark.parametrize("change", [{"ready": False}, {"deleting": True}], ids=str)
def test_a_pod_that_no_budget_counts_as_healthy_costs_nothing(change: dict[str, Any]) -> None:
    left = Disruptions([a_budget("web", allowed=1, app="web")])
    pods = [structs.replace(web("a"), **change), structs.replace(web("b"), **change)]
    assert left.allow_all(pods)
    left.spend(pods)
    assert left.left("default", "web") == 1


def test_pods_of_a_node_may_together_ask_more_than_a_budget_allows() -> None:
    left = Disruptions([a_budget("web", allowed=1, app="web")])
    assert left.allow_all([web("a")])
    assert not left.allow_all([web("a"), web("b")])


def test_a_budget_covers_what_its_selector_selects_in_its_namespace() -> None:
    left = Disruptions(
        [
            a_budget("everything", allowed=1, namespace="other"),
            structs.replace(a_budget("nothing", allowed=1), selector=None),
            a_budget("web", allowed=1, app="web"),
        ]
    )
    assert left.covers(web("a"))
    assert not left.covers(a_pod("b", labels={"app": "db"}))
    assert left.covers(a_pod("c", namespace="other"))
