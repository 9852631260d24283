"""Which node is chosen, criterion by criterion."""

import pytest

from slackwater.controllers.preemption.victims import Candidate, PotentialVictim, PreemptionNode, cheapest, runners_up
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.resources import Amounts
from tests.support.builders import amounts

ONE = amounts("1", "1Gi")


def choose(wanted: Amounts, preemption_nodes: list[PreemptionNode]) -> Candidate | None:
    return next(iter(cheapest(wanted, preemption_nodes)), None)


def a_victim(
    name: str,
    *,
    priority: int = 0,
    started: str = "2026-01-01T00:00:00Z",
    reserved: Amounts = ONE,
    leaving: bool = False,
    violates: bool = False,
) -> PotentialVictim:
    return PotentialVictim(
        uid=PodUid(name),
        priority=priority,
        started_at=started,
        reserved=reserved,
        leaving=leaving,
        violates_budget=violates,
    )


def a_site(name: str, *potential_victims: PotentialVictim, free: Amounts = amounts()) -> PreemptionNode:
    return PreemptionNode(node=NodeName(name), free=free, potential_victims=potential_victims)


SMALL = amounts("500m", "512Mi")
TWO_SMALL = (a_victim("s", reserved=SMALL), a_victim("t", reserved=SMALL))


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param((a_victim("leaving", leaving=True, priority=9),), (a_victim("v"),), id="who-leaves-anyway-before-all"),
        pytest.param((a_victim("v", priority=5),), (a_victim("w", violates=True),), id="fewest-violations"),
        pytest.param((*TWO_SMALL,), (a_victim("w", priority=1),), id="lowest-highest-priority"),
        pytest.param((a_victim("v", priority=-1),), (a_victim("w"),), id="negative-priorities"),
        pytest.param((a_victim("v"),), TWO_SMALL, id="lowest-sum-means-fewest"),
        pytest.param(
            (a_victim("v", started="2026-01-02T00:00:00Z"),),
            (a_victim("w", started="2026-01-01T00:00:00Z"),),
            id="latest-start",
        ),
        pytest.param((a_victim("v", started=""),), (a_victim("w"),), id="not-started-loses-least"),
    ],
)
@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")], ids=["first-by-name", "last-by-name"])
def test_the_cheaper_node_is_chosen(
    better: tuple[PotentialVictim, ...], worse: tuple[PotentialVictim, ...], names: tuple[str, str]
) -> None:
    found = choose(ONE, [a_site(names[1], *worse), a_site(names[0], *better)])
    assert found is not None
    assert found.node == names[0]


def test_a_grown_machine_gives_back_what_is_reserved_for_it() -> None:
    grown = a_victim("grown", reserved=amounts("3", "3Gi"))
    assert choose(amounts("2", "2Gi"), [a_site("n", grown)]) is not None
    assert choose(amounts("4", "1Gi"), [a_site("n", grown)]) is None


def test_no_pod_is_a_victim_whose_removal_does_not_help() -> None:
    memory, cpu = a_victim("m", reserved=amounts("0", "4Gi"), priority=-5), a_victim("c", reserved=amounts("2"), priority=3)
    found = choose(amounts("2"), [a_site("n", memory, cpu, free=amounts("0", "1Gi"))])
    assert found is not None
    assert found.victims == (cpu,)


def test_a_node_with_room_needs_no_victims() -> None:
    found = choose(ONE, [a_site("n", a_victim("v"), a_victim("w", leaving=True), free=ONE)])
    assert found is not None
    assert (found.victims, found.awaited) == ((), ())


def test_without_nodes_there_is_no_candidate() -> None:
    assert choose(ONE, []) is None


RUNNERS_UP = {
    "violates": (a_victim("v", violates=True), "n1: 1 victim, 1 disruption budget violated instead of 0"),
    "important": (a_victim("i", priority=7), "n1: 1 victim, the most important has priority 7 instead of 0"),
    "older": (a_victim("o", started="2020-01-01T00:00:00Z"), "n1: 1 victim, which started earlier"),
    "equal": (a_victim("e"), "n1: 1 victim, equal; the name of the node decided"),
}


@pytest.mark.parametrize("case", RUNNERS_UP)
def test_a_runner_up_says_why_it_ranked_lower(case: str) -> None:
    victim, want = RUNNERS_UP[case]
    best, other = cheapest(ONE, [a_site("n1", victim), a_site("n0", a_victim("best"))])
    assert best.node == "n0"
    assert [each.text for each in runners_up(best, [best, other])] == [want]


def test_a_runner_up_with_more_victims_says_how_many() -> None:
    two = a_site("n1", a_victim("a", reserved=SMALL), a_victim("b", reserved=SMALL))
    best, other = cheapest(ONE, [two, a_site("n0", a_victim("best"))])
    assert [each.text for each in runners_up(best, [other])] == ["n1: 2 victims, instead of 1"]


def test_only_a_few_runners_up_are_kept() -> None:
    found = cheapest(ONE, [a_site(f"n{number}", a_victim(f"v{number}")) for number in range(20)])
    assert [each.node for each in runners_up(found[0], found)] == ["n1", "n10", "n11", "n12"]


def test_a_node_that_kube_scheduler_preferred_is_not_called_better() -> None:
    best, other = cheapest(ONE, [a_site("n0", a_victim("a")), a_site("n1", a_victim("b", priority=3))])
    assert [each.why for each in runners_up(other, [best, other])] == ["chosen otherwise by kube-scheduler"]
