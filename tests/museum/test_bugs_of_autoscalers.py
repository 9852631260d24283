"""Bugs of autoscalers: each story has to the service and to a naive rule, and goes wrong there.

Sources: k/a#n is https://github.com/kubernetes/autoscaler/issues/n, kp#n https://github.com/kubernetes-sigs/karpenter/issues/n,
aws#n https://github.com/aws/karpenter-provider-aws/issues/n,
k/k#n https://github.com/kubernetes/kubernetes/issues/n, HAMi#n https://github.com/Project-HAMi/HAMi/issues/n.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.controllers.scaledown.state import ScaleDownState, restored
from slackwater.fit.feasible_nodes import feasible
from slackwater.model.events import BudgetSeen, NodeSeen
from slackwater.model.eviction_facts import Owner
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.objects import DisruptionBudget, Node, Pod, Taint
from slackwater.model.pod_constraints import NO_POD_CONSTRAINTS, PodConstraints
from slackwater.model.scheduler_profile import FilterProfile
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from tests.scenarios.test_the_life_of_a_growth import has
from tests.support import installed
from tests.support.builders import a_budget, a_node, a_pod
from tests.support.draining import a_cluster
from tests.support.removing import NOW, a_scene, kept, machine, moves, planned, removable, replica
from tests.support.scaling import Scenario

_CPU = 4000
N = [machine(f"n{number}") for number in range(1, 5)]


def _fits(pod: Pod, others: Sequence[Pod]) -> bool:
    return sum(other.need.cpu for other in others) + pod.need.cpu <= _CPU


def naively_removable(nodes: Sequence[Node], pods: Sequence[Pod]) -> list[str]:
    """Each node is judged by itself: could its pods go to the others as these are now?"""
    there: dict[str, list[Pod]] = {node.name: [pod for pod in pods if pod.node == node.name] for node in nodes}

    def may_go(name: str) -> bool:
        others = [found for other, found in there.items() if other != name]
        return all(any(_fits(pod, found) for found in others) for pod in there[name])

    return [node.name for node in nodes if may_go(node.name)]


def naively_moved(nodes: Sequence[Node], pods: Sequence[Pod], leaving: str) -> Mapping[str, str]:
    """Each pod of the node goes to the first other one with room, whatever is about to happen to that."""
    there: dict[str, list[Pod]] = {node.name: [pod for pod in pods if pod.node == node.name] for node in nodes}
    found: dict[str, str] = {}
    for pod in there.pop(leaving):
        target = next(name for name, others in there.items() if _fits(pod, others))
        there[target].append(pod)
        found[pod.key.name] = target
    return found


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_687_43709_upcoming_nodes_are_not_requested_twice() -> None:
    """k/a#687, k/k#43709: the next loop sees the same pending pods."""
    scenario = Scenario()
    has(scenario, "a")
    scenario.wants_many(5)
    bought = naive = 0
    for _ in range(3):
        naive += scenario.pending()  # a node for each pod that is pending now
        bought += sum((await scenario.loop()).planned.values())
    assert naive == 15
    assert (bought, scenario.sizes()) == (5, {"a": 5})


def test_581_1471_nodes_are_judged_together() -> None:
    """k/a#581, #1471: each could go alone, and all went."""
    pods = [replica("a", "n1", "2"), replica("b", "n2", "2"), replica("c", "n3", "2")]
    assert naively_removable(N[:3], pods) == ["n1", "n2", "n3"]
    assert removable(planned(a_scene(N[:3], pods))) == ["n1"]


def test_6718_no_pod_is_planned_onto_a_node_that_is_being_drained() -> None:
    """k/a#6718."""
    pods = [replica("a", "n1"), replica("b", "n2"), replica("c", "n3"), replica("d", "n4")]
    assert naively_moved([N[1], N[0], N[2], N[3]], pods, "n1") == {"a": "n2"}
    state = ScaleDownState(deleted_set={NodeName("n2"): NOW})
    assert "n2" not in moves(planned(a_scene(N, pods), state)).values()


def test_4115_timers_and_removals_outlive_the_process() -> None:
    """k/a#4115, reported again as #5048 and #5618.

    A restart, or another leader, began all of them again, and nodes tainted for deletion stayed so for ever.
    """
    since = UnixTime(int(NOW) - 500)
    candidate = machine("n1", taints=(Taint("DeletionCandidateOfClusterAutoscaler", str(int(since)), "PreferNoSchedule"),))
    leaving = machine("n2", taints=(Taint("ToBeDeletedByClusterAutoscaler", str(int(since)), "NoSchedule"),))
    naive = ScaleDownState()
    assert (naive.since(NodeName("n1")), dict(naive.deleted_set)) == (None, {})
    state = restored([candidate, leaving], now=NOW, longest_seconds=3600)
    assert (state.since(NodeName("n1")), state.deleted_set) == (since, {NodeName("n2"): since})


def _late_pod(look_again: bool) -> list[str]:
    """A rule in two lines: judged empty, a pod comes, deleted."""
    pods: list[str] = []
    empty = not pods
    pods.append("late")
    return [] if look_again and pods else ["delete n1"] * empty


def test_3185_a_node_that_got_a_pod_in_the_meantime_stays() -> None:
    """kp#3185: a node was deleted with a pod that came while it waited for its deletion."""
    assert _late_pod(look_again=False) == ["delete n1"]
    cluster = a_cluster(N[:2])
    cluster.begin("n1", empty=True)
    cluster.add(replica("late", "n1"))
    cluster.tick(20)
    assert "delete n1" not in cluster.log
    assert cluster.tainted() == []


