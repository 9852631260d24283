"""What the parallel-drain proposal says of pods that were evicted a moment ago: they keep their room until they are back."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from slackwater.controllers.scaledown.state import ScaleDownState
from slackwater.model.ids import NodeName
from slackwater.model.reasons import UnremovableReason
from tests.support import installed
from tests.support.removing import (
    NOW,
    WEB_KEY,
    a_scene,
    kept,
    machine,
    planned,
    removable,
    replica,
)

N = [machine(f"n{number}") for number in range(1, 7)]
ALL_TRIED = replace(installed.SCALE_DOWN, min_evaluated=0)


def an_eviction(cpu: str = "3", **more: Any) -> ScaleDownState:
    return ScaleDownState().evicted(replica("gone", "n9", cpu, **more), NOW)


def test_a_pod_that_was_just_evicted_keeps_its_room() -> None:
    plan = planned(a_scene(N[:2]), an_eviction())
    assert (removable(plan), kept(plan)) == (["n1"], {"n2": "DestinationOfOtherPods"})


def test_a_pod_that_was_evicted_n_seconds_ago_is_forgotten() -> None:
    plan = planned(a_scene(N[:2]), an_eviction(), after=60)
    assert (removable(plan), plan.state.recent_evictions) == (["n1", "n2"], ())
    assert len(planned(a_scene(N[:2]), an_eviction(), after=59).state.recent_evictions) == 1


def test_if_it_fits_nowhere_there_are_no_candidates() -> None:
    pods = [replica("b", "n1", "2"), replica("c", "n2", "2")]
    plan = planned(a_scene(N[:2], pods), an_eviction())
    assert plan.homeless is not None
    assert (plan.homeless.unremovable_reason, plan.removable) == (UnremovableReason.EVICTED_PODS_HOMELESS, ())


def test_a_pod_whose_controller_has_all_its_replicas_is_not_missed() -> None:
    made = replica("new", "n3", "3")
    again = planned(a_scene(N[:3], [made], replicas={WEB_KEY: 1}), an_eviction())
    assert (removable(again), kept(again)) == (["n1", "n2"], {"n3": "NotUnderutilized"})
    scaled_down = planned(a_scene(N[:2], replicas={WEB_KEY: 0}), an_eviction())
    assert removable(scaled_down) == ["n1", "n2"]


def test_no_more_are_missed_than_the_controller_wants_and_has_not() -> None:
    state = ScaleDownState()
    for name in ("a", "b", "c"):
        state = state.evicted(replica(name, "n9", "3"), NOW)
    nodes = N[:4]
    assert removable(planned(a_scene(nodes, replicas={WEB_KEY: 2}), state)) == ["n1", "n2"]
    assert removable(planned(a_scene(nodes, replicas={WEB_KEY: 9}), state)) == ["n1"]


@pytest.mark.parametrize("reported", [False, True])
def test_a_pod_that_was_just_evicted_has_one_place_whether_the_watch_has_shown_it_or_not(reported: bool) -> None:
    ending = replica("a", "n4", "3", deleting=reported)
    state = ScaleDownState(deleted_set={NodeName("n4"): NOW}).evicted(ending, NOW)
    plan = planned(a_scene(N[:4], [ending], replicas={WEB_KEY: 1}), state)
    assert kept(plan) == {"n3": "DestinationOfOtherPods", "n4": "CurrentlyBeingDeleted"}
    assert removable(plan) == ["n1", "n2"]


def test_a_pod_without_a_known_controller_is_always_missed() -> None:
    plan = planned(a_scene(N[:2], replicas={WEB_KEY: 0}), an_eviction(owner=None))
    assert removable(plan) == ["n1"]


@pytest.mark.parametrize("where", ["on a node", "pending"])
def test_where_the_number_is_unknown_pods_created_since_replace_the_evicted(where: str) -> None:
    made_at = "2027-01-15T08:00:00Z"  # NOW
    new = replica("new", "n2" if where == "on a node" else None, "3", created_at=made_at)
    old = structs.replace(new, created_at="2027-01-15T07:59:00Z")
    arriving = frozenset({NodeName("n2")})
    for made, want in ((new, ["n1", "n3"]), (old, ["n1"])):
        scenario = a_scene(
            N[:3],
            [made] if made.node else [],
            pending=[] if made.node else [made],
            arriving=frozenset() if made.node else arriving,
        )
        assert removable(planned(scenario, an_eviction())) == want, made.created_at


def test_an_evicted_pod_keeps_its_place_from_loop_to_loop_so_that_candidates_keep_their_time() -> None:
    ending = replica("gone", "n4", "3")
    hints = {NodeName("n4"): {ending.uid: NodeName("n2")}}
    state = ScaleDownState(deleted_set={NodeName("n4"): NOW}, pod_destination_hints=hints).evicted(ending, NOW)
    for loop in range(4):
        plan = planned(a_scene(N[:4]), state, after=10.0 * loop)
        assert (removable(plan), kept(plan)["n2"]) == (["n1", "n3"], "DestinationOfOtherPods"), loop
        assert plan.state.pod_destination_hints[NodeName("n4")] == {ending.uid: "n2"}, loop
        state = plan.state
    assert set(state.candidate_set.values()) == {NOW}
    gone = planned(a_scene(N[:3]), state.ended(NodeName("n4")), after=40.0)
    assert NodeName("n4") not in gone.state.pod_destination_hints
