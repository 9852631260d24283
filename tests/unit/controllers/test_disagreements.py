"""What counts as a disagreement with kube-scheduler, and what does not."""

from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.model.columns import Rows
from slackwater.model.events import PodGone
from slackwater.model.ids import NodeName
from slackwater.model.objects import Pod, Taint
from slackwater.model.pod_constraints import PodConstraints, PodTerm
from slackwater.model.selectors import Requirement
from slackwater.model.texts import counts_every_node, refusal_reasons
from tests.support.builders import a_pod
from tests.support.disagreeing import Looking, a_machine

pytestmark = pytest.mark.anyio

WORDS = "0/1 nodes are available: 1 node(s) didn't match scheduler-enforced node affinity."
GPU = Taint("gpu", "", "NoSchedule")


def again(pod: Pod, **changes: object) -> Pod:
    return structs.replace(pod, resource_version=pod.resource_version + 1_000, **changes)


async def test_a_pod_that_is_refused_although_it_fits_is_disputed_after_three_looks() -> None:
    looking, pod = Looking(), a_pod("a")
    await looking.begins(a_machine("n1"), pod)
    looking.sees(again(pod, unschedulable_message=WORDS))
    await looking.goes_on(6.0)
    assert looking.about(pod) is None
    await looking.goes_on(1.0)
    found = looking.about(pod)
    assert found is not None
    assert (found.placed, found.words, found.nodes) == (False, WORDS, ("n1",))
    assert [(event.reason, event.type, event.key.name) for event in looking.said] == [("SchedulerDisagrees", "Warning", "a")]
    assert looking.said[0].note.endswith(f"fits on n1 by the rules that Slackwater knows: {WORDS}")
    await looking.goes_on(60.0)
    assert len(looking.said) == 1
    known = looking.state_machine.disagreements
    assert (known.refusals_disputed, known.disputed) == (1, 1)


def of_scheduler(name: str, pod: Pod) -> Pod:
    return structs.replace(pod, kind=replace(pod.kind, scheduler_name=name))


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("no-room", cpu="5", message=WORDS),
        a_pod("labels", node_selector={"disk": "fast"}, message=WORDS),
        structs.replace(a_pod("gated", message=WORDS), gates=("quota",)),
        structs.replace(a_pod("nominated", message=WORDS), nominated_node=NodeName("n1")),
        a_pod("leaving", message=WORDS, deleting=True),
        a_pod("untried"),
        a_pod("no-request", message=WORDS, missing_request="app: memory"),
        a_pod("ours", message="0/9 nodes are available: 1 Slackwater: not enough CPU. preemption: 0/9 nodes are available"),
        of_scheduler("volcano", a_pod("others", message=WORDS)),
    ],
    ids=lambda pod: pod.key.name,
)
async def test_other_refused_pods_are_not_disputed(pod: Pod) -> None:
    looking = Looking()
    await looking.begins(a_machine("n1"))
    looking.sees(pod)
    await looking.goes_on(120.0)
    assert (looking.about(pod), looking.said) == (None, [])


async def test_a_message_that_counts_every_node_says_who_refused_the_others() -> None:
    looking = Looking()
    await looking.begins(a_machine("n1"), a_machine("n2", cpu="1"))
    words = "0/2 nodes are available: 1 Slackwater: not enough CPU, 1 node(s) didn't match scheduler-enforced node affinity."
    looking.sees(pod := a_pod("a", cpu="2", message=words))
    await looking.goes_on(8.0)
    assert looking.about(pod) is not None


async def test_room_that_is_nominated_to_another_pod_is_no_room() -> None:
    looking = Looking()
    await looking.begins(a_machine("n1"))
    looking.sees(structs.replace(a_pod("preemptor", cpu="4"), nominated_node=NodeName("n1")))
    looking.sees(pod := a_pod("a", message=WORDS))
    await looking.goes_on(60.0)
    assert looking.about(pod) is None


async def test_room_that_filter_keeps_for_another_pod_is_no_room() -> None:
    looking = Looking()
    await looking.begins(a_machine("n1"))
    rows: Rows = looking.state_machine.state.nodes.live_rows()
    looking.state_machine.filter(a_pod("other", cpu="4"), rows, looking.at())
    looking.sees(pod := a_pod("a", message=WORDS))
    await looking.goes_on(60.0)
    assert looking.about(pod) is None


async def test_a_pod_that_filter_lets_pass_and_that_something_else_refuses_is_disputed() -> None:
    looking, pod = Looking(), a_pod("a", cpu="3")
    await looking.begins(a_machine("n1"), pod)
    rows: Rows = looking.state_machine.state.nodes.live_rows()
    assert not looking.state_machine.filter(pod, rows, looking.at()).any()
    looking.sees(refused := again(pod, unschedulable_message="0/1 nodes are available: 1 no licence."))
    await looking.goes_on(4.0)
    assert not looking.state_machine.filter(refused, rows, looking.at()).any()
    await looking.goes_on(4.0)
    assert looking.about(pod) is None, "a bind may follow filter's answer"
    await looking.goes_on(6.0)
    assert looking.about(pod) is not None


