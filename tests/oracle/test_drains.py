"""Scale-down plans hold before kube-scheduler's own plug-ins; `python -m tests.oracle.drains --clusters N` asks longer."""

import copy
from pathlib import Path

import pytest

from tests.oracle.drains.__main__ import check
from tests.oracle.drains.clusters import asks_budgets, budgets_of, generate_drainable, guards, healthy, pods_of
from tests.oracle.drains.law import answer_of, named, settings, violations
from tests.oracle.generator.draw import Obj
from tests.oracle.real import running

pytestmark = pytest.mark.timeout(600)

CLUSTERS = 200


def test_after_all_candidates_went_in_order_every_pod_fits_and_no_budget_is_below_its_minimum(program: Path) -> None:
    reported = check(program, seed=1, indices=range(CLUSTERS))
    assert reported.problems == [], "python -m tests.oracle.drains shrinks and shows it"
    assert reported.moves > CLUSTERS
    assert reported.guarded > CLUSTERS // 4
    assert reported.kept.keys() >= {"NoPlaceToMovePods", "NotEnoughPdb", "DestinationOfOtherPods", "NotReplicated"}


def _planned(index: int) -> tuple[Obj, Obj]:
    cluster = generate_drainable(1, index)
    return cluster, answer_of(cluster, settings())


@pytest.fixture(scope="module")
def planned() -> tuple[Obj, Obj]:
    """A cluster of which several pods move."""
    return next(each for each in map(_planned, range(CLUSTERS)) if sum(map(_moves, each[1]["removable"])) > 5)


def _moves(found: Obj) -> int:
    return len(found["destinations"])


def judged(program: Path, cluster: Obj, answer: Obj) -> list[str]:
    with running(program, "replay") as real:
        return list(violations(real, cluster, answer))


def test_a_pod_that_is_sent_to_a_removed_node_is_reported(program: Path, planned: tuple[Obj, Obj]) -> None:
    cluster, answer = planned
    wrong = copy.deepcopy(answer)
    first, last = wrong["removable"][0], next(found for found in reversed(wrong["removable"]) if found["destinations"])
    pod = next(iter(last["destinations"]))
    last["destinations"][pod] = first["node"]
    assert judged(program, cluster, answer) == []
    assert judged(program, cluster, wrong) == [f"{pod} of {last['node']} does not fit on {first['node']}: the node has gone"]


def test_a_pod_that_is_too_large_for_its_destination_is_reported(program: Path, planned: tuple[Obj, Obj]) -> None:
    cluster, answer = planned
    name = next(pod for found in answer["removable"] for pod in found["destinations"])
    wrong = copy.deepcopy(cluster)
    for pod in pods_of(wrong):
        if named(pod) == name:
            pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000"}}
            pod["spec"].pop("resources", None)
            pod["status"].pop("containerStatuses", None)
    problem, *_ = judged(program, wrong, answer)  # others may lack the room then
    assert problem.startswith(f"{name} of ")
    assert "Insufficient cpu" in problem


def test_a_pod_that_the_plan_forgets_is_reported(program: Path, planned: tuple[Obj, Obj]) -> None:
    cluster, answer = planned
    wrong = copy.deepcopy(answer)
    found = next(found for found in wrong["removable"] if found["destinations"])
    pod = list(found["destinations"])[-1]
    del found["destinations"][pod]
    assert f"{pod} of {found['node']} has no destination" in judged(program, cluster, wrong)


def test_a_budget_that_allows_fewer_disruptions_than_are_planned_is_reported(program: Path) -> None:
    with running(program, "replay") as real:
        cluster, answer = next(each for each in map(_planned, range(CLUSTERS)) if _spends(each))
        assert list(violations(real, cluster, answer)) == []
        wrong = copy.deepcopy(cluster)
        for budget in budgets_of(wrong):
            budget["status"]["desiredHealthy"] = budget["status"]["currentHealthy"]
        assert any("healthy left" in problem for problem in violations(real, wrong, answer))


def _spends(planned: tuple[Obj, Obj]) -> bool:
    cluster, answer = planned
    moved = {pod for found in answer["removable"] for pod in found["destinations"]}
    return any(
        named(pod) in moved and healthy(pod) and asks_budgets(pod) and guards(budget, pod)
        for pod in pods_of(cluster)
        for budget in budgets_of(cluster)
    )
