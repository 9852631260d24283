"""Every statement of the parallel-drain proposal about planning: which nodes can go together, and what is remembered."""

from dataclasses import replace

from msgspec import structs

from slackwater.controllers.scaledown.state import ScaleDownState, restored
from slackwater.fit.feasible_nodes import feasible
from slackwater.model.ids import NodeName, PodUid, UnixTime
from slackwater.model.objects import Node, Pod, Taint
from slackwater.model.reasons import Reason, UnremovableReason
from tests.support import installed
from tests.support.builders import a_budget
from tests.support.removing import (
    NOW,
    POOL,
    a_group,
    a_scene,
    kept,
    machine,
    moves,
    planned,
    removable,
    replica,
)

N = [machine(f"n{number}") for number in range(1, 7)]
ALL_TRIED = replace(installed.SCALE_DOWN, min_evaluated=0)


def four_at_a_quarter() -> tuple[list[Node], list[Pod]]:
    return N[:4], [replica(name, on) for name, on in (("a", "n1"), ("b", "n2"), ("c", "n3"), ("d", "n4"))]


# --- the candidate set ----------------------------------------------------------------------------------------------------


def test_the_pods_of_all_candidates_fit_on_the_nodes_that_stay_at_the_same_time() -> None:
    nodes, pods = four_at_a_quarter()
    plan = planned(a_scene(nodes, pods))
    assert removable(plan) == ["n1", "n2", "n3"]
    assert moves(plan) == {"a": "n4", "b": "n4", "c": "n4"}


def test_nodes_that_could_go_alone_but_not_together_do_not_both_go() -> None:
    plan = planned(a_scene(N[:3], [replica("a", "n1", "2"), replica("b", "n2", "2"), replica("c", "n3", "2")]))
    assert removable(plan) == ["n1"]


def test_a_candidate_keeps_its_time_from_loop_to_loop() -> None:
    nodes, pods = four_at_a_quarter()
    first = planned(a_scene(nodes, pods))
    second = planned(a_scene(nodes, pods), first.state, after=30)
    assert second.state.candidate_set == {NodeName("n1"): NOW, NodeName("n2"): NOW, NodeName("n3"): NOW}


def test_the_time_of_a_node_that_leaves_the_set_and_comes_back_begins_again() -> None:
    busy = [replica("a", "n1", "3"), replica("b", "n2")]
    quiet = [replica("a", "n1"), replica("b", "n2")]
    first = planned(a_scene(N[:2], quiet))
    assert removable(first) == ["n1"]
    second = planned(a_scene(N[:2], busy), first.state, after=10)
    assert removable(second) == ["n2"]
    third = planned(a_scene(N[:2], quiet), second.state, after=20)
    assert removable(third) == ["n2"]
    fourth = planned(a_scene(N[:3], [replica("b", "n2", "3")]), third.state, after=30)
    assert fourth.state.candidate_set == {NodeName("n1"): NOW + 30, NodeName("n3"): NOW + 30}


def test_candidates_are_added_removed_or_stay_in_each_loop() -> None:
    stays, goes, comes = replica("a", "n1"), replica("b", "n2", "3"), replica("c", "n3", "3")
    first = planned(a_scene(N[:4], [stays, goes, comes]))
    assert removable(first) == ["n1", "n4"]
    second = planned(a_scene(N[:4], [stays, goes, replica("d", "n4", "3")]), first.state, after=10)
    assert removable(second) == ["n1", "n3"]


def test_destinations_are_packed_from_the_far_end_of_the_list() -> None:
    nodes, pods = N[:5], [replica("a", "n1"), *(replica(f"s{number}", f"n{number}", "2500m") for number in (2, 3, 4, 5))]
    assert moves(planned(a_scene(nodes, pods))) == {"a": "n5"}


