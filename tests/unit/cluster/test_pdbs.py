"""Budgets as kube-scheduler's preemption reads them, found by labels."""

from collections.abc import Mapping

import pytest
from msgspec import structs

from slackwater.cluster.pdbs import Budgets
from slackwater.fit.remaining_pdb_tracker import Disruptions
from slackwater.model.objects import DisruptionBudget, Pod
from slackwater.model.selectors import Requirement, Selector, selects
from tests.support.builders import a_budget, a_pod


def budgets(*known: DisruptionBudget) -> Budgets:
    found = Budgets()
    for budget in known:
        found.put(budget)
    return found


def web(number: int) -> Pod:
    return a_pod(f"web-{number}", labels={"app": "web"})


def test_evictions_spend_a_budget_one_after_another() -> None:
    found = budgets(a_budget("b", allowed=1, app="web"))
    assert found.violations([web(0), a_pod("x", labels={"app": "x"}), web(1), structs.replace(web(2), deleting=True)]) == [
        False,
        False,
        True,
        False,
    ]


def test_a_budget_that_counts_an_eviction_already_is_not_asked_again() -> None:
    found = budgets(structs.replace(a_budget("b", allowed=0, app="web"), disrupted=("web-0",)))
    assert found.violations([web(0), web(1)]) == [False, True]


def test_a_budget_that_selects_everything_or_nothing_is_no_budget_and_a_pod_without_labels_has_none() -> None:
    nobody = structs.replace(a_budget("c", allowed=0), selector=(Requirement("app", "NotIn", ("web",)),))
    found = budgets(a_budget("everything", allowed=0), structs.replace(a_budget("nothing", allowed=0), selector=None), nobody)
    assert found.violations([web(0), a_pod("bare"), a_pod("x", labels={"app": "x"})]) == [False, False, True]


def test_a_budget_that_changed_or_went_counts_as_it_is_now() -> None:
    found = budgets(a_budget("b", allowed=0, app="web"))
    found.put(a_budget("b", allowed=0, app="x"))
    assert found.violations([web(0)]) == [False]
    found.put(a_budget("b", allowed=0, app="web"))
    found.drop("default", "b")
    found.drop("default", "b")
    assert found.violations([web(0)]) == [False]
    assert not len(found)


def test_a_thousand_budgets_cost_a_pod_no_more_than_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """50 nodes of 100 pods, and 1,000 budgets in their namespace: what filter looks at when it seeks victims."""
    found = budgets(*(a_budget(f"b-{number}", allowed=4, app=f"app-{number}") for number in range(1000)))
    pods = [a_pod(f"p-{n}", labels={"app": f"app-{n % 1000}", "pod": f"p-{n}"}) for n in range(5000)]
    asked = 0

    def counted(selector: Selector, labels: Mapping[str, str]) -> bool:
        nonlocal asked
        asked += 1
        return selects(selector, labels)

    monkeypatch.setattr("slackwater.model.selectors.selects", counted)
    assert found.violations(pods) == [False] * 4000 + [True] * 1000
    assert Disruptions(found).of(pods[1]) == (("default", "b-1"),)
    assert asked == 5001
