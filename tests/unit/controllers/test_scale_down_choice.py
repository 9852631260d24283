"""Which nodes go first, which begin now, and which keep a mark: on plans of small clusters."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from slackwater.controllers.scaledown.batch import RemovalBatch, RunningRemovals, choose_batch
from slackwater.controllers.scaledown.drains.running_drains import drains_to_give_up
from slackwater.controllers.scaledown.policy import ScaleDownPolicy
from slackwater.controllers.scaledown.state import KeptNode, Removable, ScaleDownPlan, ScaleDownState, soft_taints
from slackwater.model.effects import MarkNode, UnmarkNode
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import NodeName, PodKey, UnixTime
from slackwater.model.nodegroups import GroupOptions
from slackwater.model.objects import Taint
from slackwater.model.reasons import UnremovableReason
from tests.support import installed
from tests.support.builders import a_budget, a_vertical
from tests.support.removing import NOW, POOL, a_group, a_scene, machine, planned, removable, replica

# --- score ----------------------------------------------------------------------------------------------------------------


def test_the_largest_waste_goes_first_so_the_least_stays() -> None:
    """Cluster Autoscaler ends this one at 6 or 11 CPU, by chance (its own efficiency benchmark)."""
    sizes = {"a1": "1", "a2": "1", "b1": "4", "b2": "4", "b3": "4", "c1": "9"}
    nodes = [machine(name, cpu) for name, cpu in sizes.items()]
    pods = [replica(f"on-{name}", name) for name in sizes]
    plan = planned(a_scene(nodes, pods), policy=replace(installed.SCALE_DOWN, utilization_threshold=0.75))
    stays = sorted(set(sizes) - set(removable(plan)))
    assert sum(int(sizes[name]) for name in stays) == 6


def test_in_list_order_the_first_feasible_nodes_go() -> None:
    nodes = [machine("small", "2"), machine("large", "8")]
    pods = [replica("a", "small", "1"), replica("b", "large", "1")]
    assert removable(planned(a_scene(nodes, pods))) == ["large"]
    assert removable(planned(a_scene(nodes, pods), policy=replace(installed.SCALE_DOWN, choice="list"))) == ["small"]


def weighed(*pods: Any, budgets: Any = ()) -> Any:
    plan = planned(a_scene([machine("n1"), machine("n2", "64", keep="its annotation")], list(pods), budgets=budgets))
    return next(found.removal_score for found in plan.removable if found.node == "n1")


def test_what_is_disturbed_is_weighed_pod_by_pod() -> None:
    new: dict[str, Any] = {"created_at": "2027-01-15T08:00:00Z"}
    assert weighed().disruption_cost == 0
    one = weighed(replica("a", "n1", **new))
    assert (one.disruption_cost, one.pods, one.restarts) == (2.0, 1, 1)
    assert weighed(replica("a", "n1", **new), replica("b", "n1", **new)).disruption_cost == 4.0
    assert weighed(replica("a", "n1", created_at="2027-01-14T20:00:00Z")).disruption_cost == 2.5
    machine_pod = structs.replace(replica("m", "n1", **new), vertical=a_vertical(auto_migrate=True))
    assert (weighed(machine_pod).disruption_cost, weighed(machine_pod).restarts) == (1.0, 0)
    tight = weighed(replica("a", "n1", **new), budgets=[a_budget("web", allowed=1, app="web")])
    assert (tight.disruption_cost, tight.tight) == (2.5, 1)
    owner = Owner("apps", "ReplicaSet", "web")
    dear = structs.replace(replica("a", "n1", **new), eviction_facts=EvictionFacts(owner=owner, deletion_cost=100))
    cheap = structs.replace(dear, eviction_facts=EvictionFacts(owner=owner, deletion_cost=-100))
    assert (weighed(dear).disruption_cost, weighed(cheap).disruption_cost) == (2.5, 1.5)


def test_the_removal_score_of_a_node_is_explained_in_words() -> None:
    assert weighed(replica("a", "n1", created_at="2027-01-15T07:00:00Z")).words() == (
        "saves 0.56 nodes, disruption cost 2.0: 1 pods move, 1 restart, 0 with a tight budget, "
        "the oldest 1.0 h old; score 0.464"
    )


# --- the batch ------------------------------------------------------------------------------------------------------------


def a_plan(*, empty: int = 0, full: int = 0, **more: Any) -> ScaleDownPlan:
    """Nodes e0.. without pods and f0.. with one each, all in the set since `NOW`."""
    nodes = [machine(f"e{number}") for number in range(empty)] + [machine(f"f{number}") for number in range(full)]
    pods = [replica(f"p{number}", f"f{number}") for number in range(full)]
    stays = machine("stays", "64")
    return planned(a_scene([*nodes, stays], [*pods, replica("s", "stays", "40")]), **more)


def begun(
    plan: ScaleDownPlan,
    policy: ScaleDownPolicy | None = None,
    *,
    removals: int = 0,
    drains: int = 0,
    after: float = 601,
    options: GroupOptions | None = None,
    missing: int = 0,
    **more: Any,
) -> RemovalBatch:
    size = [machine(found.node) for found in plan.removable]
    group = a_group(size, options=options or GroupOptions(), missing=missing)
    under_way = RunningRemovals(removals=removals, drains=drains)
    return choose_batch(plan, {POOL: group}, policy or installed.SCALE_DOWN, under_way, now=UnixTime(NOW + after), **more)


def reasons(batch: RemovalBatch) -> dict[str, int]:
    found: dict[str, int] = {}
    for held in batch.held:
        found[str(held.unremovable_reason)] = found.get(str(held.unremovable_reason), 0) + 1
    return found


def test_empty_nodes_go_up_to_the_parallelism_then_drains_up_to_what_is_left_and_their_own() -> None:
    batch = begun(a_plan(empty=4, full=9), replace(installed.SCALE_DOWN, max_scale_down_parallelism=8, max_drain_parallelism=5))
    assert (len(batch.empty), len(batch.drains), batch.status) == (4, 4, "started")
    batch = begun(a_plan(empty=1, full=9), replace(installed.SCALE_DOWN, max_scale_down_parallelism=8, max_drain_parallelism=5))
    assert (len(batch.empty), len(batch.drains)) == (1, 5)
    assert reasons(batch) == {"ScaleDownThrottled": 4}


def test_what_is_under_way_counts() -> None:
    batch = begun(
        a_plan(empty=9, full=9),
        replace(installed.SCALE_DOWN, max_scale_down_parallelism=10, max_drain_parallelism=5),
        removals=7,
        drains=4,
    )
    assert (len(batch.empty), len(batch.drains)) == (3, 0)
    batch = begun(
        a_plan(full=9),
        replace(installed.SCALE_DOWN, max_scale_down_parallelism=10, max_drain_parallelism=5),
        removals=7,
        drains=4,
    )
    assert (len(batch.empty), len(batch.drains)) == (0, 1)


def test_lengthy_drains_hold_no_empty_node_up() -> None:
    batch = begun(
        a_plan(empty=6, full=2),
        replace(installed.SCALE_DOWN, max_scale_down_parallelism=10, max_drain_parallelism=5),
        removals=5,
        drains=5,
    )
    assert (len(batch.empty), len(batch.drains)) == (5, 0)


def test_with_everything_in_use_the_status_is_throttled_and_never_in_progress() -> None:
    batch = begun(a_plan(empty=1, full=1), removals=10, drains=5)
    assert (batch.nodes, batch.status) == ((), "throttled")
    assert reasons(batch) == {"ScaleDownThrottled": 2}


def test_a_node_goes_after_more_than_its_time_in_the_set() -> None:
    assert begun(a_plan(empty=1), after=600).status == "waiting"
    assert reasons(begun(a_plan(empty=1), after=600)) == {"NotUnneededLongEnough": 1}
    assert begun(a_plan(empty=1), after=600.5).nodes == ("e0",)


def test_a_node_that_is_not_ready_has_a_time_of_its_own() -> None:
    plan = planned(a_scene([machine("n1", ready=False)]))
    assert reasons(begun(plan, after=1200)) == {"NotUnreadyLongEnough": 1}
    assert begun(plan, after=1201).nodes == ("n1",)


def test_a_group_in_cool_down_waits_and_says_why() -> None:
    batch = begun(a_plan(empty=1), cooling={POOL: "it has grown 5 s ago"})
    assert (batch.status, batch.held[0].detail) == ("cooldown", "pool: it has grown 5 s ago")
    assert reasons(batch) == {"ScaleDownInCooldown": 1}


def test_after_a_refused_deletion_an_empty_node_goes_first_or_else_one_with_pods() -> None:
    batch = begun(a_plan(empty=1, full=3), refused={POOL})
    assert (batch.nodes, reasons(batch)) == (("e0",), {"ScaleDownInCooldown": 3})
    assert batch.held[0].detail == "pool: a deletion was refused; e0 goes first"
    batch = begun(a_plan(full=3), refused={POOL})
    assert (len(batch.drains), reasons(batch)) == (1, {"ScaleDownInCooldown": 2})


def test_without_overlap_no_drain_begins_while_anything_is_being_removed_but_empty_nodes_go() -> None:
    cautious = replace(installed.SCALE_DOWN, parallel_drain=False)
    batch = begun(a_plan(empty=1, full=2), cautious, removals=1)
    assert (len(batch.empty), len(batch.drains), reasons(batch)) == (1, 0, {"DrainInProgress": 2})
    assert len(begun(a_plan(full=2), cautious).drains) == 2


def test_one_drain_at_a_time_is_the_old_algorithm() -> None:
    policy = replace(installed.SCALE_DOWN, max_drain_parallelism=1)
    assert len(begun(a_plan(empty=3, full=3), policy).drains) == 1
    assert begun(a_plan(full=3), policy, removals=1, drains=1).status == "throttled"


def test_a_node_with_a_pod_that_runs_to_its_end_is_held() -> None:
    job = structs.replace(replica("job", "n1"), eviction_facts=EvictionFacts(safe_to_evict="on-completion"))
    batch = begun(planned(a_scene([machine("n1")], [job])))
    assert (reasons(batch), batch.held[0].detail) == ({"BlockedByOnCompletionPod": 1}, "default/job")


def test_a_risky_drain_begins_after_the_others() -> None:
    plan = a_plan(full=2)
    first, second = plan.removable
    risky = replace(plan, removable=(replace(first, risky=True), second))
    assert begun(risky, replace(installed.SCALE_DOWN, max_drain_parallelism=1)).nodes == (second.node,)


def test_a_group_that_is_all_or_nothing_goes_as_a_whole_or_not() -> None:
    whole = GroupOptions(all_or_nothing=True)
    few = replace(installed.SCALE_DOWN, max_scale_down_parallelism=2, max_drain_parallelism=1)
    assert reasons(begun(a_plan(empty=3), few, options=whole, missing=1)) == {"AtomicScaleDownFailed": 3}
    assert len(begun(a_plan(empty=3), few, options=whole).empty) == 3
    assert begun(a_plan(empty=3), few, options=whole, removals=2).status == "throttled"


def test_nothing_begins_where_it_is_switched_off_or_pods_are_homeless() -> None:
    assert begun(a_plan(empty=1), replace(installed.SCALE_DOWN, enabled=False)).status == "disabled"
    homeless = KeptNode(node=NodeName("n1"), unremovable_reason=UnremovableReason.EVICTED_PODS_HOMELESS)
    assert begun(replace(a_plan(empty=1), homeless=homeless)).status == "homeless"
    assert begun(ScaleDownPlan(state=ScaleDownState())).status == "no-candidates"


# --- marks ----------------------------------------------------------------------------------------------------------------


def test_candidates_are_marked_with_their_time_and_the_others_lose_their_mark_first() -> None:
    def marked(at: float) -> tuple[Taint, ...]:
        return (Taint("DeletionCandidateOfClusterAutoscaler", str(int(at)), "PreferNoSchedule"),)

    nodes = [machine("new"), machine("known", taints=marked(NOW)), machine("lost", taints=marked(NOW)), machine("plain")]
    state = ScaleDownState(
        candidate_set={NodeName("new"): UnixTime(NOW + 0.7), NodeName("known"): NOW},
        deleted_set={NodeName("plain"): NOW},
    )
    cleared = UnmarkNode(uid=nodes[2].uid, name=NodeName("lost"), taint_key="DeletionCandidateOfClusterAutoscaler")
    written = MarkNode(uid=nodes[0].uid, name=NodeName("new"), taint=marked(NOW)[0])
    assert soft_taints(nodes, state, most=10) == [cleared, written]
    assert soft_taints(nodes, state, most=1) == [cleared]


# --- room that is needed again --------------------------------------------------------------------------------------------


LEAVING = (
    Taint("ToBeDeletedByClusterAutoscaler", "1", "NoSchedule"),
    Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),  # by the node lifecycle controller
)


def test_removals_are_given_up_for_pods_that_fit_nowhere_else_the_latest_first() -> None:
    nodes = [machine(name, taints=LEAVING, unschedulable=True, cordoned_by_us=True) for name in ("n1", "n2", "n3")]
    pending = [replica(f"p{number}", None, "2") for number in range(3)]
    scenario = a_scene(nodes, pending=pending)
    leaving = {NodeName("n1"): NOW, NodeName("n2"): UnixTime(NOW + 5), NodeName("n3"): UnixTime(NOW + 9)}
    assert drains_to_give_up(scenario, leaving, pending) == ("n3", "n2")
    assert drains_to_give_up(scenario, leaving, pending[:2]) == ("n3",)
    assert drains_to_give_up(scenario, leaving, [replica("large", None, "8")]) == ()
    assert drains_to_give_up(scenario, leaving, []) == ()


def test_a_node_that_a_person_cordoned_gives_no_room_by_being_kept() -> None:
    node = machine("n1", taints=LEAVING, unschedulable=True)
    pod = replica("p", None)
    assert drains_to_give_up(a_scene([node], pending=[pod]), {NodeName("n1"): NOW}, [pod]) == ()


@pytest.mark.parametrize("found", [Removable, KeptNode])
def test_what_a_plan_reports_cannot_be_changed(found: type) -> None:
    one = (
        a_plan(empty=1).removable[0]
        if found is Removable
        else KeptNode(node=NodeName("n"), unremovable_reason=UnremovableReason.NO_PLACE)
    )
    with pytest.raises(AttributeError):
        one.node = PodKey("a", "b")  # type: ignore[misc,assignment]