async def test_a_node_that_changed_after_the_refusal_counts_once_kube_scheduler_has_tried_the_pod_again() -> None:
    looking, before = Looking(), a_pod("before", cpu="4", on="n1")
    await looking.begins(a_machine("n1"), before)
    looking.sees(pod := a_pod("a", message=WORDS))
    await looking.goes_on(3.0)
    looking.state_machine.apply(PodGone(before.uid, before.key), looking.at())
    await looking.goes_on(15.0)
    assert looking.about(pod) is None, "within the longest back-off it may get the node"
    await looking.goes_on(10.0)
    assert looking.about(pod) is not None


async def test_pods_about_which_other_nodes_decide_are_disputed_after_the_longest_back_off() -> None:
    term = PodTerm(topology_key="kubernetes.io/hostname", selector=(Requirement("app", "Exists", ()),), namespaces=("default",))
    looking, pod = Looking(), a_pod("a", message=WORDS)
    pod = structs.replace(pod, kind=replace(pod.kind, pod_constraints=PodConstraints(anti_affinity=(term,))))
    await looking.begins(a_machine("n1", labels={"kubernetes.io/hostname": "n1"}))
    looking.sees(pod)
    await looking.goes_on(15.0)
    assert looking.about(pod) is None
    await looking.goes_on(5.0)
    assert looking.about(pod) is not None


async def test_with_five_hundred_waiting_pods_everything_takes_longer() -> None:
    looking = Looking()
    await looking.begins(a_machine("n1"))
    looking.sees(*(a_pod(f"p{number}", message=WORDS) for number in range(500)))
    await looking.goes_on(20.0)
    assert looking.state_machine.disagreements.disputed == 0
    await looking.goes_on(40.0)
    assert looking.state_machine.disagreements.disputed == 500
    assert 0 < len(looking.said) <= 200, "five Events a look at most"


@pytest.mark.parametrize("end", ["bound", "gone", "agreed", "other words", "no room"])
async def test_a_disagreement_ends(end: str) -> None:
    looking, pod = Looking(), a_pod("a", cpu="2", message=WORDS)
    await looking.begins(a_machine("n1"))
    looking.sees(pod)
    await looking.goes_on(8.0)
    assert looking.about(pod) is not None
    match end:
        case "bound":
            looking.sees(again(pod, node=NodeName("n1"), unschedulable_message=None))
        case "gone":
            looking.state_machine.apply(PodGone(pod.uid, pod.key), looking.at())
        case "agreed":
            looking.sees(again(pod, unschedulable_message=None))
        case "other words":
            looking.sees(again(pod, unschedulable_message="0/1 nodes are available: 1 Insufficient cpu."))
        case _:
            looking.sees(a_pod("large", cpu="3", on="n1"))
    await looking.goes_on(3.0)
    assert looking.about(pod) is None


async def test_a_bind_to_a_node_that_refuses_the_pod_is_announced_and_counted() -> None:
    looking, good, bad = Looking(), a_pod("good"), a_pod("bad")
    await looking.begins(a_machine("n1"), a_machine("tainted", taints=[GPU]), good, bad)
    looking.sees(again(good, node=NodeName("n1")), again(bad, node=NodeName("tainted")))
    await looking.goes_on(8.0)
    known = looking.state_machine.disagreements
    assert (known.binds_compared, known.binds_disagreed, known.agreement_percent) == (2, 1, 50.0)
    found = looking.about(bad)
    assert found is not None
    assert (found.placed, found.nodes) == (True, ("tainted",))
    assert found.words == "TaintToleration: node(s) had untolerated taint(s)"
    assert [event.key.name for event in looking.said] == ["bad"]
    looking.state_machine.apply(PodGone(bad.uid, bad.key), looking.at())
    assert looking.about(bad) is None


@pytest.mark.parametrize("change", ["taint before", "taint after", "another pod", "resize", "a pod without a past"])
async def test_a_bind_is_not_compared_where_its_cluster_is_not_known(change: str) -> None:
    looking, pod, large = Looking(), a_pod("a"), a_pod("large", cpu="3", on="n1")
    await looking.begins(a_machine("n1"), large, *([] if change == "a pod without a past" else [pod]))
    tainted = a_machine("n1", taints=[GPU])
    if change == "taint before":
        looking.sees(tainted)
    looking.sees(again(pod, node=NodeName("n1")))
    if change == "taint after":
        looking.sees(tainted)
    if change == "another pod":
        looking.sees(a_pod("static", cpu="4", on="n1"))
    if change == "resize":
        looking.sees(again(large, kind=a_pod("larger", cpu="4").kind))
    await looking.goes_on(30.0)
    known = looking.state_machine.disagreements
    assert (known.binds_compared, known.binds_disagreed) == (0, 0)


def test_reasons_of_a_message_are_those_without_numbers() -> None:
    one = "0/12 nodes are available: 2 Insufficient cpu, 10 node(s) didn't match Pod's node affinity/selector. preemption: 0/12"
    two = "0/13 nodes are available: 11 node(s) didn't match Pod's node affinity/selector, 2 Insufficient cpu. preemption: x"
    want = frozenset({"Insufficient cpu", "node(s) didn't match Pod's node affinity/selector"})
    assert (refusal_reasons(one), refusal_reasons(two)) == (want, want)
    assert counts_every_node(one)
    assert not counts_every_node("0/5000 nodes are available: 100 Slackwater: not enough CPU.")
    assert not counts_every_node("running Reserve plugin: no")
