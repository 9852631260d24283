"""KEP-4832, "Consideration to race condition": pod1's preemption on node n runs while pod2 is scheduled; each by priority."""

import pytest

from slackwater.model.ids import NodeName
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from tests.support.builders import a_node, a_pod
from tests.support.preempting import Cluster

N = NodeName("n")


def a_race(*, second: int, second_cpu: str = "1900m", victims: int = 2) -> tuple[Cluster, Pod, Pod, list[Pod]]:
    """Node n has 3900m; two victims of 1900m fill it. pod1 (priority 5) asks 1900m and has begun; pod2 comes."""
    dying = [a_pod(f"v{number}", on="n", cpu="1900m", priority=number) for number in range(victims)]
    pod1, pod2 = a_pod("pod1", cpu="1900m", priority=5), a_pod("pod2", cpu=second_cpu, priority=second)
    cluster = Cluster(a_node("n"), *dying, pod1, pod2)
    assert cluster.filter(pod1) == [Reason.GATED]
    return cluster, pod1, pod2, dying


@pytest.mark.parametrize("priority", [5, 0], ids=["equal", "lower"])
def test_scheduling_of_no_more_important_pods_does_not_rob_pod1_of_its_place(priority: int) -> None:
    cluster, pod1, pod2, dying = a_race(second=priority)
    cluster.serve()
    assert cluster.deleted == ["v0"]
    assert cluster.filter(pod2) == [Reason.GATED if priority == 5 else Reason.HELD_FOR_OTHERS]
    assert cluster.filter(pod1) == [Reason.OK]
    assert cluster.state_machine.bind(pod1.uid, pod1.key, N, cluster.at).reason is Reason.OK
    assert dying[1].uid in cluster.pods


def test_scheduling_of_a_more_important_pod_may_take_the_place() -> None:
    cluster, pod1, pod2, _ = a_race(second=9)
    cluster.serve()
    assert cluster.filter(pod2) == [Reason.OK], "pod1's nomination is not for it"
    assert cluster.state_machine.bind(pod2.uid, pod2.key, N, cluster.at).reason is Reason.OK
    cluster.change(pod2, node=N)
    assert cluster.filter(pod1) == [Reason.GATED], "and pod1 preempts the other victim"
    cluster.serve()
    assert cluster.deleted == ["v0", "v1"]
    assert cluster.filter(pod1) == [Reason.OK]


@pytest.mark.parametrize("priority", [5, 1], ids=["equal", "lower"])
def test_a_preemption_of_no_more_important_pods_makes_room_for_both(priority: int) -> None:
    cluster, pod1, pod2, _ = a_race(second=priority)
    codes = cluster.filter(pod2)
    if priority == 1:
        assert codes == [Reason.NOT_ENOUGH_CPU], "v1 is as important, and v0's room is pod1's"
        return
    assert codes == [Reason.GATED]
    cluster.serve()
    assert cluster.deleted == ["v0", "v1"], "each once"
    assert cluster.filter(pod1) == [Reason.OK]
    assert cluster.filter(pod2) == [Reason.OK]
    for pod in (pod1, pod2):
        assert cluster.state_machine.bind(pod.uid, pod.key, N, cluster.at).reason is Reason.OK


def test_a_preemption_of_a_more_important_pod_takes_the_same_victims_and_pod1_tries_again() -> None:
    cluster, pod1, pod2, _ = a_race(second=9)
    assert cluster.filter(pod2) == [Reason.GATED]
    cluster.serve()
    assert cluster.deleted == ["v0"], "the same victim, one flight"
    assert cluster.filter(pod2) == [Reason.OK]
    cluster.state_machine.bind(pod2.uid, pod2.key, N, cluster.at)
    cluster.change(pod2, node=N)
    assert cluster.filter(pod1) == [Reason.GATED]
    cluster.serve()
    assert cluster.deleted == ["v0", "v1"]


