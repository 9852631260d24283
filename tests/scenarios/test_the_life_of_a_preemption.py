"""A preemption from its decision to the pod's return: every way it can end opens the gate, and nothing of it stays behind."""

from dataclasses import replace

import msgspec
import pytest
from msgspec import structs

from slackwater.app.policies import policy_of
from slackwater.app.settings import Settings, loads
from slackwater.model.effects import Activate, DeleteVictim, Nominate, WritePreempting
from slackwater.model.events import BudgetSeen, NodeSeen, Stopping
from slackwater.model.ids import NodeName
from slackwater.model.objects import OngoingPreemption, Pod
from slackwater.model.reasons import Reason
from tests.support import installed
from tests.support.builders import a_budget, a_node, a_pod, a_vertical, amounts
from tests.support.preempting import POLICY, Cluster

HOUR = 3600.0
N = NodeName("n")


def a_victim(name: str = "v", *, on: str = "n", cpu: str = "3", priority: int = 0) -> Pod:
    return a_pod(name, on=on, cpu=cpu, priority=priority)


def a_preemptor(name: str = "p", *, cpu: str = "2", priority: int = 9) -> Pod:
    return a_pod(name, cpu=cpu, priority=priority)


def test_the_whole_way() -> None:
    victim, pod = a_victim(), a_preemptor()
    cluster = Cluster(a_node("n"), victim, pod)
    assert cluster.filter(pod) == [Reason.GATED]
    text = msgspec.json.encode(OngoingPreemption(N, (victim.uid,))).decode()
    assert list(cluster.asked) == [WritePreempting(pod.uid, pod.key, text)], "first the annotation"
    want_deletion = DeleteVictim(victim.uid, victim.key, pod.key)
    served = cluster.serve(gone=False)
    assert served[1:] == [want_deletion]
    assert cluster.filter(pod) == [Reason.GATED], "the victim takes its time"
    assert cluster.held("n") == 2000
    cluster.goes(victim)
    want = [
        Nominate(pod.uid, pod.key, N),
        Activate(pod.uid, pod.key, "victims-gone"),
        WritePreempting(pod.uid, pod.key, None),
    ]
    assert list(cluster.asked) == want
    assert cluster.filter(pod) == [Reason.OK]
    cluster.state_machine.bind(pod.uid, pod.key, N, cluster.at)
    cluster.serve()
    cluster.change(pod, node=N, preempting=None)
    assert cluster.at_rest()
    assert cluster.held("n") == 0
    counts = cluster.state_machine.preemptions.counts
    assert (counts.attempts, counts.ends) == (1, {"success": 1, "error": 0, "cancelled": 0})


def test_a_preempt_call_that_is_older_than_the_opened_gate_evicts_no_further_pod() -> None:
    """Filter named one node; the victim's end was seen before kube-scheduler proposed somebody on another one."""
    victim, other, pod = a_victim(), a_pod("w", on="m", cpu="4"), a_preemptor()
    cluster = Cluster(a_node("n"), a_node("m"), victim, other, pod)
    assert cluster.filter(pod, "n") == [Reason.GATED]
    cluster.serve()
    assert cluster.deleted == ["v"]
    assert cluster.preempt(pod, m=[other]) == []
    assert cluster.filter(pod, "n", "m") == [Reason.OK, Reason.NOT_ENOUGH_CPU]
    assert cluster.preempt(pod, m=[other]) == ["m"], "it was let pass, and did not go there"


def test_a_grown_machine_is_evicted_for_what_is_reserved_not_for_what_it_uses() -> None:
    grown = structs.replace(a_pod("vm", on="n", cpu="1"), vertical=a_vertical(using=amounts("3", "4Gi"), scaling=False))
    pod = a_preemptor()
    cluster = Cluster(
        a_node("n"), grown, pod, policy=replace(installed.POLICY, preemption=replace(installed.PREEMPTION, enabled=True))
    )
    assert cluster.filter(pod) == [Reason.GATED]
    cluster.serve()
    assert cluster.deleted == ["vm"]
    assert cluster.filter(pod) == [Reason.OK]


