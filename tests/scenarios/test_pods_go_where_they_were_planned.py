"""New nodes are for the pods that they were bought for: filter names them, others find their room taken, later plans agree."""

from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from msgspec import structs

from slackwater.cluster.planned_nodes import KEPT_SECONDS
from slackwater.controllers.scaleup.coming_nodes import announced, coming_nodes, hints_of
from slackwater.controllers.scaleup.outcome import ScaleUpPlan
from slackwater.controllers.scaleup.pending import pending_demand
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.model.events import ComingNodes, NodeGone, NodeSeen, NodesPlanned, PodGone, PodSeen, Synced, TimePassed
from slackwater.model.ids import Instant, NodeName, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater.runtime.state_machine import StateMachine
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.node_facts import HOSTNAME
from tests.bench.simulation.mixes import burst
from tests.support import installed
from tests.support.builders import a_node, a_pod, amounts
from tests.support.invariants import violations

LARGE: Final = {"node.kubernetes.io/instance-type": "large"}
#: Two nodes of 4 CPUs are full with these; placed in another order, the last one has no room.
NODES: Final = (("three", "one"), ("two", "too"))
CPU: Final = {"three": "3", "one": "1", "two": "2", "too": "2"}


class Cluster:
    """A plan has bought two nodes for four pods, in place of kube-scheduler's order."""

    def __init__(self, *, planned: bool = True, bind: bool = False) -> None:
        self.now = 0.0
        self.state_machine = StateMachine(replace(installed.POLICY, bind=bind, place_as_planned=planned))
        self.pods = {name: a_pod(name, cpu=cpu, memory="1Gi") for name, cpu in CPU.items()}
        self.apply(Synced(), *(PodSeen(pod) for pod in self.pods.values()))
        if planned:
            self.expect()

    def expect(self, as_of: float = 0.0) -> None:
        nodes = tuple(tuple(self.pods[name].uid for name in names) for names in NODES)
        groups = (
            ComingNodes((("node.kubernetes.io/instance-type", "small"),), amounts("4", "16Gi"), ((PodUid("nobody"),),)),
            ComingNodes((), amounts("8", "16Gi"), ((PodUid("nobody"),),)),
            ComingNodes(tuple(LARGE.items()), amounts("4", "15Gi"), nodes),
        )
        self.apply(NodesPlanned(groups, Instant(as_of)))

    def apply(self, *events: NodeGone | NodeSeen | NodesPlanned | PodGone | PodSeen | Synced | TimePassed) -> None:
        for event in events:
            self.state_machine.apply(event, Instant(self.now))
            assert violations(self.state_machine) == []

    def comes(self, *names: str, ready: bool = True) -> None:
        for name in names:
            self.apply(NodeSeen(structs.replace(a_node(name, labels=LARGE, ready=ready), scalars=(("pods", 100),))))

    def asks(self, pod: Pod) -> list[str] | Reason:
        """The nodes that filter names, or why it refuses the first one."""
        names = sorted(self.state_machine.state.nodes.row_of)
        rows = np.array([self.state_machine.state.nodes.row_of[name] for name in names], np.intp)
        codes = self.state_machine.filter(pod, rows, Instant(self.now))
        assert violations(self.state_machine) == []
        found = [str(name) for name, code in zip(names, codes, strict=True) if code == Reason.OK]
        return found or Reason(int(codes[0]))


@pytest.mark.parametrize("order", [("one", "two", "too", "three"), ("too", "one", "two", "three")])
def test_every_pod_gets_the_node_that_was_bought_for_it(order: tuple[str, ...]) -> None:
    cluster = Cluster()
    cluster.comes("n-1", "n-2")
    assert {name: cluster.asks(cluster.pods[name]) for name in order} == {
        "three": ["n-1"], "one": ["n-1"], "two": ["n-2"], "too": ["n-2"],
    }  # fmt: skip
    assert len(cluster.state_machine.state.planned_nodes.places()) == 4, (
        "they are not bound yet: the next plan counts them there"
    )
    by_score = Cluster(planned=False)
    by_score.comes("n-1", "n-2")
    assert isinstance([by_score.asks(by_score.pods[name]) for name in order][-1], Reason)


def test_a_pod_whose_node_comes_last_takes_nobodys_room() -> None:
    cluster = Cluster()
    cluster.comes("n-1")
    assert cluster.asks(cluster.pods["two"]) == Reason.HELD_FOR_OTHERS
    cluster.comes("n-2", ready=False)
    assert cluster.asks(cluster.pods["two"]) == ["n-2"]


def test_others_may_use_the_room_if_they_are_more_important_or_if_it_is_not_used_for_long() -> None:
    cluster = Cluster()
    cluster.comes("n-1", ready=False)
    cluster.now = 300
    cluster.apply(TimePassed())
    stranger = a_pod("stranger", cpu="4", memory="1Gi")
    assert cluster.asks(stranger) == Reason.HELD_FOR_OTHERS, "the node is not ready yet"
    assert cluster.asks(a_pod("important", cpu="1", memory="1Gi", priority=5)) == ["n-1"]
    cluster = Cluster()
    cluster.comes("n-1")
    cluster.now = KEPT_SECONDS + 1
    cluster.apply(TimePassed())
    assert cluster.asks(stranger) == ["n-1"]


def test_the_room_of_a_pod_that_is_gone_or_placed_elsewhere_is_free() -> None:
    cluster = Cluster()
    cluster.comes("n-1")
    for name in NODES[0][:1]:
        cluster.apply(PodGone(cluster.pods[name].uid, cluster.pods[name].key))
    cluster.apply(PodSeen(structs.replace(cluster.pods["one"], node=NodeName("elsewhere"), resource_version=10**9)))
    assert cluster.asks(a_pod("stranger", cpu="4", memory="1Gi")) == ["n-1"]


