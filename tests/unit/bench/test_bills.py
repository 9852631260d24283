"""Plans by price for small mixes are near the least possible cost, and the bench says if they are not."""

from dataclasses import replace

import pytest

from tests.bench.simulation.bills import MEDIAN, WORST, bill, missed, table
from tests.bench.simulation.least_cost import LeastCost, least_cost
from tests.bench.simulation.mixes import Mix, Workload, burst, mix

#: Small ones with selectors, limits, spread and GPUs, and plain ones.
_SEEDS = (20, 60, 72, 77, 88)


def test_plans_by_price_are_near_the_bound_and_plans_that_are_not_are_named() -> None:
    bills = [bill(mix(seed))[0] for seed in _SEEDS]
    assert missed(bills) == []
    assert all(each.price >= 1 for each in bills)
    large = [replace(each, trait="plain", price=WORST + 0.01, bound_nodes=60.0) for each in bills]
    assert len(missed(large)) == 1 + len(bills), f"over {MEDIAN} in the median, and each over {WORST}"


def test_a_mix_whose_pods_do_not_all_get_nodes_is_missed_and_in_no_line() -> None:
    case = mix(20)
    full = replace(case, variants=tuple(replace(each, most=1) for each in case.variants))
    found, _ = bill(full, LeastCost(micros=1e9, optimum=1e9, nodes=9.0))
    assert found.left > 0
    assert missed([found]) == [f"seed 20: {found.left} pods without a node"]
    assert len(table([found]).splitlines()) == 2


@pytest.mark.parametrize(("pods", "limit", "micros"), [(10, 10_000, 500), (9, 10_000, 450), (10, 3, 700)])
def test_the_bound_of_pods_of_which_two_fill_a_node(pods: int, limit: int, micros: float) -> None:
    """The cheaper variant costs 100 a node, and the dearer one 200."""
    cheap, dear = (replace(burst().variants[3], name=name, price=price) for name, price in (("a", 100), ("b", 200)))
    cpu, memory, *_ = cheap.amounts
    case = Mix(
        seed=0,
        family="web",
        trait="limits",
        workloads=(Workload(amounts=(cpu // 2, memory // 2, 1, 0), count=pods),),
        variants=(replace(cheap, most=limit), dear),
    )
    found = least_cost(case, ())
    assert found.micros == pytest.approx(micros, rel=0.003)
    assert found.micros <= found.optimum == pytest.approx(micros)