def test_a_shared_victim_is_still_deleted_when_the_first_preemption_ends_before_it_began() -> None:
    cluster, pod1, pod2, _ = a_race(second=9)
    assert cluster.filter(pod2) == [Reason.GATED]
    cluster.goes(pod1)
    cluster.serve()
    assert cluster.deleted == ["v0"]
    assert cluster.filter(pod2) == [Reason.OK]


def test_a_shared_victim_that_cannot_be_deleted_opens_both_gates() -> None:
    cluster, pod1, pod2, _ = a_race(second=9)
    cluster.filter(pod2)
    cluster.serve(victims="refused")
    assert not cluster.gated(pod1)
    assert not cluster.gated(pod2)
    assert cluster.held("n") == 0


def test_the_preempt_verb_picks_no_second_victims_while_the_gate_is_shut() -> None:
    cluster, pod1, _, dying = a_race(second=9)
    assert cluster.preempt(pod1, n=[dying[1]]) == []
    cluster.serve(gone=False)
    assert cluster.preempt(pod1, n=[dying[1]]) == []


def test_no_preemption_of_ours_begins_while_kube_schedulers_own_runs() -> None:
    victim, other = a_pod("v", on="n", cpu="3"), a_pod("w", on="m", cpu="3")
    pod = a_pod("p", cpu="2", priority=5)
    cluster = Cluster(a_node("n"), a_node("m"), victim, other, pod)
    assert cluster.preempt(pod, n=[victim]) == ["n"]
    assert cluster.filter(pod) == [Reason.NOT_ENOUGH_CPU, Reason.NOT_ENOUGH_CPU]
    cluster.change(victim, deleting=True)
    cluster.after(30)
    assert cluster.filter(pod) == [Reason.NOT_ENOUGH_CPU, Reason.NOT_ENOUGH_CPU]
    cluster.goes(victim)
    assert cluster.filter(pod) == [Reason.OK, Reason.NOT_ENOUGH_CPU]
    cluster.serve()
    assert cluster.deleted == []


# --- kube-scheduler's own preemption, through the preempt verb ------------------------------------------------------------


def in_tree(*more: Pod) -> tuple[Cluster, Pod, Pod]:
    """kube-scheduler preempts the victim on `n` for the pod; the verb has agreed."""
    victim, pod = a_pod("v", on="n", cpu="3"), a_pod("p", cpu="3", priority=9)
    cluster = Cluster(a_node("n"), victim, pod, *more)
    assert cluster.preempt(pod, n=[victim]) == ["n"]
    return cluster, victim, pod


def test_room_that_kube_scheduler_makes_is_kept_for_its_preemptor() -> None:
    cluster, victim, pod = in_tree(small := a_pod("small", cpu="500m"))
    assert cluster.filter(small) == [Reason.HELD_FOR_OTHERS]
    cluster.change(pod, nominated_node=NodeName("n"))
    cluster.change(victim, deleting=True)
    cluster.after(30)
    assert cluster.held("n") == 3000
    assert cluster.filter(pod) == [Reason.NOT_ENOUGH_CPU], "tried too early"
    cluster.goes(victim)
    assert cluster.held("n") == 3000
    assert cluster.filter(pod) == [Reason.OK]
    cluster.state_machine.bind(pod.uid, pod.key, NodeName("n"), cluster.at)
    cluster.change(pod, node=NodeName("n"))
    assert cluster.deleted == [], "kube-scheduler deletes its victims itself"
    assert cluster.at_rest()


def test_a_preemption_of_ours_does_not_count_on_the_room_that_kube_scheduler_makes() -> None:
    """Of equal priority: the other pod would need the same room, so the next victim has to go."""
    second, rival = a_pod("w", on="m", cpu="3", priority=1), a_pod("rival", cpu="3", priority=9)
    cluster, _, _ = in_tree(second, rival)
    cluster.has(a_node("m"))
    assert set(cluster.filter(rival)) == {Reason.GATED}
    cluster.serve()
    assert cluster.deleted == ["w"]