@pytest.mark.parametrize(("planned", "named"), [(True, ["n-1"]), (False, ["n-0"])])
def test_who_replaces_an_evicted_pod_goes_where_that_was_planned_to_go(planned: bool, named: list[str]) -> None:
    """Our score says n-0, the fuller node. Named once in vain, the destination is no longer preferred."""
    cluster = Cluster(planned=planned)
    cluster.apply(NodesPlanned((), Instant(0.0)))
    cluster.comes("leaves", "n-0", "n-1")
    evicted = a_pod("evicted", on="leaves", cpu="1", memory="1Gi")
    cluster.apply(PodSeen(evicted), PodSeen(a_pod("there", on="n-0", cpu="2", memory="8Gi")))
    holds = cluster.state_machine.state.holds
    assert holds.destinations.keep(evicted, NodeName("leaves"), NodeName("n-1"))
    cluster.apply(PodGone(evicted.uid, evicted.key))
    holds.destinations.left(evicted.uid)
    cluster.apply(NodeGone(NodeName("leaves")))
    successor = a_pod("successor", cpu="1", memory="1Gi")
    cluster.apply(PodSeen(successor))
    assert cluster.asks(successor) == named
    assert cluster.asks(successor) != named


def test_where_we_bind_the_room_is_kept_until_then() -> None:
    cluster = Cluster(bind=True)
    cluster.comes("n-1", "n-2")
    one = cluster.pods["one"]
    assert cluster.asks(one) == ["n-1"]
    assert cluster.state_machine.bind(one.uid, one.key, NodeName("n-1"), Instant(0.0)).reason is Reason.OK
    assert cluster.asks(a_pod("stranger", cpu="1", memory="1Gi")) == Reason.HELD_FOR_OTHERS
    assert cluster.state_machine.state.planned_nodes.places().keys() == {"uid-three", "uid-two", "uid-too"}


def test_a_node_that_came_while_the_plan_was_made_is_not_expected_again_and_one_that_failed_is() -> None:
    cluster = Cluster()
    cluster.now = 10
    cluster.comes("n-1")
    cluster.apply(PodGone(cluster.pods["three"].uid, cluster.pods["three"].key))
    assert cluster.asks(cluster.pods["one"]) == ["n-1"]
    cluster.expect(as_of=5)
    cluster.comes("n-2")
    assert cluster.state_machine.state.planned_nodes.places() == {"uid-one": "n-1", "uid-two": "n-2", "uid-too": "n-2"}
    cluster.apply(NodeGone(NodeName("n-2")))
    cluster.now = 20
    cluster.expect(as_of=15)
    cluster.comes("n-3", "n-4")
    assert cluster.state_machine.state.planned_nodes.places() == {"uid-one": "n-1", "uid-two": "n-4", "uid-too": "n-4"}


def test_the_next_plan_agrees_with_the_last_one() -> None:
    """The burst of the benchmark, a fifth of it. Without the places the upcoming nodes take fewer pods, and more are bought."""
    case = burst()
    case = replace(case, workloads=tuple(replace(each, count=10) for each in case.workloads))
    pods, groups = case.pods(), [variant.group() for variant in case.variants]
    rules = replace(installed.PENDING, after_scheduler=False)
    policy = replace(installed.SCALE_UP, pending=rules, max_nodes_per_scale_up=0, expanders=("price",))
    snapshot = ClusterSnapshot.build([], pods)

    def planned(hints: dict[PodUid, NodeName]) -> ScaleUpPlan:
        demand = pending_demand(pods, rules=rules, now=UnixTime(1.8e9))
        with snapshot.fork():
            return plan_scale_up(snapshot, demand, groups, policy=policy, clock=lambda: 0.0, hints=hints)

    first = planned({})
    coming = coming_nodes(first, groups)
    counts = {scale_up.group: scale_up.count for scale_up in first.scale_ups}
    groups = [replace(group, upcoming=counts.get(group.name, 0)) for group in groups]
    pending = {pod.uid for pod in pods}
    second = planned(hints_of(coming, pending, {}, set()))
    assert (second.scale_ups, len(second.schedulable)) == ((), len(pods))
    assert coming_nodes(second, groups) == {name: list(map(tuple, nodes)) for name, nodes in coming.items()}
    assert planned({}).scale_ups != ()
    nodes = {group.name: group.template.node for group in groups if group.template is not None}
    said = [
        (dict(each.labels) | {HOSTNAME: name}, each.allocatable, len(each.nodes))
        for name, each in zip(coming, announced(coming, groups), strict=True)
    ]
    assert said == [(nodes[name].labels, nodes[name].allocatable, counts[name]) for name in coming]


def test_a_node_that_has_come_is_named_and_the_others_move_up() -> None:
    a, b, c, d, e = (PodUid(name) for name in "abcde")
    coming = {GroupName("g"): [(a, b), (c,), (d,), (e,)]}
    places = {c: NodeName("real"), d: NodeName("boots")}
    assert hints_of(coming, {b, c, d, e}, places, {NodeName("real")}) == {
        "b": "upcoming:g:0", "c": "real", "d": "upcoming:g:1", "e": "upcoming:g:2",
    }  # fmt: skip
    assert hints_of(coming, {e}, {}, set()) == {"e": "upcoming:g:0"}
    named = PodUid("named")
    assert hints_of({}, {named}, {named: NodeName("real"), a: NodeName("real")}, {NodeName("real")}) == {"named": "real"}