def test_where_kube_scheduler_sees_what_we_see_it_preempts_itself() -> None:
    victim, pod = a_victim(), a_preemptor()
    cluster = Cluster(
        a_node("n"), victim, pod, policy=replace(installed.POLICY, preemption=replace(installed.PREEMPTION, enabled=True))
    )
    assert cluster.filter(pod) == [Reason.NOT_ENOUGH_CPU]
    assert cluster.preempt(pod, n=[victim]) == ["n"]


def test_with_the_gate_off_nothing_is_preempted_and_the_preempt_verb_is_answered() -> None:
    settings = loads(
        "apiVersion: config.slackwater.dev/v1alpha1\nkind: SlackwaterConfiguration\nfeatureGates: {AsyncPreemption: false}"
    )
    assert policy_of(Settings()).preemption.enabled
    pod, victim = a_preemptor(), a_victim()
    cluster = Cluster(a_node("n"), victim, pod, policy=replace(POLICY, preemption=policy_of(settings).preemption))
    assert cluster.filter(pod) == [Reason.NOT_ENOUGH_CPU]
    assert not cluster.asked
    assert cluster.preempt(pod, n=[victim]) == ["n"]


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_preemptor(priority=0), id="of-no-more-priority"),
        pytest.param(a_preemptor(cpu="5"), id="larger-than-the-node"),
        pytest.param(
            structs.replace(a_preemptor(), kind=replace(a_preemptor().kind, preempts=False)), id="that-never-preempts"
        ),
        pytest.param(structs.replace(a_preemptor(), deleting=True), id="being-deleted"),
    ],
)
def test_no_pod_is_evicted_for_a_pod(pod: Pod) -> None:
    cluster = Cluster(a_node("n"), a_victim(), pod)
    assert Reason.GATED not in cluster.filter(pod)
    cluster.serve()
    assert cluster.deleted == []


def test_no_pod_is_evicted_for_a_pod_that_fits_on_a_node_outside_the_sample() -> None:
    pod = a_preemptor()
    cluster = Cluster(a_node("n"), a_node("empty"), a_victim(), pod)
    assert cluster.filter(pod, "n") == [Reason.NOT_ENOUGH_CPU]
    cluster.after(1)
    assert cluster.nominated(pod) == ["empty"]
    assert cluster.deleted == []


def test_no_pod_is_evicted_for_room_that_is_only_held() -> None:
    """The first pod holds room on one node, and kube-scheduler may yet give it up; the other node is full of its equals."""
    first, full, pod = a_pod("first", cpu="2", priority=9), a_pod("full", on="m", cpu="4", priority=9), a_preemptor()
    cluster = Cluster(a_node("m"), a_node("n"), a_victim("v", cpu="1"), full, first, pod)
    assert cluster.filter(first, "n") == [Reason.OK]
    assert cluster.filter(pod, "m", "n") == [Reason.NOT_ENOUGH_CPU, Reason.HELD_FOR_OTHERS]
    cluster.serve()
    assert cluster.deleted == []
    cluster.after(76)
    cluster.serve()
    assert cluster.filter(pod, "m", "n") == [Reason.NOT_ENOUGH_CPU, Reason.OK]
    cluster.serve()
    assert cluster.deleted == []


def test_a_pod_that_leaves_anyway_is_awaited_and_no_other_is_evicted() -> None:
    leaving, other, pod = a_victim("leaving"), a_victim("other", on="m"), a_preemptor()
    cluster = Cluster(a_node("m"), a_node("n"), structs.replace(leaving, deleting=True), other, pod)
    assert cluster.filter(pod) == [Reason.GATED, Reason.GATED]
    cluster.serve()
    assert cluster.deleted == []
    cluster.goes(leaving)
    assert cluster.nominated(pod) == ["n"]


def test_a_pod_that_a_kubelet_runs_from_a_file_is_no_victim() -> None:
    static, pod = a_victim(), a_preemptor()
    static = structs.replace(static, eviction_facts=replace(static.eviction_facts, mirror_pod=True))
    cluster = Cluster(a_node("n"), static, pod)
    assert cluster.filter(pod) == [Reason.NOT_ENOUGH_CPU]


# --- every way it can end -------------------------------------------------------------------------------------------------


def comes_to_rest(cluster: Cluster, *pods: Pod) -> None:
    """Whatever is still to happen happens: in the end no room is kept, and no gate is shut."""
    for _ in range(12):
        cluster.serve()
        cluster.after(130.0)
    assert cluster.at_rest()
    for pod in pods:
        assert not cluster.gated(pod)
    assert all(cluster.held(node.name) == 0 for _, node in cluster.state_machine.state.nodes)


