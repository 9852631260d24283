"""Which sets of nodes are replaced by cheaper sets: on plans of small clusters."""

from tests.support.consolidating import PricedCluster, coming, kept, leaving, rules

SPOT = {"karpenter.sh/capacity-type": "spot"}


def test_ten_half_empty_nodes_become_six() -> None:
    cluster = PricedCluster()
    for node in cluster.group("large", "32", 1_600_000, nodes=10):
        cluster.runs(node, *["1"] * 18)  # 56 %
    plan = cluster.planned()
    assert (len(leaving(plan)), coming(plan), plan.evictions) == (4, {}, 72)
    assert (plan.cost, plan.cost_after) == (16_000_000, 9_600_000)
    assert plan.bound <= plan.cost_after


def test_the_last_large_node_is_replaced_by_a_small_one() -> None:
    cluster = PricedCluster()
    (large,) = cluster.group("large", "32", 1_600_000, nodes=1)
    cluster.group("small", "4", 200_000)
    cluster.runs(large, "500m", "500m", "500m", "500m")
    (move,) = cluster.planned().moves
    assert ([each.name for each in move.leaving], move.new_nodes, move.saved) == ([large], {"small": 1}, 1_400_000)
    assert {each.to for each in move.pods} == {each.name for each in move.coming}


def test_many_small_nodes_are_replaced_by_one() -> None:
    cluster = PricedCluster()
    for node in cluster.group("small", "4", 500_000, nodes=8):
        cluster.runs(node, "3500m")
    cluster.group("large", "32", 1_600_000)
    plan = cluster.planned()
    assert (len(leaving(plan)), coming(plan), plan.saved) == (8, {"large": 1}, 2_400_000)


def test_on_demand_goes_and_spot_stays() -> None:
    cluster = PricedCluster()
    for node in cluster.group("spot", "8", 130_000, nodes=60, labels=SPOT):
        cluster.runs(node, "2", "2")
    for node in cluster.group("on-demand", "8", 400_000, nodes=40):
        cluster.runs(node, "2", "2")
    plan = cluster.planned()
    assert leaving(plan)[:40] == sorted(f"on-demand-{number}" for number in range(40))
    assert plan.cost_after <= 1.05 * plan.bound


def test_nothing_is_replaced_by_the_same() -> None:
    cluster = PricedCluster()
    for node in cluster.group("a", "8", 400_000, nodes=4):
        cluster.runs(node, "7")
    cluster.group("b", "8", 400_000)
    plan = cluster.planned(rules(min_saving_ratio=0.0))
    assert plan.moves == ()
    assert set(kept(plan).values()) == {"NotWorthMoving"}


def test_new_spot_nodes_are_for_pods_of_spot_nodes_unless_the_user_allows_more() -> None:
    cluster = PricedCluster()
    for node in cluster.group("on-demand", "8", 400_000, nodes=4):
        cluster.runs(node, "7")
    cluster.group("spot", "8", 130_000, labels=SPOT)
    assert cluster.planned().moves == ()
    plan = cluster.planned(rules(allow_spot=True))
    assert (len(leaving(plan)), coming(plan)) == (4, {"spot": 4})
