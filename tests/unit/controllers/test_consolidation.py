"""Which sets of nodes are replaced by cheaper sets: on plans of small clusters."""

from typing import Any

import numpy as np
import pytest
from msgspec import structs

from slackwater.controllers.consolidation.candidates import Candidate, NodeFacts
from slackwater.controllers.consolidation.moves import Draft, Places, divided
from slackwater.controllers.consolidation.spare_room import proposed_nodes
from slackwater.controllers.scaledown.state import DrainFailure, ScaleDownState
from slackwater.fit.binpacking import place_pods
from slackwater.fit.drainability import RuleFacts
from slackwater.fit.evacuation import Evacuated, Evacuations, clear_row
from slackwater.fit.remaining_pdb_tracker import Disruptions
from slackwater.model.columns import Rows
from slackwater.model.eviction_facts import EvictionFacts
from slackwater.model.ids import NodeName, PodUid, Row, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.running_pods import RunningPods
from tests.support import installed
from tests.support.builders import a_budget, a_node, a_pod
from tests.support.consolidating import PricedCluster, coming, kept, leaving, rules
from tests.support.removing import NOW, machine, replica

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
    assert set(kept(plan).values()) == {"SavesTooLittle"}


def test_new_spot_nodes_are_for_pods_of_spot_nodes_unless_the_user_allows_more() -> None:
    cluster = PricedCluster()
    for node in cluster.group("on-demand", "8", 400_000, nodes=4):
        cluster.runs(node, "7")
    cluster.group("spot", "8", 130_000, labels=SPOT)
    assert cluster.planned().moves == ()
    plan = cluster.planned(rules(allow_spot=True))
    assert (len(leaving(plan)), coming(plan)) == (4, {"spot": 4})


def test_the_moves_of_one_plan_are_found_again_and_move_no_pod_twice() -> None:
    cluster = PricedCluster()
    for at, node in enumerate(cluster.group("large", "32", 1_600_000, nodes=12)):
        cluster.runs(node, *["1"] * (4 + at), "3500m")
    cluster.group("small", "8", 300_000)
    plan = cluster.planned()
    assert plan == cluster.planned()
    moved = [each.uid for move in plan.moves for each in move.pods]
    assert len(moved) == len(set(moved)) == plan.evictions
    stays = {node.name for node in cluster.nodes} - set(leaving(plan))
    for at, move in enumerate(plan.moves):
        there = {each.name for before in (*(plan.moves[number] for number in move.after), move) for each in before.coming}
        assert {each.to for each in move.pods} <= stays | there
        assert all(number < at for number in move.after)
        assert move.saved > 0
        assert move.ratio >= 0.5


def test_nodes_go_in_the_order_of_what_they_save_for_what_they_disturb() -> None:
    """The second node's pods have places on the new node of the third one's, which makes it go before the first."""
    drafts = drafts_of(prices=[30, 16, 20], pods=[[8], [4], [4]], new=[[8], [8]])
    assert [(draft.leaving, len(draft.coming)) for draft in drafts] == [([2], 1), ([1], 0), ([0], 1)]


def test_a_new_node_comes_with_the_first_node_whose_pods_it_takes() -> None:
    """The first of the new nodes has the most places for what the first node's pods lack, but then the two others have all."""
    drafts = drafts_of(prices=[90, 1], pods=[[3, 3, 3], [3, 3, 0]], new=[[3, 3, 0], [3, 0, 2], [0, 3, 1]])
    assert [(draft.leaving, sorted(draft.coming)) for draft in drafts] == [([0], [1, 2]), ([1], [0])]
    for draft in drafts:
        assert {place for places in draft.places for some in places.values() for place in some} == set(draft.coming)