def test_the_annotation_cannot_be_written() -> None:
    victim, pod = a_victim(), a_preemptor()
    cluster = Cluster(a_node("n"), victim, pod)
    cluster.filter(pod)
    cluster.serve(annotations=False)
    assert cluster.deleted == [], "nobody was touched"
    assert not cluster.gated(pod)
    assert cluster.held("n") == 0
    comes_to_rest(cluster, pod)


@pytest.mark.parametrize("outcome", ["refused", "unreachable"])
def test_the_api_server_does_not_delete_the_victim(outcome: str) -> None:
    victim, pod = a_victim(), a_preemptor()
    cluster = Cluster(a_node("n"), victim, pod)
    cluster.filter(pod)
    served = cluster.serve(victims="refused" if outcome == "refused" else "unreachable")
    assert Activate(pod.uid, pod.key, "preemption-failed") in served
    assert not cluster.gated(pod)
    assert cluster.held("n") == 0, "the nomination is taken back"
    assert cluster.filter(pod) == [Reason.NOT_ENOUGH_CPU], "not the same again at once"
    assert cluster.state_machine.preemptions.counts.ends["error"] == 1
    cluster.after(61)
    assert "preemption-possible" in cluster.touched(pod), "kube-scheduler would not come back by itself"
    assert cluster.filter(pod) == [Reason.GATED], "but later"
    cluster.serve()
    assert cluster.filter(pod) == [Reason.OK]


def test_a_victim_that_does_not_leave_delays_no_preemptor_for_ever() -> None:
    stuck, other, pod = a_victim("stuck"), a_victim("other", on="m", priority=1), a_preemptor()
    cluster = Cluster(a_node("n"), a_node("m"), stuck, other, pod)
    cluster.filter(pod)
    cluster.serve(gone=False)
    assert cluster.deleted == ["stuck"]
    cluster.after(POLICY.preemption.timeout - 1)
    assert cluster.gated(pod)
    cluster.after(1)
    assert cluster.touched(pod) == ["victims-stayed"]
    assert cluster.filter(pod) == [Reason.GATED, Reason.GATED]
    cluster.serve()
    assert cluster.deleted == ["stuck", "other"], "nobody counts on the stuck one any more"
    assert cluster.filter(pod, "m") == [Reason.OK]


def slow(name: str, *, on: str, priority: int, deletion: int = 0) -> Pod:
    """A victim with a grace period of an hour. `deletion`: it is being deleted, with this grace period."""
    grace = deletion or int(HOUR)
    return structs.replace(a_victim(name, on=on, priority=priority), grace_seconds=grace, deleting=bool(deletion))


def test_one_set_of_victims_however_long_their_grace_period() -> None:
    victims = [slow(name, on=name, priority=priority) for priority, name in enumerate("abc")]
    pod = a_preemptor()
    cluster = Cluster(*map(a_node, "abc"), *victims, pod)
    cluster.filter(pod)
    cluster.serve(gone=False)
    cluster.change(victims[0], deleting=True)
    while cluster.now < HOUR + 50:
        cluster.after(10)
        cluster.filter(pod)
        cluster.serve(gone=False)
    assert (cluster.deleted, cluster.gated(pod)) == (["a"], True)
    cluster.goes(victims[0])
    cluster.serve()
    assert cluster.filter(pod, "a") == [Reason.OK]


def test_a_victim_that_outlasts_its_grace_period_is_given_up() -> None:
    victims = [slow(name, on=name, priority=priority) for priority, name in enumerate("ab")]
    pod = a_preemptor()
    cluster = Cluster(*map(a_node, "ab"), *victims, pod)
    cluster.filter(pod)
    cluster.serve(gone=False)
    cluster.change(victims[0], deleting=True, grace_seconds=400)  # somebody shortened it
    cluster.after(459)
    assert cluster.gated(pod)
    cluster.after(2)
    assert cluster.touched(pod) == ["victims-stayed"]


