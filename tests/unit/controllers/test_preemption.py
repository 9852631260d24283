"""Which node is chosen, criterion by criterion."""

import pytest

from slackwater.controllers.preemption.preemptors import choose
from slackwater.controllers.preemption.victims import PotentialVictim, PreemptionNode
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.resources import Amounts
from tests.support.builders import amounts

ONE = amounts("1", "1Gi")


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


def test_nobody_dies_whose_leaving_does_not_help() -> None:
    memory, cpu = a_victim("m", reserved=amounts("0", "4Gi"), priority=-5), a_victim("c", reserved=amounts("2"), priority=3)
    found = choose(amounts("2"), [a_site("n", memory, cpu, free=amounts("0", "1Gi"))])
    assert found is not None
    assert found.victims == (cpu,)


def test_a_site_with_room_needs_nobody() -> None:
    found = choose(ONE, [a_site("n", a_victim("v"), a_victim("w", leaving=True), free=ONE)])
    assert found is not None
    assert (found.victims, found.awaited) == ((), ())


def test_no_site_no_choice() -> None:
    assert choose(ONE, []) is None