def test_651_no_pod_is_put_on_a_node_that_is_being_removed() -> None:
    """kp#651: without the taint a scheduler put the evicted pod back where it came from."""
    pods = [replica("a", "n1"), replica("b", "n2")]
    evicted = replica("a-again", "n1")
    untainted = [node.name for node in N[:2] if _fits(evicted, [pod for pod in pods[1:] if pod.node == node.name])]
    assert untainted[0] == "n1"
    cluster = a_cluster(N[:2], pods)
    cluster.begin("n1")
    cluster.tick(20)
    assert cluster.log == ["taint n1", "evict a", "delete n1"]


def _one_after_another(drains: Mapping[str, float]) -> Callable[[float], list[str]]:
    """A queue: what is deleted by a time (seconds), where each drain takes so long."""

    def deleted(by: float) -> list[str]:
        found, at = [], 0.0
        for node, seconds in drains.items():
            at += seconds
            if at <= by:
                found.append(node)
        return found

    return deleted


def test_5117_an_empty_node_does_not_wait_for_a_slow_drain() -> None:
    """k/a#5117."""
    assert _one_after_another({"n1": 3600.0, "n2": 0.0})(60.0) == []
    cluster = a_cluster(N[:3], [replica("slow", "n1")], faults=lambda what: "blocked" if what == "evict slow" else "done")
    cluster.tell(BudgetSeen(a_budget("web", allowed=0, app="web")))
    cluster.begin("n1")
    cluster.begin("n2", empty=True)
    cluster.tick(60)
    assert "delete n2" in cluster.log
    assert "delete n1" not in cluster.log


def naively_evictable(pods: Sequence[Pod], budgets: Sequence[DisruptionBudget]) -> bool:
    """Every budget of each pod allows one, so each may go."""
    allowed = {requirement.values[0]: budget.disruptions_allowed for budget in budgets for requirement in budget.selector or ()}
    return all(allowed.get(dict(pod.labels).get("app", ""), 1) >= 1 for pod in pods)


def test_75957_a_pod_of_two_budgets_is_never_evicted() -> None:
    """k/k#75957: the Eviction API answers 500, whatever the budgets allow, and the node was drained half again and again."""
    pods = [replica("twice", "n1"), replica("innocent", "n1")]
    budgets = [a_budget("own", allowed=1, app="web"), a_budget("everybody's", allowed=1, app="web")]
    assert naively_evictable(pods, budgets)
    plan = planned(a_scene(N[:2], pods, budgets=budgets))
    assert (removable(plan), kept(plan)) == (["n2"], {"n1": "MultiplePdbs"})


def _protected(pod: Pod) -> Pod:
    return structs.replace(pod, eviction_facts=replace(pod.eviction_facts, do_not_disrupt=math.inf))


def test_3594_a_pod_that_must_not_be_disrupted_is_never_evicted() -> None:
    """aws#3594, #5786: consolidation moved pods with the annotation do-not-disrupt, also those that were still starting."""
    pods = [_protected(replica("job", "n1")), _protected(replica("init", "n2", starting=True)), replica("web", "n3")]
    assert naively_removable(N[:3], pods) == ["n1", "n2", "n3"]
    plan = planned(a_scene(N[:3], pods))
    assert (removable(plan), kept(plan)) == (["n3"], {"n1": "DoNotDisruptAnnotation", "n2": "DoNotDisruptAnnotation"})


@pytest.mark.parametrize("empty", [False, True])
def test_3594_a_protection_that_comes_late_ends_the_removal(empty: bool) -> None:
    """aws#3594: the pod, or the annotation on the node, came after the decision."""
    pods = [] if empty else [replica("web", "n1")]
    for late in (_protected(replica("late", "n1", owner=Owner("apps", "DaemonSet", "agent"))), None):
        cluster = a_cluster(N[:2], pods, limits=replace(installed.DRAIN, force=True))
        cluster.begin("n1", empty=empty)
        if late is not None:
            cluster.add(late)
        else:
            cluster.tell(NodeSeen(structs.replace(cluster.nodes["n1"], keep="karpenter.sh/do-not-disrupt")))
        cluster.tick(20)
        assert not {"evict web", "evict late", "delete n1"} & set(cluster.log)
        assert cluster.tainted() == []


def naively_fitting(pod: Pod, nodes: Sequence[Node]) -> list[str]:
    """Every request is compared with what the node offers, as an autoscaler does that never reads the scheduler's file."""
    asked = dict((pod.kind.pod_constraints or NO_POD_CONSTRAINTS).scalars)
    return [node.name for node in nodes if all(dict(node.scalars).get(name, 0) >= amount for name, amount in asked.items())]


def test_1099_resources_that_an_extender_manages_are_not_what_a_node_lacks() -> None:
    """HAMi#1099: GPU memory is managed by an extender, and no node offers it. kube-scheduler ignores it
    (`ignoredByScheduler`); autoscalers found no node for the pods, and grew a group whose nodes did not offer it either."""
    asks = PodConstraints(scalars=(("nvidia.com/gpu", 1), ("nvidia.com/gpumem", 3000)))
    pod = a_pod("infer", cpu="1")
    pod = structs.replace(pod, kind=replace(pod.kind, pod_constraints=asks))
    node = structs.replace(a_node("gpu-0"), scalars=(("nvidia.com/gpu", 10), ("pods", 110)))
    assert naively_fitting(pod, [node]) == []
    hami = FilterProfile(ignored_resources=frozenset({"nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"}))
    snapshot = ClusterSnapshot.build([node], [pod], profiles={"slackwater": hami})
    assert feasible(snapshot, snapshot.kind_id(pod.kind)).rows.tolist() == [0]
    by_default = ClusterSnapshot.build([node], [pod])
    assert feasible(by_default, by_default.kind_id(pod.kind)).rows.tolist() == []
