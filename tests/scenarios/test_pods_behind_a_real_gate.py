"""Pods that wait behind a scheduling gate of ours: it opens when there is room for them, and never stays for nothing."""

from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.model.effects import Activate, DeleteVictim, Nominate, OpenGate, WritePreempting
from slackwater.model.events import BudgetSeen, Event, NodeSeen, PodSeen, Synced, TimePassed
from slackwater.model.ids import Instant
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import HostPort, PodConstraints, PodTerm
from slackwater.runtime.state_machine import StateMachine
from slackwater_protocol.names import GATE
from tests.support import installed
from tests.support.builders import a_budget, a_node, a_pod, a_vertical, amounts
from tests.support.preempting import POLICY, Cluster


def a_gated_pod(*, cpu: str = "2", gates: tuple[str, ...] = (GATE,), priority: int = 9) -> Pod:
    return structs.replace(a_pod("p", cpu=cpu, priority=priority), gates=gates)


def full() -> Pod:
    return a_pod("v", on="n", cpu="3")


def opened(cluster: Cluster) -> list[str]:
    """Why, of what was not carried out yet."""
    return [effect.why for effect in cluster.asked if isinstance(effect, OpenGate)]


def test_a_pod_that_fits_is_let_go_on_the_next_tick() -> None:
    cluster = Cluster(a_node("n"), a_gated_pod())
    assert opened(cluster) == []
    cluster.after(0.1)
    assert opened(cluster) == ["judged"]


def test_the_gate_of_a_preemptor_opens_when_its_victims_are_gone() -> None:
    victim, pod = full(), a_gated_pod()
    cluster = Cluster(a_node("n"), victim, pod)
    cluster.after(0.1)
    assert cluster.gated(pod)
    served = cluster.serve(gone=False)
    assert [type(effect) for effect in served] == [WritePreempting, DeleteVictim]
    cluster.after(20)
    assert opened(cluster) == [], "the victim takes its time"
    cluster.goes(victim)
    assert [type(effect) for effect in cluster.asked] == [Nominate, OpenGate, WritePreempting]
    assert opened(cluster) == ["victims-gone"]
    assert cluster.held("n") == 2000, "its room is kept"
    cluster.serve()
    cluster.change(pod, gates=())
    cluster.after(60)
    assert opened(cluster) == []


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_gated_pod(cpu="5"), id="larger-than-the-node"),
        pytest.param(a_gated_pod(priority=0), id="of-no-more-priority"),
        pytest.param(
            structs.replace(
                a_gated_pod(),
                kind=replace(a_gated_pod().kind, pod_constraints=PodConstraints(host_ports=(HostPort("0.0.0.0", "TCP", 80),))),
            ),
            id="that-asks-what-kube-scheduler-alone-judges",
        ),
    ],
)
def test_a_pod_that_we_cannot_help_is_left_to_kube_scheduler(pod: Pod) -> None:
    cluster = Cluster(a_node("n"), full(), pod)
    cluster.after(0.1)
    assert opened(cluster) == ["judged"]
    cluster.serve()
    assert cluster.deleted == []


def test_no_pod_is_evicted_where_requests_alone_would_leave_no_room() -> None:
    """A machine that has shrunk: little is Reserved for it, but kube-scheduler counts what its pod asks for."""
    shrunk = a_pod("shrunk", on="n", cpu="3", priority=99)
    shrunk = structs.replace(shrunk, vertical=a_vertical(using=amounts("1", "1Gi"), scaling=False))
    pod, less = a_gated_pod(), a_pod("v", on="n", cpu="2")
    cluster = Cluster(a_node("n"), less, shrunk, pod)
    cluster.after(0.1)
    assert opened(cluster) == ["judged"]
    cluster.serve()
    assert cluster.deleted == []
    small = Cluster(a_node("n"), less, structs.replace(shrunk, kind=replace(shrunk.kind, requests=amounts("1", "1Gi"))), pod)
    small.after(0.1)
    assert small.gated(pod), "it is the requests that made the difference"


def test_where_some_pod_keeps_others_off_kube_scheduler_judges_first() -> None:
    term = PodTerm(topology_key="zone", selector=(), namespaces=("default",), namespace_selector=None)
    hermit = a_pod("hermit", on="n", cpu="100m")
    hermit = structs.replace(hermit, kind=replace(hermit.kind, pod_constraints=PodConstraints(anti_affinity=(term,))))
    cluster = Cluster(a_node("n"), full(), hermit, a_gated_pod())
    cluster.after(0.1)
    assert opened(cluster) == ["judged"]