def test_every_node_that_stays_may_be_a_destination_also_one_that_cannot_be_removed() -> None:
    plan = planned(a_scene(N[:2], [replica("a", "n1")], group_of={"n1": POOL}))
    assert (moves(plan), kept(plan)) == ({"a": "n2"}, {"n2": "NotAutoscaled"})


def test_the_next_search_begins_where_the_last_pod_went() -> None:
    large = [replica(f"s{number}", f"n{number}", cpu) for number, cpu in ((4, "2500m"), (5, "2500m"), (6, "3500m"))]
    small = [replica("a", "n1", "1"), replica("b", "n2", "500m")]
    plan = planned(a_scene([N[0], N[1], *N[3:]], [*large, *small]))
    assert moves(plan) == {"a": "n5", "b": "n5"}  # n6 has room for b too, and comes round last


def test_nodes_that_stay_are_destinations_before_candidates_are() -> None:
    pods = [replica("stays", "n1", "2500m"), replica("a", "n2"), replica("b", "n3")]
    plan = planned(a_scene(N[:3], pods))
    assert moves(plan)["a"] == "n1"
    assert removable(plan) == ["n2"]


def test_a_node_that_is_a_destination_is_no_candidate() -> None:
    nodes, pods = four_at_a_quarter()
    assert kept(planned(a_scene(nodes, pods)))["n4"] == "DestinationOfOtherPods"


def test_a_node_that_pending_pods_are_about_to_go_to_is_no_candidate() -> None:
    plan = planned(a_scene(N[:2], arriving=frozenset({NodeName("n1")})))
    assert (removable(plan), kept(plan)) == (["n2"], {"n1": "DestinationOfOtherPods"})


def test_no_pod_goes_to_a_candidate_or_to_a_node_that_is_being_removed() -> None:
    nodes, pods = four_at_a_quarter()
    state = ScaleDownState(deleted_set={NodeName("n4"): NOW})
    plan = planned(a_scene(nodes, pods), state)
    assert set(moves(plan).values()) == {"n3"}
    assert removable(plan) == ["n1", "n2"]


def test_the_simulation_leaves_no_trace_in_the_snapshot() -> None:
    nodes, pods = four_at_a_quarter()
    scenario = a_scene(nodes, pods)
    before = scenario.snapshot.used[:, :4].copy()
    planned(scenario)
    assert (scenario.snapshot.used[:, :4] == before).all()
    kind = scenario.snapshot.kind_id(pods[0].kind, pods[0].labels)
    assert (feasible(scenario.snapshot, kind).codes == Reason.OK).all()


def test_the_same_cluster_gives_the_same_plan() -> None:
    nodes, pods = four_at_a_quarter()
    assert planned(a_scene(nodes, pods)) == planned(a_scene(nodes, list(reversed(pods))))


# --- time ---------------------------------------------------------------------------------------------------------------


def test_when_the_time_is_over_the_rest_is_not_tried() -> None:
    nodes, pods = four_at_a_quarter()
    plan = planned(a_scene(nodes, pods), policy=ALL_TRIED, stop=lambda: True)
    assert (plan.cut, removable(plan)) == (True, [])
    assert set(kept(plan).values()) == {"NotReachedInTime"}


def test_a_minimum_of_nodes_is_tried_however_little_time_there_is() -> None:
    nodes, pods = four_at_a_quarter()
    plan = planned(a_scene(nodes, pods), policy=replace(installed.SCALE_DOWN, min_evaluated=2), stop=lambda: True)
    assert (plan.evaluated, plan.cut, removable(plan)) == (2, True, ["n1", "n2"])


def test_a_loop_that_is_cut_short_keeps_the_time_of_every_candidate() -> None:
    nodes, pods = four_at_a_quarter()
    first = planned(a_scene(nodes, pods))
    cut = planned(
        a_scene(nodes, pods), first.state, replace(installed.SCALE_DOWN, min_evaluated=1), after=10, stop=lambda: True
    )
    assert (removable(cut), set(cut.state.unreached)) == (["n1"], {"n2", "n3"})
    third = planned(a_scene(nodes, pods), cut.state, after=20)
    assert third.state.candidate_set == {NodeName("n1"): NOW, NodeName("n2"): NOW, NodeName("n3"): NOW}


