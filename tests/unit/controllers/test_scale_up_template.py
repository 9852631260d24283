"""What a new node looks like: whose word counts, what is cleaned, which DaemonSets it gets."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.cluster.nodegroups.status import BoughtNode
from slackwater.controllers.scaleup.groups import Template
from slackwater.controllers.scaleup.template import awaits_devices, template_of
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.node_taints import TaintRules
from slackwater.model.objects import Node, Pod, Taint
from slackwater.model.pod_constraints import Toleration
from slackwater.model.resources import amounts_of
from slackwater.snapshot.node_facts import HOSTNAME
from slackwater_protocol.names import NODE_GROUP, TEMPLATE_NODE, TO_BE_DELETED_TAINT
from tests.support.builders import a_node, a_pod
from tests.support.scalingup import a_group, a_template

GROUP = a_group("g").group
SAID = replace(GROUP, template=a_template("said", cpu="8"))


def found(*nodes: Node, said: bool = True, pods: Sequence[Pod] = (), daemons: Sequence[Pod] = ()) -> Template:
    template = template_of(SAID if said else GROUP, nodes, pods_on=lambda _: pods, daemons=daemons)
    assert template is not None
    return template


def a_daemon(name: str, **of: object) -> Pod:
    owned = EvictionFacts(owner=Owner("apps", "DaemonSet", name))
    return structs.replace(a_pod(f"{name}-1", cpu="100m", **of), eviction_facts=owned)  # type: ignore[arg-type]


def a_mirror(name: str) -> Pod:
    return structs.replace(a_pod(name), eviction_facts=EvictionFacts(mirror_pod=True))


def test_real_nodes_say_how_much_of_the_promised_machine_the_kubelet_keeps() -> None:
    assert found().node.allocatable.cpu == 8000
    assert found(a_node("n", cpu="7910m")).node.allocatable.cpu == 7910
    assert found(a_node("n", cpu="6"), a_node("m", cpu="6")).node.allocatable.cpu == 6000


@pytest.mark.parametrize("cpu", ["2", "4", "7", "16"])
def test_one_node_of_another_size_does_not_overrule_what_was_promised(cpu: str) -> None:
    assert found(a_node("n", cpu=cpu)).node.allocatable.cpu == 8000


def test_nothing_makes_a_new_node_larger_than_promised() -> None:
    assert found(*(a_node(f"n{number}", cpu="16") for number in range(5))).node.allocatable.cpu == 8000


BAD = [
    structs.replace(a_node("n"), ready=False),
    a_node("n", unschedulable=True),
    a_node("n", taints=[Taint(TO_BE_DELETED_TAINT, "1", "NoSchedule")]),
]


@pytest.mark.parametrize("bad", BAD, ids=["not ready", "cordoned", "leaving"])
def test_an_unready_node_is_copied_only_where_there_is_no_other_template(bad: Node) -> None:
    assert found(bad).node.allocatable.cpu == 8000
    assert found(bad, said=False).node.allocatable.cpu == 4000
    assert found(bad, a_node("z", cpu="7800m")).node.allocatable.cpu == 7800


def test_without_a_node_and_without_a_configured_one_there_is_no_template() -> None:
    assert template_of(GROUP, [], pods_on=lambda _: ()) is None


def test_what_is_a_nodes_own_is_cleaned() -> None:
    taints = [
        Taint("node.kubernetes.io/not-ready", "", "NoSchedule"),
        Taint("startup-taint.cluster-autoscaler.kubernetes.io/cni", "", "NoSchedule"),
        Taint("dedicated", "batch", "NoSchedule"),
    ]
    node = a_node("n", labels={HOSTNAME: "n", "disk": "ssd"}, taints=taints, unschedulable=True)
    cleaned = found(node, said=False).node
    assert cleaned.taints == (Taint("dedicated", "batch", "NoSchedule"),)
    assert (cleaned.unschedulable, cleaned.ready, cleaned.labels["disk"]) == (False, True, "ssd")
    assert cleaned.labels[HOSTNAME] == cleaned.name != "n"


def test_a_new_node_carries_the_labels_that_every_node_gets() -> None:
    bare = replace(GROUP, template=a_node("said"))
    template = template_of(bare, [], pods_on=lambda _: ())
    assert template is not None
    assert set(template.node.labels) == {HOSTNAME, NODE_GROUP, TEMPLATE_NODE}


def test_system_amounts_are_subtracted_from_the_providers_template_alone() -> None:
    share = amounts_of((1000, 0))
    said = template_of(SAID, [], pods_on=lambda _: (), system=share)
    real = template_of(SAID, [a_node("n", cpu="6900m")], pods_on=lambda _: (), system=share)
    assert [each.node.allocatable.cpu for each in (said, real) if each] == [7000, 6900]


def test_pods_of_daemon_sets_are_copied_others_are_not() -> None:
    replica = structs.replace(a_pod("mirror"), eviction_facts=EvictionFacts(mirror_pod=True))
    leaving = structs.replace(a_daemon("old"), deleting=True)
    pods = [a_daemon("logs"), replica, leaving, a_pod("other")]
    assert [pod.key.name for pod in found(a_node("n"), pods=pods).running_pods] == ["logs-1", "mirror"]


def test_daemon_sets_that_would_run_there_are_added() -> None:
    tainted = a_node("n", labels={"disk": "ssd"}, taints=[Taint("a", "", "NoSchedule")])
    tolerates = [Toleration("a", "Exists", "", "")]
    daemons = [
        a_daemon("logs", tolerations=tolerates),
        a_daemon("here", tolerations=tolerates, node_selector={"disk": "ssd"}),
        a_daemon("elsewhere", tolerations=tolerates, node_selector={"disk": "hdd"}),
        a_daemon("intolerant"),
    ]
    template = found(tainted, said=False, pods=[a_daemon("logs")], daemons=daemons)
    assert [pod.key.name for pod in template.running_pods] == ["logs-1", "here-1"]


def test_a_node_whose_gpu_is_not_there_yet_is_upcoming() -> None:
    template = a_template("t", scalars={"nvidia.com/gpu": 8})
    assert awaits_devices(a_node("n"), template)
    assert awaits_devices(a_template("n", scalars={"nvidia.com/gpu": 0}), template)
    assert not awaits_devices(a_template("n", scalars={"nvidia.com/gpu": 8}), template)
    assert not awaits_devices(a_node("n"), a_template("t"))


def test_of_real_nodes_the_one_with_its_devices_is_copied() -> None:
    late, whole = a_template("a"), a_template("b", scalars={"nvidia.com/gpu": 8})
    assert dict(found(late, whole).node.scalars)["nvidia.com/gpu"] == 8


REPAIR = Taint("maintenance", "", "NoSchedule")
DEDICATED = Taint("dedicated", "batch", "NoSchedule")


def nodes_with(count: int, *taints: Taint) -> list[Node]:
    return [a_node(f"{count}-{number}", taints=list(taints)) for number in range(count)]


@pytest.mark.parametrize(
    ("nodes", "want"),
    [
        ([*nodes_with(1, REPAIR), *nodes_with(19)], ()),
        (nodes_with(20, DEDICATED), (DEDICATED,)),
        ([*nodes_with(19, DEDICATED), *nodes_with(1)], (DEDICATED,)),
        ([*nodes_with(1, REPAIR, DEDICATED), *nodes_with(3, DEDICATED)], (DEDICATED,)),
        ([a_node("n", taints=[REPAIR]), a_node("m")], ()),
        ([*nodes_with(3, REPAIR), *nodes_with(1)], ()),
        ([a_node("n", taints=[DEDICATED])], (DEDICATED,)),
        ([*(structs.replace(node, created_at=UnixTime(2.0)) for node in nodes_with(15, REPAIR)), *nodes_with(5)], ()),
    ],
    ids=[
        "one of 20 under repair",
        "all",
        "all but one",
        "one has more",
        "one of two",
        "three of four",
        "one alone",
        "15 of 20",
    ],
)
def test_a_taint_that_most_nodes_lack_is_no_property_of_their_group(nodes: list[Node], want: tuple[Taint, ...]) -> None:
    assert found(*nodes, said=False).node.taints == want
    assert found(*reversed(nodes), said=False).node.taints == want


def test_taints_that_are_configured_are_those_of_a_new_node() -> None:
    said = replace(GROUP, template=structs.replace(a_template("said"), taints=(DEDICATED,)))

    def taints(*nodes: Node) -> tuple[Taint, ...]:
        template = template_of(said, nodes, pods_on=lambda _: ())
        assert template is not None
        return template.node.taints

    assert taints(a_node("n", taints=[REPAIR])) == (DEDICATED,)
    assert taints(a_node("n"), a_node("m")) == (DEDICATED,)
    assert taints(a_node("n", taints=[REPAIR]), a_node("m", taints=[REPAIR])) == (DEDICATED,)


def test_a_taint_whose_value_is_each_nodes_own_is_still_one_taint() -> None:
    nodes = [a_node(f"n{number}", taints=[Taint("leased-until", str(number), "NoSchedule")]) for number in range(5)]
    assert [taint.key for taint in found(*nodes).node.taints] == ["leased-until"]


def test_taints_of_start_and_status_are_configured() -> None:
    rules = TaintRules(startup_taints=("acme.io/*",), status_taints=("weather",))
    keys = ["acme.io/booting", "weather", "node.cilium.io/agent-not-ready"]
    node = a_node("n", taints=[Taint(key, "", "NoSchedule") for key in keys])

    def left(rules: TaintRules) -> list[str]:
        template = template_of(GROUP, [node], pods_on=lambda _: (), taints=rules)
        assert template is not None
        return [taint.key for taint in template.node.taints]

    assert left(rules) == keys[2:]
    assert left(TaintRules()) == keys[:2]


def test_a_label_that_most_nodes_lack_is_no_property_of_their_group() -> None:
    odd, rest = a_node("a", labels={"disk": "ssd", "broken": "yes"}), [a_node(name, labels={"disk": "ssd"}) for name in "bc"]
    assert set(found(odd, *rest).node.labels) == {HOSTNAME, TEMPLATE_NODE, "disk"}


def test_one_odd_node_is_not_the_template_of_its_group() -> None:
    """Whatever is odd about it, and wherever its name is in the order."""
    odd = structs.replace(
        a_template("n", labels={"disk": "hdd"}, scalars={"x.io/gpu": 1, "x.io/fpga": 1}), allocatable=amounts_of((9000, 1))
    )
    for name in ("a", "z"):
        rest = [a_template(f"m{number}", labels={"disk": "ssd"}, scalars={"x.io/gpu": 8}) for number in range(4)]
        node = found(structs.replace(odd, name=NodeName(name)), *rest, said=False).node
        assert (node.labels["disk"], dict(node.scalars)) == ("ssd", {"pods": 110, "x.io/gpu": 8})
        assert node.allocatable == rest[0].allocatable


def test_the_newest_nodes_show_what_a_group_has_become() -> None:
    old = [a_node(f"z{number}", cpu="4", labels={"image": "1"}, created_at=number) for number in range(20)]
    new = [a_node(f"a{number}", cpu="8", labels={"image": "2"}, created_at=100 + number) for number in range(6)]
    node = found(*old, *new, said=False).node
    assert (node.allocatable.cpu, node.labels["image"]) == (8000, "2")


def test_labels_are_as_configured_but_the_kubelet_knows_its_own() -> None:
    said = replace(GROUP, template=a_template("said", labels={"tier": "new", "kubernetes.io/arch": "amd64"}))
    nodes = [a_node(f"n{number}", labels={"tier": "old", "rack": "r", "kubernetes.io/arch": "arm64"}) for number in range(3)]
    template = template_of(said, nodes, pods_on=lambda _: ())
    assert template is not None
    labels = {key: value for key, value in template.node.labels.items() if key not in {HOSTNAME, TEMPLATE_NODE}}
    assert labels == {"tier": "new", "rack": "r", "kubernetes.io/arch": "arm64"}


def test_a_daemon_set_on_one_odd_node_takes_no_room_on_new_ones() -> None:
    pods = {"a": [a_daemon("logs"), a_daemon("debug"), a_mirror("proxy-a")], "b": [a_daemon("logs"), a_mirror("proxy-b")]}
    pods["c"] = pods["b"][:1]
    nodes = [a_node(name) for name in pods]
    template = template_of(GROUP, nodes, pods_on=lambda name: pods[name])
    assert template is not None
    assert [pod.key.name for pod in template.running_pods] == ["logs-1", "proxy-b"]


def test_what_came_of_the_last_purchase_counts_more_than_any_promise() -> None:
    came = BoughtNode(
        node=a_node("came", cpu="3920m", labels={"tier": "old"}, created_at=50), running_pods=(a_daemon("logs"),), there=False
    )
    rest = [a_node(f"n{number}", cpu="8", labels={"tier": "new"}) for number in range(5)]

    def reported(*nodes: Node) -> Template:
        template = template_of(SAID, nodes, pods_on=lambda _: (), bought=[came])
        assert template is not None
        return template

    for nodes in ((), rest):
        assert reported(*nodes).node.allocatable.cpu == 3920
        assert [pod.key.name for pod in reported(*nodes).running_pods] == ["logs-1"]
        assert "cpu 3920m instead of 8000m" in reported(*nodes).broken_promise
    later = [structs.replace(node, created_at=UnixTime(5000 + number)) for number, node in enumerate(rest)]
    assert (reported(*later).node.allocatable.cpu, reported(*later).broken_promise) == (8000, ""), "machines have changed since"