def test_where_kube_scheduler_sees_what_we_see_it_preempts_itself() -> None:
    policy = replace(POLICY, nodes=replace(POLICY.nodes, system=a_pod("x", cpu="0", memory="0").need))
    cluster = Cluster(a_node("n"), a_pod("v", on="n", cpu="3"), a_gated_pod(), policy=policy)
    cluster.after(0.1)
    assert opened(cluster) == ["judged"]
    assert cluster.deleted == []


def test_while_others_gate_the_pod_too_nothing_is_done_for_it() -> None:
    pod = a_gated_pod(gates=(GATE, "example.dev/quota"))
    cluster = Cluster(a_node("n"), full(), pod)
    cluster.after(60)
    assert not cluster.asked
    cluster.change(pod, gates=(GATE,))
    cluster.after(0.1)
    assert cluster.gated(pod)


def test_an_opening_that_got_lost_is_repeated() -> None:
    cluster = Cluster(a_node("n"), a_gated_pod())
    for want in (["judged"], ["still-gated"], ["still-gated"]):
        cluster.after(5)
        assert opened(cluster) == want
        cluster.unanswered()


@pytest.mark.parametrize("outcome", ["refused", "unreachable"])
def test_a_preemption_that_fails_opens_the_gate(outcome: str) -> None:
    pod = a_gated_pod()
    cluster = Cluster(a_node("n"), full(), pod)
    cluster.after(0.1)
    cluster.serve(victims="refused" if outcome == "refused" else "unreachable")
    assert not cluster.gated(pod)
    cluster.after(5)
    assert "still-gated" in opened(cluster), "as long as the watch shows it"


def test_nothing_is_opened_before_everything_is_listed() -> None:
    pod = a_gated_pod()
    cluster = Cluster(a_node("n"), pod, synced=False)
    cluster.after(60)
    assert opened(cluster) == []
    cluster.take(Synced())
    cluster.after(0.1)
    assert opened(cluster) == ["judged"]


def test_with_preemption_switched_off_the_gate_opens() -> None:
    cluster = Cluster(
        a_node("n"), full(), a_gated_pod(), policy=replace(POLICY, preemption=replace(installed.PREEMPTION, enabled=False))
    )
    cluster.after(0.1)
    assert opened(cluster) == ["judged"]


def test_a_gated_pod_is_not_activated() -> None:
    cluster = Cluster(a_node("n"), full(), a_gated_pod())
    cluster.after(0.1)
    cluster.node_goes("n")
    assert opened(cluster) == ["node-gone"]
    assert not any(isinstance(effect, Activate) for effect in cluster.asked)


def test_a_tick_judges_gated_pods_up_to_a_bound_of_work_and_goes_on_in_the_next() -> None:
    """200 important pods at once on full nodes with budgets that allow nothing: judging them all took a tick of a second."""
    state_machine, now = StateMachine(POLICY), 0.0

    def after(seconds: float, *events: Event) -> int:
        """Applies the events, then a tick; how many pods were looked at as victims."""
        nonlocal now
        now += seconds
        before = state_machine._scheduling_gates._potential_victims.examined
        for event in (*events, TimePassed()):
            state_machine.apply(event, Instant(now))
        return state_machine._scheduling_gates._potential_victims.examined - before

    nodes = [NodeSeen(a_node(f"n{number}", cpu="10")) for number in range(100)]
    running = [PodSeen(a_pod(f"v{n}", on=f"n{n % 100}", cpu="980m", labels={"app": "web"})) for n in range(1000)]
    after(0.0, *nodes, *running, BudgetSeen(a_budget("b", allowed=0, app="web")), Synced())
    gated = [structs.replace(a_pod(f"p{number}", cpu="1500m", priority=9), gates=(GATE,)) for number in range(10)]
    looked_at = [after(0.1, *(PodSeen(pod) for pod in gated))]
    assert state_machine.preemptions.counts.attempts < 10
    looked_at += [after(0.1) for _ in range(10)]
    assert state_machine.preemptions.counts.attempts == 10
    assert max(looked_at) <= 1500