def drafts_of(*, prices: list[int], pods: list[list[int]], new: list[list[int]]) -> list[Draft]:
    """Moves of nodes that cost so much and have so many pods of each kind, all with places on the new nodes; all moves pay."""
    g, sizes = GroupName("g"), [1.0 + sum(some) for some in pods]
    candidates = [
        Candidate(row=Row(at), node=NodeName(f"n{at}"), group=g, price=price, disruption=size, spot=False, due=None)
        for at, (price, size) in enumerate(zip(prices, sizes, strict=True))
    ]
    kinds, counts = [KindId(kind) for kind in range(len(new[0]))], np.array(pods)
    places = Places(kinds=kinds, present=[[] for _ in kinds], prices=[5] * len(new), new=np.array(new), counts=counts)
    return divided(candidates, places, np.full(len(kinds), 0.625), lambda *_: True)


def test_pods_share_free_room_by_what_each_leaves_over() -> None:
    """Four nodes have 8 CPUs and 8 GiB free. By first-fit those with pods that need CPU have none left for the others."""
    nodes = [structs.replace(a_node(f"n{at}", cpu="8", memory="8Gi"), scalars=(("pods", 110),)) for at in range(5)]
    sizes = [("2", "256Mi")] * 12 + [("250m", "2Gi")] * 12
    pods = [a_pod(f"p{at}", on="n4", cpu=cpu, memory=memory) for at, (cpu, memory) in enumerate(sizes)]
    snapshot = ClusterSnapshot.build(nodes, pods)
    movers = RunningPods(snapshot, pods).on(Row(4))
    clear_row(snapshot, Row(4), movers)
    kinds = np.array([each.kind for each in movers])
    assert len(place_pods_in_a_trial(snapshot, kinds)) < len(movers)
    snapshot.close(Row(4))
    proposed = proposed_nodes(snapshot, movers)
    assert len(proposed) == len(movers)
    assert set(proposed.values()) == {"n0", "n1", "n2", "n3"}


def place_pods_in_a_trial(snapshot: ClusterSnapshot, kinds: Rows) -> Rows:
    with snapshot.fork():
        rows = place_pods(snapshot, kinds, rows=np.arange(4)).rows
    return rows[rows >= 0]


def test_no_node_is_bought_where_one_of_the_set_could_stay() -> None:
    cluster = PricedCluster()
    for node in cluster.group("a", "4", 200_000, nodes=3):
        cluster.runs(node, "100m")
    plan = cluster.planned()
    assert (len(leaving(plan)), coming(plan), plan.evictions) == (2, {}, 2)


def test_small_nodes_stay_where_a_large_one_can_go_in_their_place() -> None:
    """Each small node saves more for the room that its pods need than the second large one, which saves more than all."""
    cluster = PricedCluster()
    for node, pods in zip(cluster.group("large", "16", 800_000, nodes=3), (10, 9, 2), strict=True):
        cluster.runs(node, *["1"] * pods)
    for node, pods in zip(cluster.group("small", "4", 200_000, nodes=4), (2, 2, 1, 1), strict=True):
        cluster.runs(node, *["1"] * pods)
    plan = cluster.planned()
    assert (sorted(leaving(plan)), coming(plan), plan.cost_after) == (["large-1", "large-2", "small-3"], {}, 1_400_000)


# --- what stays -----------------------------------------------------------------------------------------------------------


def half_empty(**more: Any) -> PricedCluster:
    """Three nodes, of which one can go."""
    cluster = PricedCluster()
    for node in cluster.group("a", "8", 400_000, nodes=3, **more):
        cluster.runs(node, "2", "2")
    return cluster


def test_one_of_three_half_empty_nodes_goes() -> None:
    assert len(leaving(half_empty().planned())) == 1


