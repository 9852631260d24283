"""`extender.bind: true`: filter holds nothing and depends on no earlier filter call; bind reserves, or refuses."""

from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.model.effects import Activate, Nominate
from slackwater.model.events import BindEnded, BindOutcome, NodeGone, NodeSeen, PodSeen
from slackwater.model.ids import NodeName
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from tests.support import installed
from tests.support.builders import a_node, a_pod, amounts
from tests.support.preempting import POLICY as PREEMPTING
from tests.support.preempting import Cluster as Preempting
from tests.support.small_state_machine import M, N, SmallStateMachine


class Cluster(SmallStateMachine):
    """Slackwater binds, and our accounting is stricter than kube-scheduler's."""

    def __init__(self) -> None:
        super().__init__(replace(installed.POLICY, bind=True, nodes=replace(installed.NODES, system=amounts("1", "0"))))

    def bind(self, pod: Pod, node: NodeName = N) -> Reason:
        return self.state_machine.bind(pod.uid, pod.key, node, self.now).reason


def test_filter_names_all_feasible_nodes_holds_nothing_and_says_the_same_again() -> None:
    cluster = Cluster()
    pod, other = cluster.comes(a_pod("p", cpu="2")), cluster.comes(a_pod("other", cpu="2"))
    for asked in (pod, other, pod):
        assert cluster.ask(asked, N, M) == [Reason.OK, Reason.OK]
        assert cluster.ask(asked, N) == [Reason.OK]
        assert (cluster.held(N), cluster.held(M)) == (0, 0)
    assert len(cluster.state_machine.state.holds) == 0


def test_bind_refuses_what_does_not_fit_any_more_and_the_next_filter_leaves_the_node_out() -> None:
    cluster = Cluster()
    first, second = cluster.comes(a_pod("first", cpu="2")), cluster.comes(a_pod("second", cpu="2"))
    assert [cluster.ask(pod, N, M) for pod in (first, second)] == [[Reason.OK, Reason.OK]] * 2
    assert cluster.bind(first) is Reason.OK
    assert cluster.bind(second) is Reason.NOT_ENOUGH_CPU
    assert cluster.ask(second, N, M) == [Reason.NOT_ENOUGH_CPU, Reason.OK]
    cluster.apply(BindEnded(first.uid, N, "refused", ""))
    assert cluster.ask(second, N, M) == [Reason.OK, Reason.OK], "room appeared, so the refusal is forgotten"


def test_the_room_of_a_nomination_is_kept_from_filter_to_bind_and_is_the_pods_own() -> None:
    cluster = Cluster()
    cluster.comes(a_pod("there", on=N, cpu="3"))
    pod, other = (cluster.comes(a_pod(name, cpu="2")) for name in ("p", "other"))
    assert cluster.ask(pod, N) == [Reason.NOT_ENOUGH_CPU]
    assert Nominate(pod.uid, pod.key, M) in cluster.after(1.0)
    for _ in range(2):
        assert cluster.ask(pod, M) == [Reason.OK]
        assert cluster.held(M) == 2000
    assert cluster.ask(other, M) == [Reason.HELD_FOR_OTHERS]
    assert cluster.bind(other, M) is Reason.HELD_FOR_OTHERS
    assert cluster.bind(pod, M) is Reason.OK
    assert cluster.held(M) == 0


def test_a_nominated_pod_that_is_refused_there_gives_its_room_back() -> None:
    cluster = Cluster()
    cluster.comes(a_pod("there", on=N, cpu="3"))
    pod, other = (cluster.comes(a_pod(name, cpu="2")) for name in ("p", "other"))
    cluster.ask(pod, N)
    cluster.after(1.0)
    assert cluster.ask(other, M) == [Reason.HELD_FOR_OTHERS]
    assert cluster.ask(pod, N) == [Reason.NOT_ENOUGH_CPU], "kube-scheduler's own filters refused the nominated node"
    assert cluster.held(M) == 0
    assert Activate(other.uid, other.key, "hold-ended") in cluster.after(0.1)


@pytest.mark.parametrize("outcome", ["refused", "unreachable", "unsent", "unknown"])
def test_the_room_that_victims_left_is_kept_when_the_bind_fails_and_is_free_once_the_pod_has_gone(outcome: BindOutcome) -> None:
    victim, pod, other = a_pod("v", on=N, cpu="3"), a_pod("p", cpu="2", priority=9), a_pod("other", cpu="2", priority=9)
    cluster = Preempting(a_node(N), victim, pod, policy=replace(PREEMPTING, bind=True))
    assert cluster.filter(pod) == [Reason.GATED]
    cluster.serve()
    for _ in range(2):
        assert cluster.filter(pod) == [Reason.OK]
        assert cluster.state_machine.bind(pod.uid, pod.key, N, cluster.at).reason is Reason.OK
        assert cluster.held(N) == 0, "the reservation has it"
        cluster.take(BindEnded(pod.uid, N, outcome, ""))
        while pod.uid in cluster.state_machine.state.reservations:  # the pod is read after some seconds
            cluster.after(1.0)
            cluster.serve()
        assert cluster.held(N) == 2000
        cluster.has(other)
        assert cluster.filter(other) == [Reason.HELD_FOR_OTHERS]
    cluster.goes(pod)
    assert cluster.filter(other) == [Reason.OK]
    assert cluster.deleted == ["v"]


def test_a_node_that_goes_and_comes_back_has_no_room_held() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="2"))
    cluster.ask(pod, N, M)
    assert cluster.bind(pod, N) is Reason.OK
    cluster.apply(NodeGone(N))
    cluster.apply(NodeSeen(a_node(N)))
    assert cluster.ask(cluster.comes(a_pod("other", cpu="2")), N) == [Reason.NOT_ENOUGH_CPU], "its bind may have happened"
    cluster.apply(PodSeen(structs.replace(pod, node=N, resource_version=pod.resource_version + 1)))
    assert (cluster.held(N), len(cluster.state_machine.state.holds)) == (0, 0)