def test_a_pod_that_leaves_slowly_anyway_is_waited_for() -> None:
    leaving, other, pod = slow("leaving", on="n", priority=0, deletion=1800), a_victim("other", on="m"), a_preemptor()
    cluster = Cluster(a_node("n"), a_node("m"), leaving, pod)
    cluster.filter(pod)
    cluster.has(other)
    while cluster.now < 1800:
        cluster.after(10)
        cluster.filter(pod)
        cluster.serve(gone=False)
    assert cluster.deleted == []


def test_victims_of_kube_scheduler_with_a_long_grace_period_are_the_only_ones_too() -> None:
    first, second = slow("a", on="a", priority=0), a_victim("b", on="b", priority=1)
    pod = a_preemptor()
    cluster = Cluster(*map(a_node, "ab"), first, second, pod)
    with_gate = cluster.preempt(pod, a=[first])
    assert with_gate == ["a"]
    cluster.change(first, deleting=True)
    cluster.change(pod, nominated_node=NodeName("a"))
    while cluster.now < HOUR:
        cluster.after(30)
        cluster.filter(pod)
        cluster.serve(gone=False)
    assert cluster.deleted == []


@pytest.mark.parametrize("step", ["announcing", "evicting", "opened"])
def test_the_preemptor_is_deleted(step: str) -> None:
    victim, pod = a_victim(), a_preemptor()
    cluster = Cluster(a_node("n"), victim, pod)
    cluster.filter(pod)
    if step != "announcing":
        cluster.serve(gone=step == "opened")
    cluster.goes(pod)
    cluster.serve()
    assert cluster.held("n") == 0
    assert not cluster.gated(pod)
    assert cluster.deleted == ([] if step == "announcing" else ["v"])
    comes_to_rest(cluster)


@pytest.mark.parametrize("step", ["announcing", "evicting"])
def test_the_preemptor_asks_for_something_else(step: str) -> None:
    pod = a_preemptor()
    cluster = Cluster(a_node("n"), a_victim(), pod)
    cluster.filter(pod)
    if step == "evicting":
        cluster.serve(gone=False)
    cluster.change(pod, kind=replace(pod.kind, requests=amounts("3", "1Gi")))
    assert not cluster.gated(pod)
    assert cluster.touched(pod) == ["preemptor-changed"]
    comes_to_rest(cluster, pod)


@pytest.mark.parametrize("step", ["announcing", "evicting", "opened"])
def test_the_node_goes(step: str) -> None:
    pod = a_preemptor()
    cluster = Cluster(a_node("n"), a_node("m", cpu="1"), a_victim(), pod)
    cluster.filter(pod)
    if step != "announcing":
        cluster.serve(gone=step == "opened")
    cluster.node_goes("n")
    assert cluster.touched(pod) == ["node-gone"]
    assert not cluster.gated(pod)
    comes_to_rest(cluster, pod)


def test_the_service_stops() -> None:
    victim, pod = a_victim(), a_preemptor()
    cluster = Cluster(a_node("n"), victim, pod)
    cluster.filter(pod)
    cluster.take(Stopping())
    assert not cluster.gated(pod)
    assert cluster.filter(pod) == [Reason.NOT_ENOUGH_CPU], "and nothing new begins"
    cluster.serve()
    assert cluster.deleted == []


def test_the_preemptor_is_bound_by_another() -> None:
    victim, pod = a_victim(), a_preemptor()
    cluster = Cluster(a_node("n"), a_node("m"), victim, a_victim("w", on="m"), pod)
    cluster.filter(pod)
    cluster.serve(gone=False)
    cluster.change(pod, node=NodeName("m"))
    assert WritePreempting(pod.uid, pod.key, None) in cluster.asked
    comes_to_rest(cluster, pod)


# --- coming back ----------------------------------------------------------------------------------------------------------


def test_a_preemptor_that_does_not_come_back_is_activated_again_a_few_times() -> None:
    victim, pod = a_victim(), a_preemptor()
    cluster = Cluster(a_node("n"), victim, pod)
    cluster.filter(pod)
    cluster.serve()
    for wait, want in ((5, ["victims-gone"]), (5, []), (5, ["victims-gone"]), (20, ["victims-gone"])):
        cluster.after(wait)
        assert cluster.touched(pod) == want
        cluster.serve()
    cluster.after(HOUR)
    cluster.serve()
    comes_to_rest(cluster, pod)


