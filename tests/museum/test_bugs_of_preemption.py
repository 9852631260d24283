"""Bugs of kube-scheduler's own asynchronous preemption and its neighbours, each as it would look with us.

Sources: the number of each test is that of an issue or pull request, https://github.com/kubernetes/kubernetes/issues/<number>.
`Naive` is what they have in common; the same story told to it goes wrong.
"""

from dataclasses import dataclass, field, replace

import pytest
from msgspec import structs

from slackwater.model.events import ActivationLost, NodeSeen, VictimEnded
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from tests.support import installed
from tests.support.builders import a_node, a_pod
from tests.support.preempting import POLICY, Cluster


@dataclass
class Naive:
    """A preemption that is driven by the answers to its own calls: it waits for each of them, wakes the pod once, and looks at
    nothing but what it is asked at the moment."""

    answers: set[str] = field(default_factory=set)  #: still awaited
    deleted: list[str] = field(default_factory=list)
    wakes: int = 0

    @property
    def gated(self) -> bool:
        return bool(self.answers)

    def filter(self, *victims: str) -> None:
        self.deleted += victims
        self.answers |= set(victims)

    def answered(self, victim: str) -> None:
        self.answers.discard(victim)
        self.wakes += not self.answers

    def goes(self, victim: str) -> None:
        """The watch shows that the victim is gone: nobody listens."""


def a_cluster() -> tuple[Cluster, Pod, Pod]:
    victim, pod = a_pod("v", on="n", cpu="3"), a_pod("p", cpu="2", priority=9)
    return Cluster(a_node("n"), victim, pod), victim, pod


@pytest.mark.parametrize("reported", ["before", "after", "never"])
def test_141694_a_victim_gone_before_its_deletion_was_answered_opens_the_gate(reported: str) -> None:
    """The watch may be faster than the answer, which may even be lost."""
    cluster, victim, pod = a_cluster()
    cluster.filter(pod)
    cluster.serve(victims=None)
    if reported == "before":
        cluster.take(VictimEnded(victim.uid, "accepted", ""))
    cluster.goes(victim)
    assert not cluster.gated(pod)
    assert cluster.touched(pod) == ["victims-gone"]
    if reported == "after":
        cluster.take(VictimEnded(victim.uid, "unreachable", "lost"))
    assert cluster.touched(pod) == ["victims-gone"], "once"
    assert cluster.filter(pod) == [Reason.OK]


def test_141694_in_a_naive_model_the_gate_waits_for_an_answer_that_never_comes() -> None:
    naive = Naive()
    naive.filter("v")
    naive.goes("v")
    assert naive.gated


def test_140082_a_victim_gone_before_anything_was_sent_opens_the_gate() -> None:
    cluster, victim, pod = a_cluster()
    cluster.filter(pod)
    cluster.goes(victim)
    assert not cluster.gated(pod)
    assert cluster.nominated(pod) == ["n"]
    cluster.serve()
    assert cluster.deleted == []


def test_140082_a_victim_that_is_found_gone_when_it_is_to_be_deleted_is_success() -> None:
    cluster, victim, pod = a_cluster()
    cluster.filter(pod)
    del cluster.pods[victim.uid]  # gone at the API server; the watch has not told
    cluster.serve()
    assert not cluster.gated(pod)
    assert cluster.state_machine.preemptions.counts.ends["success"] == 1
    assert cluster.filter(pod) == [Reason.OK]


def test_139162_a_lost_activation_is_repeated() -> None:
    cluster, _, pod = a_cluster()
    cluster.filter(pod)
    cluster.serve()
    cluster.take(ActivationLost(pod.uid, pod.key, "victims-gone"))
    cluster.after(0.1)
    assert cluster.touched(pod) == ["victims-gone"]
    cluster.serve()
    cluster.after(5)
    assert cluster.touched(pod) == ["victims-gone"], "and again, as it did not come back"


def test_139162_in_a_naive_model_a_lost_activation_is_not_repeated() -> None:
    naive = Naive()
    naive.filter("v")
    naive.answered("v")
    assert (naive.gated, naive.wakes) == (False, 1), "and nothing is left that would wake the pod again"


def test_139162_a_victim_that_has_ended_counts_as_gone() -> None:
    cluster, victim, pod = a_cluster()
    cluster.filter(pod)
    cluster.serve(gone=False)
    cluster.change(victim, ended=True)
    assert not cluster.gated(pod)
    assert cluster.filter(pod) == [Reason.OK]


def test_134249_no_second_preemption_while_the_first_is_running() -> None:
    cluster, _, pod = a_cluster()
    cluster.has(a_node("m"))
    cluster.has(a_pod("w", on="m", cpu="3", priority=1))
    for _ in range(20):
        cluster.filter(pod)
        cluster.change(pod)  # as our own annotation does
        cluster.serve(gone=False)
        cluster.after(0.5)
    assert cluster.deleted == ["v"]
    assert cluster.state_machine.preemptions.counts.attempts == 1


def test_134249_in_a_naive_model_each_cycle_deletes_again() -> None:
    naive = Naive()
    for victim in ("v", "v", "w"):
        naive.filter(victim)
    assert naive.deleted == ["v", "v", "w"]


@pytest.mark.parametrize(("configured", "of_the_pod"), [(30.0, 0.0), (0.0, 30.0), (10.0, 30.0)])
def test_137655_preemption_waits_for_new_nodes_as_long_as_asked(configured: float, of_the_pod: float) -> None:
    """By the setting, and by the pod's annotation `kai.scheduler/preemption-delay`."""
    victim, pod = a_pod("v", on="n", cpu="3"), a_pod("p", cpu="2", priority=9)
    pod = structs.replace(pod, preemption_delay_seconds=of_the_pod)
    patient = replace(POLICY, preemption=replace(installed.PREEMPTION, enabled=True, delay=configured))
    cluster = Cluster(a_node("n"), victim, pod, policy=patient)
    assert cluster.filter(pod) == [Reason.NOT_ENOUGH_CPU]
    cluster.after(20)
    assert cluster.filter(pod) == [Reason.NOT_ENOUGH_CPU]
    cluster.after(10)
    assert cluster.touched(pod) == ["delay-ended"], "kube-scheduler would not come back by itself"
    assert cluster.filter(pod) == [Reason.GATED]


def test_137655_a_node_that_came_in_time_saves_the_victim() -> None:
    victim, pod = a_pod("v", on="n", cpu="3"), a_pod("p", cpu="2", priority=9)
    patient = replace(POLICY, preemption=replace(installed.PREEMPTION, enabled=True, delay=30.0))
    cluster = Cluster(a_node("n"), victim, pod, policy=patient)
    cluster.filter(pod)
    cluster.after(20)
    cluster.take(NodeSeen(a_node("new")))
    assert cluster.filter(pod) == [Reason.NOT_ENOUGH_CPU, Reason.OK]
    cluster.after(60)
    assert cluster.touched(pod) == []
    cluster.serve()
    assert cluster.deleted == []


def test_134428_a_pod_whose_room_is_being_made_needs_no_new_node() -> None:
    cluster, _, pod = a_cluster()
    assert cluster.state_machine.preemptions.gated_pods() == frozenset()
    cluster.filter(pod)
    assert cluster.state_machine.preemptions.gated_pods() == {pod.uid}
    cluster.serve(victims="refused")
    assert cluster.state_machine.preemptions.gated_pods() == frozenset(), "now it may"
