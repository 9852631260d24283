"""What a new node looks like: whose word counts, what is cleaned, which DaemonSets it gets."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from slackwater.controllers.scaleup.existing import awaits_devices
from slackwater.controllers.scaleup.groups import Template
from slackwater.controllers.scaleup.template import template_of
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.node_taints import TaintRules
from slackwater.model.objects import Node, Pod, Taint
from slackwater.model.pod_constraints import Toleration
from slackwater.model.resources import amounts_of
from slackwater.snapshot.node_facts import HOSTNAME
from slackwater_protocol.names import NODE_GROUP, TO_BE_DELETED_TAINT
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
    return replace(a_pod(f"{name}-1", cpu="100m", **of), eviction_facts=owned)  # type: ignore[arg-type]


def test_a_real_node_comes_before_the_providers_template() -> None:
    assert found(a_node("n", cpu="4")).node.allocatable.cpu == 4000
    assert found().node.allocatable.cpu == 8000


BAD = [
    replace(a_node("n"), ready=False),
    a_node("n", unschedulable=True),
    a_node("n", taints=[Taint(TO_BE_DELETED_TAINT, "1", "NoSchedule")]),
]


@pytest.mark.parametrize("bad", BAD, ids=["not ready", "cordoned", "leaving"])
def test_an_unready_node_is_copied_only_where_there_is_no_other_template(bad: Node) -> None:
    assert found(bad).node.allocatable.cpu == 8000
    assert found(bad, said=False).node.allocatable.cpu == 4000
    assert found(bad, replace(a_node("z", cpu="6"))).node.allocatable.cpu == 6000


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
    assert set(template.node.labels) == {HOSTNAME, NODE_GROUP}


def test_system_amounts_are_subtracted_from_the_providers_template_alone() -> None:
    share = amounts_of((1000, 0))
    said = template_of(SAID, [], pods_on=lambda _: (), system=share)
    real = template_of(SAID, [a_node("n", cpu="4")], pods_on=lambda _: (), system=share)
    assert [each.node.allocatable.cpu for each in (said, real) if each] == [7000, 4000]


def test_pods_of_daemon_sets_are_copied_others_are_not() -> None:
    replica = replace(a_pod("mirror"), eviction_facts=EvictionFacts(mirror_pod=True))
    leaving = replace(a_daemon("old"), deleting=True)
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
        ([a_node("n", taints=[DEDICATED])], (DEDICATED,)),
    ],
    ids=["one of 20 under repair", "all", "all but one", "one has more", "one of two", "one alone"],
)
def test_a_taint_that_most_nodes_lack_is_no_property_of_their_group(nodes: list[Node], want: tuple[Taint, ...]) -> None:
    assert found(*nodes, said=False).node.taints == want
    assert found(*reversed(nodes), said=False).node.taints == want


def test_one_node_does_not_overrule_a_configured_template_and_two_do() -> None:
    said = replace(GROUP, template=replace(a_template("said"), taints=(DEDICATED,)))

    def taints(*nodes: Node) -> tuple[Taint, ...]:
        template = template_of(said, nodes, pods_on=lambda _: ())
        assert template is not None
        return template.node.taints

    assert taints(a_node("n", taints=[REPAIR])) == (DEDICATED,)
    assert taints(a_node("n"), a_node("m")) == ()
    assert taints(a_node("n", taints=[REPAIR]), a_node("m", taints=[REPAIR])) == (REPAIR,)


def test_a_taint_whose_value_is_each_nodes_own_is_still_one_taint() -> None:
    nodes = [a_node(f"n{number}", taints=[Taint("leased-until", str(number), "NoSchedule")]) for number in range(5)]
    assert [taint.key for taint in found(*nodes).node.taints] == ["leased-until"]


def test_taints_of_start_and_status_are_configured() -> None:
    rules = TaintRules(startup=("acme.io/*",), status=("weather",))
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
    assert set(found(odd, *rest).node.labels) == {HOSTNAME, "disk"}