def test_candidates_of_the_loop_before_are_tried_first() -> None:
    nodes, pods = four_at_a_quarter()
    state = ScaleDownState(candidate_set={NodeName("n3"): NOW})
    plan = planned(a_scene(nodes, pods), state, replace(installed.SCALE_DOWN, min_evaluated=1), after=10, stop=lambda: True)
    assert removable(plan) == ["n3"]


def test_empty_nodes_are_tried_before_all_others() -> None:
    nodes, pods = four_at_a_quarter()
    plan = planned(a_scene([*nodes, N[4]], pods), policy=replace(installed.SCALE_DOWN, min_evaluated=1), stop=lambda: True)
    assert removable(plan) == ["n5"]


# --- nodes that cannot go -------------------------------------------------------------------------------------------------


def test_a_node_whose_pods_fit_nowhere_is_remembered_with_the_time() -> None:
    pods = [replica("a", "n1", "2"), replica("b", "n2", "3")]
    plan = planned(a_scene(N[:2], pods))
    failure = plan.state.non_candidate_set[NodeName("n1")]
    assert (failure.at, failure.kept.unremovable_reason, failure.kept.blocked_by) == (
        NOW,
        UnremovableReason.NO_PLACE,
        pods[0].key,
    )
    assert failure.kept.detail == "1 Insufficient resources"


def test_it_is_not_tried_again_for_a_while_and_then_it_is() -> None:
    pods = [replica("a", "n1", "1500m"), replica("b", "n2", "3")]
    first = planned(a_scene(N[:2], pods))
    roomy = a_scene(N[:3], [*pods, replica("c", "n3", "2500m", owner=None)])
    again = planned(roomy, first.state, after=299)
    assert kept(again)["n1"] == "RecentlyUnremovable"
    assert "299 s ago: NoPlaceToMovePods" in again.kept[0].detail
    later = planned(roomy, again.state, after=300)
    assert "n1" in removable(later)
    assert later.state.non_candidate_set == {}


def test_a_node_that_a_budget_held_is_tried_again_in_the_next_loop() -> None:
    pods = [replica("a", "n1"), replica("b", "n2", "2500m")]
    first = planned(a_scene(N[:2], pods, budgets=[a_budget("web", allowed=0, app="web")]))
    assert (kept(first)["n1"], first.state.non_candidate_set[NodeName("n1")].at) == ("NotEnoughPdb", NOW)
    second = planned(a_scene(N[:2], pods, budgets=[a_budget("web", allowed=1, app="web")]), first.state, after=10)
    assert (removable(second), second.state.non_candidate_set) == (["n1"], {})


def test_a_pod_that_no_rule_lets_go_keeps_its_node() -> None:
    alone = replica("alone", "n1", owner=None)
    plan = planned(a_scene(N[:2], [alone]))
    assert kept(plan) == {"n1": "NotReplicated"}
    assert plan.state.non_candidate_set[NodeName("n1")].kept.blocked_by == alone.key


def test_a_failed_trial_is_undone_before_the_next_node_is_tried() -> None:
    pods = [replica("a", "n1", "1"), replica("a2", "n1", "500m", owner=None), replica("b", "n2"), replica("c", "n3", "3")]
    plan = planned(a_scene(N[:3], pods))
    assert (removable(plan), moves(plan)) == (["n2"], {"b": "n3"})


# --- hints ----------------------------------------------------------------------------------------------------------------


def test_where_pods_would_go_is_remembered_by_source_node_and_pod() -> None:
    nodes, pods = four_at_a_quarter()
    plan = planned(a_scene(nodes, pods))
    assert plan.state.pod_destination_hints == {
        "n1": {"uid-a": "n4"},
        "n2": {"uid-b": "n4"},
        "n3": {"uid-c": "n4"},
    }


