"""No author of a pod buys the fleet: what annotations and buffers get of the room they ask for."""

from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.controllers.slack.headroom_limits import HeadroomCut, joined, within_nodes, within_quotas
from slackwater.controllers.slack.planning_input import PodHeadroom, SlackNode
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import PodUid
from slackwater.model.objects import Pod
from slackwater.model.placeholders import ResourceQuota
from slackwater.model.pod_constraints import HostPort, PodConstraints, PodTerm, SpreadConstraint
from tests.support import installed
from tests.support.builders import a_node, a_pod, amounts
from tests.support.scaling import Scenario

NODE = SlackNode(node=structs.replace(a_node("new"), scalars=(("pods", 110), ("x.io/gpu", 2))), room=amounts("4", "16Gi"))


def asks(pod: Pod, count: int = 50_000, *, capped: bool = True) -> PodHeadroom:
    return PodHeadroom(source=str(pod.key), kind=pod.kind, labels=pod.labels, count=count, capped=capped, pod=pod)


def with_constraints(pod: Pod, pod_constraints: PodConstraints) -> Pod:
    return structs.replace(pod, kind=replace(pod.kind, pod_constraints=pod_constraints))


APART = PodTerm(topology_key="kubernetes.io/hostname", selector=(), namespaces=("default",))
KINDS = {
    "by CPU": (a_pod("p", cpu="1", memory="1Gi"), 8),
    "by memory": (a_pod("p", cpu="100m", memory="8Gi"), 4),
    "by number": (a_pod("p", cpu="1m", memory="1Mi"), 220),
    "larger than any node": (a_pod("p", cpu="64", memory="1Gi"), 2),
    "by devices": (with_constraints(a_pod("p"), PodConstraints(scalars=(("x.io/gpu", 1),))), 4),
    "apart": (with_constraints(a_pod("p"), PodConstraints(anti_affinity=(APART,))), 2),
    "by host ports": (with_constraints(a_pod("p"), PodConstraints(host_ports=(HostPort("0.0.0.0", "TCP", 80),))), 2),
    "spread": (
        with_constraints(
            a_pod("p"),
            PodConstraints(
                spread=(SpreadConstraint(hard=True, max_skew=1, topology_key="kubernetes.io/hostname", selector=()),)
            ),
        ),
        2,
    ),
}


@pytest.mark.parametrize(("pod", "want_count"), KINDS.values(), ids=KINDS)
def test_an_annotation_gets_two_nodes_whatever_its_pods_need(pod: Pod, want_count: int) -> None:
    found = within_nodes([asks(pod)], [NODE], installed.HEADROOM, n_nodes=20)
    assert [each.count for each in found.pod_headroom] == [want_count]
    assert [(cut.wanted, cut.kept, cut.pod) for cut in found.cuts] == [(50_000, want_count, pod)]


def test_many_pods_of_one_namespace_share_its_two_nodes() -> None:
    found = within_nodes([asks(a_pod(f"p{n}", cpu="1"), 3) for n in range(9)], [NODE], installed.HEADROOM, n_nodes=1000)
    assert sum(each.count for each in found.pod_headroom) == 8


def test_all_namespaces_share_a_twentieth_and_who_wants_least_gets_it() -> None:
    wanting = [asks(a_pod("p", cpu="4", namespace=f"n{n}"), 1 if n == 9 else 50_000) for n in range(10)]
    found = within_nodes(wanting, [NODE], installed.HEADROOM, n_nodes=200)
    assert sum(each.count for each in found.pod_headroom) == 10
    assert [each.count for each in found.pod_headroom if each.kind.namespace == "n9"] == [1]


def test_buffers_and_rules_without_limits_are_not_cut() -> None:
    buffer, annotation = asks(a_pod("b"), 900, capped=False), asks(a_pod("a"), 900)
    assert within_nodes([buffer], [NODE], installed.HEADROOM, n_nodes=1).pod_headroom == [buffer]
    assert within_nodes(
        [annotation], [NODE], replace(installed.HEADROOM, max_nodes_per_namespace=0, max_cluster_share=0), n_nodes=1
    ).pod_headroom == [annotation]


def test_quotas_leave_what_they_leave_to_all_of_their_namespace() -> None:
    quotas = [
        ResourceQuota(namespace="default", left=(("cpu", 2000), ("pods", 50))),
        ResourceQuota(namespace="other", left=(("cpu", -5),)),
    ]
    wanting = [
        asks(a_pod("a", cpu="500m"), 3, capped=False),
        asks(a_pod("b", cpu="500m"), 3),
        asks(a_pod("c", namespace="other")),
    ]
    found = within_quotas(wanting, quotas)
    assert [each.count for each in found.pod_headroom] == [3, 1]
    assert [(cut.kept, "ResourceQuota" in cut.why) for cut in found.cuts] == [(1, True), (0, True)]


@pytest.mark.anyio
@pytest.mark.parametrize("selecting", [False, True], ids=["one pod", "many selectors"])
async def test_no_annotation_buys_more_than_two_machines(selecting: bool) -> None:
    scenario = Scenario()
    scenario.slack = installed.SLACK
    for number in range(6):
        labels = {"pool": str(number)}
        template = structs.replace(a_node("t", labels=labels), scalars=(("pods", 110),))
        scenario.cloud.has(f"g{number}", size=1, template=template)
    scenario.settle()
    for number in range(6 if selecting else 1):
        pod = a_pod(f"p{number}", cpu="100m", node_selector={"pool": str(number)} if selecting else None)
        text = "50000" if not selecting else "2"
        full = a_pod(f"full-{number}", cpu="3900m", node_selector={"pool": str(number)})
        scenario.wants(full, structs.replace(pod, eviction_facts=EvictionFacts(slack=text)))
    await scenario.pass_time(600)
    assert sum(scenario.sizes().values()) <= 6 + 2
    said = [effect.note for effect in scenario.said("SlackLimited")]
    if selecting:
        assert len(said) == 4
        return
    assert said == [
        "Pod default/p0: room is kept for 32 of 50000 pods: annotations of namespace default get no more nodes"
        " (autoscaler.slack.headroomLimits)"
    ]


def test_what_several_limits_cut_is_said_once() -> None:
    """Of 100 pods the quota leaves 40, the nodes 32, and the budget 30."""
    pod = structs.replace(a_pod("p"), eviction_facts=EvictionFacts(owner=Owner("apps", "ReplicaSet", "web")))
    steps = [
        HeadroomCut(source="p", pod=pod, wanted=wanted, kept=kept, why=why)
        for wanted, kept, why in ((100, 40, "quota"), (40, 32, "nodes"), (32, 30, "budget"))
    ]
    other = HeadroomCut(source="q", pod=None, wanted=2, kept=1, why="quota")
    (cut, rest) = joined([steps[0], other], [steps[1]], [steps[2]])
    assert (cut.text, rest) == ("p: room is kept for 30 of 100 pods: budget", other)
    twin, stranger = structs.replace(pod, uid=PodUid("twin")), a_pod("stranger")
    assert [cut.concerns(each) for each in (pod, twin, stranger)] == [True, True, False]
    assert not other.concerns(stranger)
