"""Whatever the cluster: all candidates can really go together, one after another, and the next loop sees it the same way.

The plan is replayed on cluster states that are rebuilt for each node: no forks, no trials, no memory of what was tried
before.
"""

from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.controllers.scaledown.state import ScaleDownPlan, ScaleDownState
from slackwater.fit.assumed_claims import assume_claims
from slackwater.fit.feasible_nodes import feasible
from slackwater.fit.remaining_pdb_tracker import Disruptions
from slackwater.model.ids import NodeName, Row
from slackwater.model.objects import DisruptionBudget, Pod, Taint
from slackwater.snapshot.running_pods import RunningPods
from tests.laws.fit.test_evacuate_laws import a_snapshot, clusters
from tests.support import installed
from tests.support.builders import a_budget
from tests.support.removing import POOL, a_group, planned
from tests.support.smallclusters import SmallCluster

LAW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ANYTHING = replace(installed.SCALE_DOWN, utilization_threshold=1.0)
COUNTS = st.sampled_from((0, 1, 2, 9))


def a_scene(cluster: SmallCluster, budgets: list[DisruptionBudget], smallest: int) -> PlanningInput:
    snapshot = a_snapshot(cluster, cluster.running_pods, cluster.storage)
    group = a_group(cluster.nodes, smallest=smallest)
    return PlanningInput(
        snapshot=snapshot,
        running_pods=RunningPods(snapshot, cluster.running_pods),
        groups={POOL: group},
        group_of={node.name: POOL for node in cluster.nodes},
        budgets=tuple(budgets),
    )


def budgets_of(counts: tuple[int, int]) -> list[DisruptionBudget]:
    return [a_budget(app, allowed=count, app=app) for app, count in zip(("a", "b"), counts, strict=True)]


def replay(cluster: SmallCluster, plan: ScaleDownPlan) -> None:
    """Node by node: tainted, emptied, every pod put where the plan says, then gone."""
    at: dict[str, NodeName] = {}
    gone: list[NodeName] = []
    storage = cluster.storage
    for found in plan.removable:
        moving = {pod.uid for pod, _ in found.moves}
        nodes = [
            structs.replace(node, taints=(*node.taints, Taint("ToBeDeletedByClusterAutoscaler", "", "NoSchedule")))
            if node.name == found.node
            else node
            for node in cluster.nodes
        ]
        running_pods = [
            structs.replace(pod, node=at.get(pod.uid, pod.node), deleting=pod.deleting and pod.uid not in at)
            for pod in cluster.running_pods
            if pod.uid not in moving and (pod.uid in at or pod.node not in (*gone, found.node))
        ]
        snapshot = a_snapshot(replace(cluster, nodes=nodes), running_pods, storage)
        for name in gone:
            snapshot.close(snapshot.facts.row_of[name])
        for pod, to in found.moves:
            row = snapshot.facts.row_of[to]
            kind = snapshot.kind_id(pod.kind, pod.labels)
            assert feasible(snapshot, kind).feasible[row], (found.node, pod.key, to)
            assert to not in gone
            assume_claims(snapshot, kind, Row(row))
            snapshot.place(kind, row)
            at[pod.uid] = to
        storage = snapshot.volumes.assumed()
        gone.append(found.node)


def own_pods(cluster: SmallCluster, plan: ScaleDownPlan) -> list[list[Pod]]:
    """The pods that each removable node's removal disturbs: those that stand there now."""
    return [[pod for pod, _ in found.moves if pod.node == found.node] for found in plan.removable]


@LAW
@given(clusters(), st.tuples(COUNTS, COUNTS), st.integers(0, 2))
def test_all_candidates_can_go_and_every_pod_fits_where_the_hints_say(
    cluster: SmallCluster, counts: tuple[int, int], smallest: int
) -> None:
    plan = planned(a_scene(cluster, budgets_of(counts), smallest), policy=ANYTHING)
    replay(cluster, plan)
    assert len(cluster.nodes) - len(plan.removable) >= min(smallest, len(cluster.nodes))
    assert {found.node for found in plan.removable}.isdisjoint(to for found in plan.removable for _, to in found.moves)


@LAW
@given(clusters(), st.tuples(COUNTS, COUNTS))
def test_no_node_is_planned_on_a_disruption_that_others_have_taken(cluster: SmallCluster, counts: tuple[int, int]) -> None:
    plan = planned(a_scene(cluster, budgets_of(counts), 0), policy=ANYTHING)
    left = Disruptions(budgets_of(counts))
    for pods in own_pods(cluster, plan):
        for pod in pods:
            healthy = pod.ready and not pod.deleting
            assert not healthy or all(left.left(*budget) >= 1 for budget in left.of(pod))
        left.spend(pods)


@LAW
@given(clusters(), st.tuples(COUNTS, COUNTS))
def test_the_next_loop_finds_the_same_candidates_in_the_same_places(cluster: SmallCluster, counts: tuple[int, int]) -> None:
    planning_input = a_scene(cluster, budgets_of(counts), 0)
    first = planned(planning_input, policy=ANYTHING)
    second = planned(planning_input, first.state, ANYTHING, after=10)
    assert [found.node for found in second.removable] == [found.node for found in first.removable]
    assert second.state.candidate_set == first.state.candidate_set
    assert second.state.pod_destination_hints == first.state.pod_destination_hints


@LAW
@given(clusters())
def test_a_plan_leaves_the_snapshot_as_it_was(cluster: SmallCluster) -> None:
    planning_input = a_scene(cluster, [], 0)
    before = planning_input.snapshot.used.copy()
    planned(planning_input, policy=ANYTHING)
    assert np.array_equal(planning_input.snapshot.used[: len(before)], before)
    assert planned(planning_input, ScaleDownState(), ANYTHING) == planned(a_scene(cluster, [], 0), ScaleDownState(), ANYTHING)