def test_a_pod_goes_where_the_loop_before_saw_it_if_it_still_fits() -> None:
    pods = [replica("a", "n1"), replica("b", "n2", "2500m"), replica("c", "n3", "2500m")]
    hinted = ScaleDownState(pod_destination_hints={NodeName("n1"): {PodUid("uid-a"): NodeName("n2")}})
    assert moves(planned(a_scene(N[:3], pods), hinted)) == {"a": "n2"}
    assert moves(planned(a_scene(N[:3], [pods[0], replica("b", "n2", "3500m"), pods[2]]), hinted)) == {"a": "n3"}


# --- nodes that are being removed --------------------------------------------------------------------------------------------


def test_pods_of_nodes_that_are_being_removed_get_their_places_first() -> None:
    nodes, pods = four_at_a_quarter()
    first = planned(a_scene(nodes, pods))
    state = first.state.begun([NodeName("n1")], NOW)
    assert set(state.candidate_set) == {"n2", "n3"}
    plan = planned(a_scene(nodes, pods), state, after=10)
    assert plan.state.pod_destination_hints[NodeName("n1")] == {"uid-a": "n4"}
    assert (removable(plan), plan.state.deleted_set) == (["n2", "n3"], {"n1": NOW})


def test_their_pods_go_where_the_loop_before_saw_them_too_and_elsewhere_if_they_no_longer_fit() -> None:
    pods = [replica("a", "n1"), replica("b", "n2", "2500m"), replica("c", "n3", "2500m")]
    hints = {NodeName("n1"): {PodUid("uid-a"): NodeName("n2")}}
    state = ScaleDownState(deleted_set={NodeName("n1"): NOW}, pod_destination_hints=hints)
    plan = planned(a_scene(N[:3], pods), state)
    assert plan.state.pod_destination_hints == hints
    fuller = planned(a_scene(N[:3], [pods[0], replica("b", "n2", "3500m"), pods[2]]), state)
    assert fuller.state.pod_destination_hints == {"n1": {"uid-a": "n3"}}


def test_if_they_fit_nowhere_any_more_there_are_no_candidates_and_the_plan_says_why() -> None:
    pods = [replica("a", "n1", "3"), replica("b", "n2", "2"), replica("c", "n3", "3"), replica("e", "n4")]
    state = ScaleDownState(deleted_set={NodeName("n1"): NOW}, candidate_set={NodeName("n4"): NOW})
    plan = planned(a_scene([N[0], N[1], N[2]], pods[:3]), state)
    assert plan.homeless is not None
    assert (plan.homeless.unremovable_reason, plan.homeless.blocked_by) == (
        UnremovableReason.LEAVING_PODS_HOMELESS,
        pods[0].key,
    )
    assert (plan.removable, dict(plan.state.candidate_set)) == ((), {})
    assert kept(plan)["n2"] == "LeavingPodsNoLongerFit"


def test_budgets_are_not_asked_about_them_but_count_them() -> None:
    nodes, pods = four_at_a_quarter()
    state = ScaleDownState(deleted_set={NodeName("n1"): NOW})
    one = planned(a_scene(nodes, pods, budgets=[a_budget("web", allowed=1, app="web")]), state)
    assert (one.homeless, removable(one)) == (None, [])
    two = planned(a_scene(nodes, pods, budgets=[a_budget("web", allowed=2, app="web")]), state)
    assert removable(two) == ["n2"]
    none = planned(a_scene(nodes, pods, budgets=[a_budget("web", allowed=0, app="web")]), state)
    assert none.homeless is None


def test_pods_that_are_evicted_already_are_not_counted_twice() -> None:
    ending = replica("a", "n1", "3", deleting=True)
    pods = [ending, replica("a-again", "n2", "3"), replica("c", "n3")]
    plan = planned(a_scene(N[:3], pods), ScaleDownState(deleted_set={NodeName("n1"): NOW}))
    assert (plan.homeless, removable(plan)) == (None, ["n3"])


