"""What a budget without a status allows: the cases of the disruption controller's own tests, and what it does not know here."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from slackwater.fit.remaining_pdb_tracker import DEPLOYMENT, Scales, counted
from slackwater.model.auxiliary import ControllerKey
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.objects import BudgetRule, DisruptionBudget, Pod
from tests.support.builders import a_budget, a_pod

REPLICA_SET, STATEFUL_SET, CONTROLLER = ("apps", "ReplicaSet"), ("apps", "StatefulSet"), ("", "ReplicationController")
KNOWN = frozenset({REPLICA_SET, STATEFUL_SET, CONTROLLER, DEPLOYMENT})


def key(kind: tuple[str, str], name: str) -> ControllerKey:
    return ("default", Owner(*kind, name))


def pods(count: int, kind: tuple[str, str] | None = REPLICA_SET, name: str = "web", **more: Any) -> list[Pod]:
    eviction_facts = EvictionFacts() if kind is None else EvictionFacts(owner=Owner(*kind, name))
    found = (a_pod(f"{name}-{number}", on="n1", labels={"app": "web"}) for number in range(count))
    return [structs.replace(pod, eviction_facts=eviction_facts, **more) for pod in found]


def at_least(amount: int, *, percent: bool = False) -> BudgetRule:
    return BudgetRule(amount=amount, percent=percent, unavailable=False)


def at_most(amount: int, *, percent: bool = False) -> BudgetRule:
    return BudgetRule(amount=amount, percent=percent, unavailable=True)


def count(rule: BudgetRule, some: list[Pod], scales: Scales, **more: Any) -> DisruptionBudget:
    budget = structs.replace(a_budget("web", allowed=0, app="web"), rule=rule, is_counted=False, **more)
    [found] = counted([budget], some, scales).budgets
    assert found.is_counted
    return found


@pytest.mark.parametrize(
    ("rule", "n_pods", "wanted", "want"),
    [
        (at_least(3), 0, 5, 0),
        (at_least(3), 3, 5, 0),
        (at_least(3), 5, 5, 2),
        (at_least(0), 2, 2, 2),
        (at_most(1), 5, 5, 1),
        (at_most(1), 4, 5, 0),  # one is missing already
        (at_most(1), 1, 7, 0),
        (at_most(10), 3, 5, 3),  # no more than there are
        (at_most(30, percent=True), 5, 5, 2),  # 1.5 is rounded up
        (at_most(30, percent=True), 10, 10, 3),
        (at_most(0, percent=True), 5, 5, 0),
        (at_least(28, percent=True), 10, 10, 7),  # 2.8 is rounded up
        (at_least(67, percent=True), 10, 10, 3),
        (at_least(100, percent=True), 5, 5, 0),
        (at_least(50, percent=True), 5, 0, 0),  # nobody is expected: a safe state
    ],
    ids=str,
)
def test_amounts_and_percentages_of_what_the_controller_wants(rule: BudgetRule, n_pods: int, wanted: int, want: int) -> None:
    scales = Scales(replicas={key(REPLICA_SET, "web"): wanted}, known=KNOWN)
    assert count(rule, pods(n_pods), scales).disruptions_allowed == want


@pytest.mark.parametrize(
    "change", [{"ready": False}, {"deleting": True}, {"ended": True, "ready": False}, {"node": None}], ids=str
)
def test_only_ready_pods_that_stay_are_healthy(change: dict[str, Any]) -> None:
    scales = Scales(replicas={key(REPLICA_SET, "web"): 4}, known=KNOWN)
    some = [*pods(3), *(structs.replace(pod, **change) for pod in pods(1, name="web"))]
    assert count(at_most(2), some, scales).disruptions_allowed == 1


def test_each_controller_of_the_selected_pods_counts_once() -> None:
    scales = Scales(replicas={key(CONTROLLER, "a"): 11, key(STATEFUL_SET, "b"): 4}, known=KNOWN)
    some = [*pods(11, CONTROLLER, "a"), *pods(4, STATEFUL_SET, "b")]
    assert count(at_least(28, percent=True), some, scales).disruptions_allowed == 10  # 28 % of 15 are 5


def test_the_replica_sets_of_a_deployment_count_as_the_deployment() -> None:
    some = [*pods(3, name="old"), *pods(2, name="new")]
    scales = Scales(
        replicas={key(REPLICA_SET, "old"): 3, key(REPLICA_SET, "new"): 3, key(DEPLOYMENT, "web"): 4},
        deployments={key(REPLICA_SET, name): key(DEPLOYMENT, "web") for name in ("old", "new")},
        known=KNOWN,
    )
    assert count(at_most(50, percent=True), some, scales).disruptions_allowed == 3  # 5 - 2
    without = replace(scales, known=KNOWN - {DEPLOYMENT})
    assert count(at_most(50, percent=True), some, without).disruptions_allowed == 2  # 5 - 3
    budget = structs.replace(a_budget("w", allowed=0), rule=at_most(1), is_counted=False)
    assert counted([budget], some, without).assumed == ("Deployment",)


@pytest.mark.parametrize(
    "kind", [REPLICA_SET, ("batch", "Job"), ("apps", "DaemonSet"), ("", "Node")], ids=["gone", "Job", "DaemonSet", "Node"]
)
def test_a_controller_that_is_gone_or_has_no_scale_fails_the_count(kind: tuple[str, str]) -> None:
    scales = Scales(replicas={key(REPLICA_SET, "web"): 5}, known=KNOWN)
    some = [*pods(5), *pods(1, kind, "other")]
    found = count(at_most(3), some, scales)
    assert (found.disruptions_allowed, found.unready_may_go) == (0, False)
    assert count(at_least(3), some, scales).disruptions_allowed == 3  # of a number of pods no scale is asked


def test_pods_without_a_controller_count_for_an_amount_alone() -> None:
    some = pods(4, None)
    assert count(at_least(3), some, Scales(known=KNOWN)).disruptions_allowed == 1
    assert count(at_most(1), some, Scales(known=KNOWN)).disruptions_allowed == 0
    assert count(at_least(20, percent=True), some, Scales(known=KNOWN)).disruptions_allowed == 0


def test_where_there_is_no_object_of_a_kind_each_controller_counts_with_the_pods_that_it_has() -> None:
    dying = [structs.replace(pod, deleting=True) for pod in pods(1, name="web")]
    budget = structs.replace(a_budget("web", allowed=0, app="web"), rule=at_most(1), is_counted=False)
    found = counted([budget], [*pods(4), *dying], Scales())
    assert (found.budgets[0].disruptions_allowed, found.assumed) == (1, ("ReplicaSet",))


@pytest.mark.parametrize(("healthy", "always", "want"), [(2, False, False), (3, False, True), (2, True, True)])
def test_pods_that_are_not_ready_may_go_where_enough_others_are(healthy: int, always: bool, want: bool) -> None:
    some = [*pods(healthy), *(structs.replace(pod, ready=False) for pod in pods(1, name="web"))]
    scales = Scales(replicas={key(REPLICA_SET, "web"): 4}, known=KNOWN)
    assert count(at_least(3), some, scales, unready_may_go=always).unready_may_go is want


def test_a_status_is_taken_as_it_is_and_other_namespaces_and_labels_are_not_counted() -> None:
    stated = a_budget("stated", allowed=7, app="web")
    mine = structs.replace(a_budget("mine", allowed=0, app="web"), rule=at_least(1), is_counted=False)
    others = [structs.replace(pod, labels=()) for pod in pods(3)]
    found = counted([stated, mine], [*pods(3), *others, a_pod("far", on="n1", namespace="other")], Scales())
    assert [budget.disruptions_allowed for budget in found.budgets] == [7, 2]


def test_it_is_counted_how_many_healthy_pods_are_lacking() -> None:
    some = [a_pod(f"p{n}", on="n", labels={"app": "web"}) for n in range(3)]
    assert [count(at_least(amount), some, Scales()).lacking for amount in (2, 3, 5)] == [0, 0, 2]
