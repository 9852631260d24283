"""The expander `price`: the whole demand is packed at once, at the lowest price."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from slackwater.controllers.scaleup.expanders import read_priorities
from slackwater.controllers.scaleup.groups import GrowableGroup, NodeQuota
from slackwater.controllers.scaleup.packing import balance, part_planner, solve
from slackwater.controllers.scaleup.packing.master import MasterProblem, assignment
from slackwater.controllers.scaleup.packing.patterns import Beam, PatternSearch
from slackwater.controllers.scaleup.packing.problem import Left, Packing, PackingProblem, Pattern
from slackwater.model.objects import ZONE, Pod
from slackwater.model.pod_constraints import PodConstraints, PodTerm, SpreadConstraint
from slackwater.model.selectors import Requirement
from slackwater.snapshot.node_facts import HOSTNAME
from tests.support import installed
from tests.support.builders import a_pod
from tests.support.scalingup import a_group, a_template, grown, planned

PRICE = replace(installed.SCALE_UP, expanders=("price",))


def some(count: int, cpu: str, memory: str, *, name: str, priority: int = 0) -> list[Pod]:
    return [a_pod(f"{name}{number}", cpu=cpu, memory=memory, priority=priority) for number in range(count)]


def three_types(**limits: int) -> list[GrowableGroup]:
    """Compute, general and memory machines of 8 CPUs at the ratios of list prices."""
    return [
        a_group(name, a_template(name, cpu="8", memory=memory), price=price, largest=limits.get(name, 1000))
        for name, memory, price in (("c", "16Gi", 340_000), ("m", "32Gi", 384_000), ("r", "64Gi", 504_000))
    ]


@pytest.fixture(params=[True, False], ids=["solver", "greedy"])
def solver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if not request.param:
        monkeypatch.setattr(part_planner, "has_solver", lambda: False)
    return bool(request.param)


@pytest.mark.usefixtures("solver")
def test_complementary_pods_share_nodes() -> None:
    """A pod with much CPU and one with much memory fill a general machine; alone each wastes half of its own."""
    pods = [*some(10, "6", "4Gi", name="batch"), *some(10, "2", "28Gi", name="cache")]
    assert grown(planned(pods, three_types(), policy=PRICE)) == {"m": 10}


@pytest.mark.usefixtures("solver")
def test_a_large_node_is_bought_where_it_is_cheaper_for_each_pod() -> None:
    groups = [a_group("small", a_template("s", cpu="2"), price=100), a_group("large", a_template("l", cpu="16"), price=500)]
    assert grown(planned(some(32, "500m", "64Mi", name="p"), groups, policy=PRICE)) == {"large": 1}
    assert grown(planned(some(2, "500m", "64Mi", name="p"), groups, policy=PRICE)) == {"small": 1}


@pytest.mark.usefixtures("solver")
def test_the_limit_of_the_cheapest_group_holds() -> None:
    groups = [a_group("spot", price=1, largest=3), a_group("other", price=5)]
    assert grown(planned(some(20, "1", "1Gi", name="p"), groups, policy=PRICE)) == {"spot": 3, "other": 2}


def test_a_quota_over_several_groups_holds() -> None:
    quota = NodeQuota(name="all", limits={"nodes": 4})
    plan = planned(some(40, "1", "1Gi", name="p"), three_types(), policy=replace(PRICE, quotas=(quota,)))
    assert (plan.n_nodes, sum(len(each.pods) for each in plan.unhelpable)) == (4, 8)


def test_where_a_limit_leaves_pods_out_the_important_ones_are_served() -> None:
    pods = [*some(4, "4", "1Gi", name="low", priority=1), *some(4, "1", "1Gi", name="high", priority=9)]
    plan = planned(pods, [a_group("g", price=5, largest=1)], policy=PRICE)
    assert sorted(pod.key.name for pod in plan.scale_ups[0].pods) == ["high0", "high1", "high2", "high3"]


def test_a_group_of_higher_priority_comes_before_a_cheaper_one() -> None:
    priorities = read_priorities({10: ["^dear"], 1: [".*"]})
    groups = [a_group("cheap", price=1), a_group("dear", price=9, largest=2)]
    policy = replace(PRICE, expanders=("priority", "price"), priorities=priorities)
    assert grown(planned(some(12, "1", "1Gi", name="p"), groups, policy=policy)) == {"dear": 2, "cheap": 1}


def test_equal_groups_at_one_price_grow_evenly() -> None:
    groups = [a_group(zone, price=5) for zone in ("a", "b", "c")]
    assert grown(planned(some(24, "1", "1Gi", name="p"), groups, policy=PRICE)) == {"a": 2, "b": 2, "c": 2}


def test_pods_that_keep_apart_from_their_own_are_one_a_node_of_a_pattern() -> None:
    apart = PodConstraints(
        anti_affinity=(PodTerm(topology_key=HOSTNAME, namespaces=("default",), selector=(Requirement("app", "In", ("a",)),)),)
    )
    pods = [
        structs.replace(pod, labels=(("app", "a"),), kind=replace(pod.kind, pod_constraints=apart))
        for pod in some(3, "1", "1Gi", name="apart")
    ]
    groups = [a_group("small", a_template("s", cpu="2"), price=2), a_group("large", a_template("l", cpu="16"), price=9)]
    plan = planned([*pods, *some(3, "1", "1Gi", name="p")], groups, policy=PRICE)
    assert grown(plan) == {"small": 3}


def test_tiny_pods_leave_room_on_a_node_that_takes_few_pods() -> None:
    """Of a node for 55 pods, tiny pods take nothing but the number. The best filling is worth 2,071, 55 tiny pods 495."""
    empty, amounts = np.array([[8_000, 64_000, 55]]), np.array([[3_000, 3_500, 1], [110, 1_900, 1], [8, 4, 1]])
    problem = PackingProblem(
        amounts=amounts,
        demand=np.full(3, 1_000),
        most=np.full(3, 1_000),
        empty=empty,
        takes=np.ones((1, 3), np.bool_),
        prices=np.ones(1, np.int64),
        room=np.ones(1, np.int64),
        limits=np.zeros(0, np.int64),
        limits_taken=np.zeros((0, 1), np.int64),
    )
    values = np.array([345.0, 49.0, 9.0])
    found = PatternSearch(problem).better(values, problem.demand, np.zeros(1), Beam(4, 2))
    assert max(each.counts @ values for each in found) > 1_800
    assert all((each.counts @ amounts <= empty[0]).all() for each in found)


def test_what_a_pattern_cannot_express_goes_to_what_is_left_of_its_nodes() -> None:
    near = PodConstraints(
        affinity=(PodTerm(topology_key=HOSTNAME, namespaces=("default",), selector=(Requirement("app", "In", ("web",)),)),)
    )
    (pod,) = some(1, "1", "1Gi", name="near")
    near_pod = structs.replace(pod, kind=replace(pod.kind, pod_constraints=near))
    webs = [structs.replace(each, labels=(("app", "web"),)) for each in some(3, "1", "1Gi", name="web")]
    assert grown(planned([near_pod, *webs], [a_group("g", price=5)], policy=PRICE)) == {"g": 1}


@pytest.mark.parametrize("domains", [1, 3])
def test_a_spread_counts_zones_without_a_node_only_by_its_least_number(domains: int) -> None:
    """The second workload brings the first node of the dear zone, after the first one was placed."""
    zoned = [
        a_group(zone, a_template(zone, cpu=cpu, labels={ZONE: zone}), price=price)
        for zone, cpu, price in (("a", "4", 3), ("b", "8", 6), ("c", "2", 9))
    ]
    selector = (Requirement("app", "In", ("a",)),)
    spread = SpreadConstraint(hard=True, max_skew=1, topology_key=ZONE, selector=selector, min_domains=domains)
    asks = PodConstraints(spread=(spread,))
    pods = [
        structs.replace(pod, labels=(("app", "a"),), kind=replace(pod.kind, pod_constraints=asks))
        for pod in some(6, "1", "1Gi", name="p", priority=9)
    ]
    bound = [
        structs.replace(pod, kind=replace(pod.kind, node_selector=((ZONE, "c"),))) for pod in some(1, "1500m", "1Gi", name="z")
    ]
    plan = planned([*pods, *bound], zoned, policy=PRICE)
    assert not plan.unhelpable
    zones = {each.group: sum(pod.key.name.startswith("p") for pod in each.pods) for each in plan.scale_ups}
    assert (zones == {"a": 2, "b": 2, "c": 2}) == (domains == 3)


def a_problem(amounts: Sequence[Sequence[int]], demand: Sequence[int], empty: Sequence[Sequence[int]]) -> PackingProblem:
    takes, has = np.array(amounts, np.int64), np.array(empty, np.int64)
    return PackingProblem(
        amounts=takes,
        demand=np.array(demand, np.int64),
        most=np.full(len(demand), 2**40),
        empty=has,
        takes=np.asarray((takes[None] <= has[:, None]).all(axis=2)),
        prices=has.sum(axis=1) * 1000,
        room=np.full(len(has), 1000),
        limits=np.zeros(0, np.int64),
        limits_taken=np.zeros((0, len(has)), np.int64),
    )


def test_a_limit_on_steps_cuts_the_search_and_places_every_pod() -> None:
    problem = a_problem([(3, 1), (1, 3), (2, 2), (1, 1)], [40, 40, 40, 41], [(8, 4), (8, 8), (4, 8), (16, 16)])
    whole, cut = (solve.pack(problem, stop=lambda: False, most_steps=steps) for steps in (400, 2))
    for packing in (whole, cut):
        placed = np.zeros_like(problem.demand)
        for each in packing.nodes:
            placed[each.kinds] += each.counts * each.number
        assert placed.tolist() == problem.demand.tolist()
    assert (whole.cut, cut.cut) == (False, True)
    assert money(problem, whole) <= money(problem, cut)


def test_nothing_costs_less_than_the_bound() -> None:
    """281 CPUs and 281 GiB at 1000 each: the bound knows that no plan is cheaper, and the plan comes within 3 %."""
    problem = a_problem([(3, 1), (1, 3), (2, 2), (1, 1)], [40, 40, 40, 41], [(8, 4), (8, 8), (4, 8), (16, 16)])
    packing = solve.pack(problem, stop=lambda: False)
    assert packing.bound <= 562_000 <= money(problem, packing) <= 1.03 * packing.bound


@pytest.mark.usefixtures("solver")
def test_pods_move_from_nodes_of_their_own_to_what_a_large_node_has_left() -> None:
    """Pods of 2 need one and a half nodes of 4. Two are bought, and the pods of 1 that fill the second cost nothing more."""
    problem = replace(a_problem([(2, 1), (1, 1)], [3, 20], [(4, 9), (1, 1)]), prices=np.array([39, 5]) * 100_000)
    packing = solve.pack(problem, stop=lambda: False)
    assert money(problem, packing) == (2 * 39 + 18 * 5) * 100_000
    assert sum(int(each.counts.sum()) * each.number for each in packing.nodes) == 23


def test_for_what_is_left_the_program_uses_no_pattern_with_more_pods() -> None:
    """Half a node with two pods would be cheaper for one pod than a node that holds one."""
    problem = replace(a_problem([(1, 1)], [3], [(2, 2), (1, 1)]), prices=np.array([8_000_000, 5_000_000]))
    program, left = MasterProblem(problem), Left.whole(problem)
    program.add([Pattern(variant=0, counts=np.array([2])), Pattern(variant=1, counts=np.array([1]))])
    costs = []
    for pods in (3, 1, 3):
        left.demand[0] = pods
        program.bound_rows(left)
        costs.append(program.solve().cost)
    assert costs == pytest.approx([12, 5, 12])


def test_a_demand_of_more_kinds_than_one_part_is_packed_whole() -> None:
    """Three parts of 2,500 different pods are packed one after another; what each leaves over of its last nodes is little."""
    amounts = [(10 + number % 50, 10 + number // 50) for number in range(2_500)]
    problem = a_problem(amounts, [1] * 2_500, [(500, 500), (1000, 500), (500, 1000)])
    packing = solve.pack(problem, stop=lambda: False)
    assert sum(int(each.counts.sum()) * each.number for each in packing.nodes) == 2_500
    assert packing.bound <= money(problem, packing) <= 1.03 * packing.bound


def test_more_limited_variants_than_one_part_looks_at_are_all_used() -> None:
    many = a_problem([(3, 1)], [200], [(4 + number, 4) for number in range(200)])
    limited = replace(many, room=np.ones(200, np.int64))
    packing = solve.pack(limited, stop=lambda: False)
    assert sum(int(each.counts.sum()) * each.number for each in packing.nodes) == 200
    assert len({each.variant for each in packing.nodes}) == sum(each.number for each in packing.nodes)


def money(problem: PackingProblem, packing: Packing) -> int:
    return sum(int(problem.prices[each.variant]) * each.number for each in packing.nodes)


def test_a_limit_that_nothing_comes_near_costs_no_search() -> None:
    """A variant counts as limited only by its own maximum, so that dearer ones with no more are left out all the same."""
    groups = [
        a_group(f"g{at}", a_template(f"t{at}", cpu=str(4 * (1 + at % 3)), memory="64Gi"), price=100_000 * (1 + at % 3) + at)
        for at in range(12)
    ]
    pods = [a_pod(f"p{at}", cpu=f"{100 + at}m", memory="128Mi") for at in range(60)]
    limited, free = (
        planned(pods, groups, policy=replace(installed.SCALE_UP, max_nodes_per_scale_up=most, expanders=("price",)))
        for most in (20, 0)
    )
    assert limited.packed == free.packed


def test_many_pods_that_are_alike_are_dealt_out_evenly() -> None:
    """8,000 pods of 40 kinds onto two types that both resources fill."""
    draw = np.random.default_rng(5)
    amounts = np.stack([draw.integers(20, 900, 40), draw.integers(30, 3600, 40)], axis=1)
    problem = PackingProblem(
        amounts=amounts.astype(np.int64),
        demand=np.full(40, 200, np.int64),
        most=np.full(40, 2**40, np.int64),
        empty=np.array([[15_500, 29_000], [15_500, 59_000], [7500, 61_000]], np.int64),
        takes=np.ones((3, 40), np.bool_),
        prices=np.array([680_000, 768_000, 504_000], np.int64),
        room=np.full(3, 10**6, np.int64),
        limits=np.zeros(0, np.int64),
        limits_taken=np.zeros((0, 3), np.int64),
    )
    found = solve.pack(problem, stop=lambda: False, most_steps=40)
    placed = sum(each.number * int(each.counts.sum()) for each in found.nodes)
    assert placed == 8000
    assert money(problem, found) <= 1.02 * found.bound


def test_even_nodes_hold_only_pods_that_their_variant_takes() -> None:
    """The program needs a fifth of a node of the second variant, which takes only the second kind."""
    some = a_problem([(3, 1), (1, 1)], [6, 3], [(4, 4), (15, 15)])
    problem = replace(some, takes=np.array([[True, False], [False, True]]))
    assigned = assignment(problem, Left.whole(problem))
    assert 0 < assigned.numbers[1] < 1
    for rule in balance.RULES:
        found = balance.evenly(problem, Left.whole(problem), assigned.numbers, assigned.mean, rule)
        assert all(problem.takes[each.variant, each.counts > 0].all() for each in found)
        assert sum(int(each.counts[1]) for each in found) == 3