FAILED = ScaleDownState(failed_drains={NodeName(f"a-{at}"): DrainFailure(NOW, "x") for at in range(3)})


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"known": NodeFacts(busy={NodeName(f"a-{at}") for at in range(3)})}, "NodeBusy"),
        ({"known": NodeFacts(resting={PodUid(f"uid-a-{at}-p{2 * at}") for at in range(3)})}, "PodMovedRecently"),
        ({"budgets": [a_budget("web", allowed=0, app="web")]}, "NotEnoughPdb"),
        ({"state": FAILED}, "DrainFailedRecently"),
        ({"most_steps": 1}, "NotReachedInTime"),
        ({"following": rules(min_saving_ratio=3.0)}, "SavesTooLittle"),
        ({"following": rules(eviction_cost=10_000_000)}, "SavesTooLittle"),
        ({"given": {"kept_for_slack": {"a": 3}}}, "RoomKeptAsSlack"),
    ],
)  # fmt: skip
def test_what_keeps_nodes(given: dict[str, Any], reason: str) -> None:
    plan = half_empty().planned(**given)
    assert plan.moves == ()
    assert reason in kept(plan).values()


def test_young_nodes_annotated_pods_and_minima_keep_nodes() -> None:
    young = half_empty()
    young.nodes = [structs.replace(node, created_at=UnixTime(NOW - 60.0)) for node in young.nodes]
    assert set(kept(young.planned()).values()) == {"NodeTooYoung"}
    fixed = half_empty()
    fixed.pods = [structs.replace(pod, eviction_facts=EvictionFacts(do_not_disrupt=float("inf"))) for pod in fixed.pods]
    assert set(kept(fixed.planned()).values()) == {"DoNotDisruptAnnotation"}
    assert "NodeGroupMinSizeReached" in kept(half_empty(smallest=3).planned()).values()


def test_a_budget_lets_as_many_pods_go_as_it_allows() -> None:
    cluster = PricedCluster()
    for node in cluster.group("a", "8", 400_000, nodes=8):
        cluster.runs(node, "3")
    assert len(leaving(cluster.planned())) == 4
    plan = cluster.planned(budgets=[a_budget("web", allowed=2, app="web")])
    assert (len(leaving(plan)), plan.evictions) == (2, 2)


def test_a_group_at_its_maximum_brings_no_replacement() -> None:
    cluster = PricedCluster()
    (large,) = cluster.group("large", "32", 1_600_000, nodes=1)
    cluster.group("small", "4", 200_000, largest=0)
    cluster.runs(large, "500m")
    assert cluster.planned().moves == ()


def test_an_evacuation_that_is_undone_leaves_nothing_behind() -> None:
    nodes = [machine(f"n{number}", "8") for number in range(4)]
    pods = [replica("a", "n0", "2"), replica("b", "n1", "2"), replica("c", "n2", "2")]
    snapshot = ClusterSnapshot.build(nodes, pods)
    disruptions = Disruptions([a_budget("web", allowed=3, app="web")])
    facts = RuleFacts(now=NOW, policy=installed.BLOCKED_BY, disruptions=disruptions)
    evacuations = Evacuations(snapshot, RunningPods(snapshot, pods), facts=facts)
    first = evacuations.evacuate(Row(0), rows=np.array([1]))
    assert isinstance(first, Evacuated)
    used, destinations = snapshot.used.copy(), dict(evacuations.destinations)
    with snapshot.fork():
        second = evacuations.evacuate(Row(1), rows=np.array([2]))  # the pod of n0 moves on
        assert isinstance(second, Evacuated)
        third = evacuations.evacuate(Row(2), rows=np.array([3]))
        assert isinstance(third, Evacuated)
        assert (len(third.moves), disruptions.left("default", "web")) == (3, 0)
    evacuations.undo(third)
    evacuations.undo(second)
    assert (evacuations.destinations, disruptions.left("default", "web")) == (destinations, 2)
    assert (snapshot.used == used).all()
    again = evacuations.evacuate(Row(1), rows=np.array([3]))
    assert isinstance(again, Evacuated)
    assert {move.pod.key.name for move in again.moves} == {"a", "b"}
    assert not evacuations.has_rescheduled_pods(Row(2))