def test_kube_schedulers_choice_among_several_nodes_is_known_from_its_nomination() -> None:
    victims = {node: [a_pod(f"v-{node}", on=node, cpu="3")] for node in ("n", "m")}
    pod = a_pod("p", cpu="3", priority=9)
    cluster = Cluster(a_node("n"), a_node("m"), *(victim for found in victims.values() for victim in found), pod)
    assert set(cluster.preempt(pod, **victims)) == {"n", "m"}
    assert (cluster.held("n"), cluster.held("m")) == (0, 0)
    cluster.change(pod, nominated_node=NodeName("m"))
    assert (cluster.held("n"), cluster.held("m")) == (0, 3000)
    assert cluster.state_machine.preemptions.gated_pods() == {pod.uid}, "it needs no new node"


def test_a_preemption_that_kube_scheduler_gives_up_keeps_no_room() -> None:
    cluster, _, pod = in_tree()
    cluster.after(1.9)
    assert cluster.held("n") == 3000, "its nomination may be on the way"
    cluster.after(0.1)
    assert cluster.held("n") == 0
    assert not cluster.gated(pod)
    assert cluster.at_rest()


def test_kube_scheduler_may_propose_again_and_counts_with_the_room_kept_for_it() -> None:
    cluster, victim, pod = in_tree()
    cluster.after(2.5)
    assert cluster.preempt(pod, n=[victim]) == ["n"]
    assert cluster.preempt(pod, n=[victim]) == ["n"]
    assert cluster.held("n") == 3000


def test_a_preemptor_of_kube_schedulers_that_goes_leaves_nothing_behind() -> None:
    cluster, victim, pod = in_tree()
    cluster.change(pod, nominated_node=NodeName("n"))
    cluster.change(victim, deleting=True)
    cluster.goes(pod)
    assert cluster.held("n") == 0
    assert cluster.at_rest()


@pytest.fixture
def early() -> tuple[Cluster, Pod, Pod]:
    """3900m of which 900m are free: the pod was let pass on `n` although the victim that was agreed to is still there."""
    victim, pod = a_pod("v", on="n", cpu="3"), a_pod("p", cpu="500m", priority=9)
    cluster = Cluster(a_node("n"), victim, pod)
    assert cluster.preempt(pod, n=[victim]) == ["n"]
    assert victim.uid in cluster.state_machine.preemptions.awaited_by
    assert cluster.filter(pod) == [Reason.OK]
    return cluster, victim, pod


def test_a_preemptor_with_a_feasible_node_no_longer_waits_for_its_victims(early: tuple[Cluster, Pod, Pod]) -> None:
    cluster, victim, pod = early
    assert victim.uid not in cluster.state_machine.preemptions.awaited_by
    assert [found.waiting for _, found in cluster.state_machine.preemptions.items()] == [set()]
    cluster.state_machine.bind(pod.uid, pod.key, N, cluster.at)
    cluster.change(pod, node=N)
    assert cluster.at_rest()


def test_a_preemptor_that_passed_filter_early_and_was_never_bound_keeps_its_room_no_longer_than_others(
    early: tuple[Cluster, Pod, Pod],
) -> None:
    cluster, _, _ = early
    cluster.after(74.9)
    cluster.serve()
    assert cluster.held("n") == 500
    cluster.after(0.1)
    cluster.serve()
    assert cluster.held("n") == 0


def test_a_victim_that_stays_fails_no_preemptor_that_passed_filter_early(early: tuple[Cluster, Pod, Pod]) -> None:
    """A rival sends for the same pod, and the API server refuses: that says nothing of the room that the first one has."""
    cluster, victim, _ = early
    rival = a_pod("rival", cpu="3", priority=5)
    cluster.has(rival)
    assert cluster.filter(rival) == [Reason.GATED]
    cluster.serve(victims="refused")
    assert cluster.deleted == ["v"]
    assert not cluster.gated(rival)
    assert [uid for uid, _ in cluster.state_machine.preemptions.items()] == ["uid-p"]
    assert victim.uid in cluster.pods