# --- disruption budgets ---------------------------------------------------------------------------------------------------


def test_what_the_pods_of_one_node_take_of_a_budget_the_next_node_lacks() -> None:
    nodes, pods = four_at_a_quarter()
    plan = planned(a_scene(nodes, pods, budgets=[a_budget("web", allowed=2, app="web")]))
    assert removable(plan) == ["n1", "n2"]
    assert kept(plan)["n3"] == "NotEnoughPdb"


def test_a_pod_that_is_not_healthy_is_subtracted_once() -> None:
    """The budget's own number has left it out already: moving it costs nothing more."""
    nodes, pods = four_at_a_quarter()
    pods[0] = structs.replace(pods[0], ready=False)
    plan = planned(a_scene(nodes, pods, budgets=[a_budget("web", allowed=1, app="web")]))
    assert removable(plan) == ["n1", "n2"]


# --- minima ---------------------------------------------------------------------------------------------------------------


def test_no_group_is_planned_below_its_minimum() -> None:
    nodes = N[:4]
    plan = planned(a_scene(nodes, groups=[a_group(nodes, smallest=3)]))
    assert removable(plan) == ["n1"]
    assert kept(plan) == dict.fromkeys(("n2", "n3", "n4"), "NodeGroupMinSizeReached")


def test_nodes_that_are_being_removed_count_against_the_minimum() -> None:
    nodes = N[:4]
    state = ScaleDownState(deleted_set={NodeName("n4"): NOW})
    assert removable(planned(a_scene(nodes, groups=[a_group(nodes, smallest=3)]), state)) == []


def test_the_unneeded_nodes_of_each_group_are_counted() -> None:
    nodes, pods = four_at_a_quarter()
    assert planned(a_scene(nodes, pods)).unneeded == {"pool": 3}


def test_times_survive_a_restart_in_taints() -> None:
    candidate = machine("n1", taints=(Taint("DeletionCandidateOfClusterAutoscaler", str(int(NOW) - 500), "PreferNoSchedule"),))
    leaving = machine("n2", taints=(Taint("ToBeDeletedByClusterAutoscaler", str(int(NOW) - 60), "NoSchedule"),))
    state = restored([candidate, leaving, machine("n3")], now=NOW, longest_seconds=3600)
    assert (state.since(NodeName("n1")), state.candidate_set) == (NOW - 500, {})
    assert state.deleted_set == {"n2": NOW - 60}
    plan = planned(a_scene([candidate, leaving, machine("n3")]), state)
    assert plan.state.candidate_set == {NodeName("n1"): UnixTime(NOW - 500), NodeName("n3"): NOW}


def test_a_taint_without_a_time_or_with_an_old_one_is_ignored() -> None:
    texts = ("", "soon", str(int(NOW) + 5), str(int(NOW) - 3601))
    nodes = [
        machine(f"n{number}", taints=(Taint("DeletionCandidateOfClusterAutoscaler", text, "PreferNoSchedule"),))
        for number, text in enumerate(texts)
    ]
    assert restored(nodes, now=NOW, longest_seconds=3600) == ScaleDownState()


def test_after_a_restart_no_node_has_been_unneeded_for_longer_than_it_is_there() -> None:
    """The clock of the process before was behind."""
    taint = Taint("DeletionCandidateOfClusterAutoscaler", str(int(NOW) - 3000), "PreferNoSchedule")
    nodes = [structs.replace(machine(f"n{age}", taints=(taint,)), created_at=UnixTime(NOW - age)) for age in (100, 5000)]
    ahead = structs.replace(machine("ahead", taints=(taint,)), created_at=UnixTime(NOW + 50))
    state = restored([*nodes, ahead], now=NOW, longest_seconds=3600)
    assert state.unreached == {"n100": NOW - 100, "n5000": NOW - 3000, "ahead": NOW}