@pytest.mark.parametrize("binds", [False, True], ids=["kube-scheduler binds", "we bind"])
def test_the_room_is_kept_while_the_pod_is_about_to_be_bound_and_after_that_failed(binds: bool) -> None:
    pod, rival = a_preemptor(), a_preemptor("rival", cpu="3")
    cluster = Cluster(a_node("n"), a_victim(), pod, rival, policy=replace(POLICY, bind=binds))
    cluster.filter(pod)
    cluster.serve()
    assert cluster.filter(pod) == [Reason.OK]
    assert cluster.held("n") == 2000, "its own hold, or that of the preemption"
    cluster.after(11)
    assert cluster.held("n") == 2000
    assert cluster.filter(rival) == [Reason.HELD_FOR_OTHERS]
    assert cluster.filter(pod) == [Reason.OK]
    cluster.after(HOUR)
    cluster.serve()
    cluster.after(HOUR)
    assert cluster.held("n") == 0
    comes_to_rest(cluster, pod, rival)


def test_a_preemptor_that_finds_another_node_gives_its_room_back() -> None:
    pod = a_preemptor()
    cluster = Cluster(a_node("n"), a_victim(), pod)
    cluster.filter(pod)
    cluster.serve()
    cluster.take(NodeSeen(a_node("other")))
    assert cluster.filter(pod, "other") == [Reason.OK]
    assert cluster.held("n") == 0


# --- after a restart ------------------------------------------------------------------------------------------------------


def test_a_restart_goes_on_where_not_all_victims_were_deleted() -> None:
    first, second, pod = a_victim("first", cpu="2"), a_victim("second", cpu="1800m"), a_preemptor(cpu="3")
    cluster = Cluster(a_node("n"), first, second, pod)
    cluster.filter(pod)
    cluster.serve(victims=None)
    cluster.goes(first)
    again = cluster.restarted()
    assert again.gated(pod)
    assert again.filter(pod) == [Reason.GATED]
    again.serve()
    assert again.deleted == ["second"]
    assert again.filter(pod) == [Reason.OK]


def test_a_restart_after_the_last_victim_left_opens_the_gate() -> None:
    victim, pod = a_victim(), a_preemptor()
    cluster = Cluster(a_node("n"), victim, pod)
    cluster.filter(pod)
    cluster.serve(gone=False)
    del cluster.pods[victim.uid]
    again = cluster.restarted()
    assert not again.gated(pod)
    assert list(again.asked) == [WritePreempting(pod.uid, pod.key, None), Activate(pod.uid, pod.key, "preemption-over")]
    assert again.filter(pod) == [Reason.OK]


@pytest.mark.parametrize(
    "victim",
    [
        pytest.param(a_victim(priority=9), id="no-less-important"),
        pytest.param(a_victim(on="m"), id="on-another-node"),
        pytest.param(a_victim(cpu="100m"), id="whose-leaving-does-not-help"),
    ],
)
def test_an_annotation_of_unknown_origin_evicts_no_pod(victim: Pod) -> None:
    full = a_pod("full", on="n", cpu="3500m", priority=9)
    pod = structs.replace(a_preemptor(), preempting=OngoingPreemption(N, (victim.uid,)))
    cluster = Cluster(a_node("n"), a_node("m"), full, victim, pod)
    cluster.serve()
    assert cluster.deleted == []
    assert not cluster.gated(pod)


def test_an_annotation_seen_after_the_start_is_no_order() -> None:
    victim = a_victim()
    cluster = Cluster(a_node("n"), victim)
    cluster.has(structs.replace(a_preemptor(), preempting=OngoingPreemption(N, (victim.uid,))))
    cluster.serve()
    assert cluster.deleted == []


@pytest.mark.parametrize("allowed", [0, 1])
def test_victims_whose_budget_allows_it_go_first(allowed: int) -> None:
    """As in kube-scheduler, pods whose budget allows no disruption are spared first, even the least important."""
    guarded = a_pod("guarded", on="n", cpu="2", priority=0, labels={"app": "guarded"})
    free, pod = a_victim("free", cpu="1900m", priority=1), a_preemptor(cpu="1")
    cluster = Cluster(a_node("n"), guarded, free, pod)
    cluster.take(BudgetSeen(a_budget("b", allowed=allowed, app="guarded")))
    assert cluster.filter(pod) == [Reason.GATED]
    cluster.serve()
    assert cluster.deleted == (["guarded"] if allowed else ["free"])
