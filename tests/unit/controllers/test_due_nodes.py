"""Nodes that are too old, or not as new nodes of their group are: replaced whatever that saves."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from slackwater.controllers.consolidation.due import drift_of
from slackwater.controllers.consolidation.outcome import ConsolidationPlan
from slackwater.model.eviction_facts import EvictionFacts
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import (
    AS_TEMPLATE,
    CLOUD_CHOOSES,
    EVEN_ZONES,
    GroupName,
    GroupOptions,
    Instance,
    InstanceId,
    NodeGroup,
    VariantChoice,
)
from slackwater.model.objects import Node, Taint
from slackwater_protocol.names import NODE_GROUP
from tests.support.builders import a_budget
from tests.support.consolidating import PricedCluster, coming, kept, leaving, rules
from tests.support.removing import NOW, WEB
from tests.support.scalingup import a_template

DAY = 86_400.0
OLD = UnixTime(NOW - 31 * DAY)
MONTH: dict[str, Any] = {"expire_after": 30 * DAY}
DEDICATED = Taint("dedicated", "web", "NoSchedule")


def ages(cluster: PricedCluster, created: dict[str, UnixTime]) -> None:
    cluster.nodes = [structs.replace(node, created_at=created.get(node.name, UnixTime(NOW - DAY))) for node in cluster.nodes]


def full_nodes(count: int, **more: Any) -> PricedCluster:
    """So many nodes of one group, each of which one pod fills: money alone replaces none."""
    cluster = PricedCluster()
    for node in cluster.group("a", "4", 100, nodes=count, **more):
        cluster.runs(node, "3500m")
    return cluster


def reasons(plan: ConsolidationPlan) -> list[str]:
    return [move.reason for move in plan.moves]


def test_a_node_that_is_too_old_is_replaced_by_one_of_its_group_though_that_saves_nothing() -> None:
    cluster = full_nodes(3)
    ages(cluster, {"a-1": OLD})
    assert cluster.planned().moves == ()
    plan = cluster.planned(rules(**MONTH))
    assert (leaving(plan), coming(plan), plan.saved, reasons(plan)) == (["a-1"], {"a": 1}, 0, ["Expired"])


def test_a_group_has_an_age_of_its_own() -> None:
    cluster = full_nodes(3)
    ages(cluster, {"a-1": OLD})
    assert cluster.planned(rules(**MONTH, expire_after_of={GroupName("a"): 0.0})).moves == ()
    assert leaving(cluster.planned(rules(expire_after_of={GroupName("a"): 30 * DAY}))) == ["a-1"]


def test_a_provider_may_say_the_age_and_the_configuration_of_the_group_counts_more() -> None:
    cluster = full_nodes(3, options=GroupOptions(expire_after=30 * DAY))
    ages(cluster, {"a-1": OLD})
    assert leaving(cluster.planned()) == ["a-1"]
    assert cluster.planned(rules(expire_after_of={GroupName("a"): 0.0})).moves == ()
    cluster = full_nodes(3, options=GroupOptions(expire_after=0.0))
    ages(cluster, {"a-1": OLD})
    assert cluster.planned(rules(**MONTH)).moves == ()


def test_a_provider_may_say_that_a_machine_has_drifted() -> None:
    cluster = full_nodes(3)
    cluster.nodes = [structs.replace(node, provider_id=f"m://{node.name}") for node in cluster.nodes]
    drifted = Instance(id=InstanceId("m://a-2"), state="running", drifted="Karpenter says AMIDrift")
    cluster.groups["a"] = replace(cluster.groups["a"], group=replace(cluster.groups["a"].group, instances=(drifted,)))
    assert cluster.planned().moves == ()
    plan = cluster.planned(rules(drift=True))
    assert (leaving(plan), reasons(plan)) == (["a-2"], ["Drifted"])


def test_the_oldest_go_first_no_pod_goes_to_another_and_the_rest_say_so() -> None:
    cluster = full_nodes(14)
    cluster.runs("a-0", "100m")
    names = [str(node.name) for node in cluster.nodes]
    ages(cluster, {name: UnixTime(OLD - number) for number, name in enumerate(names)})
    plan = cluster.planned(rules(**MONTH))
    most = rules().scale_down.max_scale_down_parallelism
    assert [each.name for move in plan.moves for each in move.leaving] == names[: -most - 1 : -1]
    assert {each.to for move in plan.moves for each in move.pods}.isdisjoint(names)
    assert [reason for node, reason in kept(plan).items()] == ["ScaleDownThrottled"] * (14 - most)


def test_empty_nodes_that_are_due_go_and_a_minimum_gets_another_in_their_place() -> None:
    cluster = PricedCluster()
    cluster.group("a", "4", 100, nodes=2, smallest=1)
    ages(cluster, {"a-0": OLD, "a-1": OLD})
    plan = cluster.planned(rules(**MONTH))
    assert (leaving(plan), coming(plan)) == (["a-0", "a-1"], {"a": 1})
    full = PricedCluster()
    full.group("a", "4", 100, nodes=1, smallest=1, largest=1)
    ages(full, {"a-0": OLD})
    assert kept(full.planned(rules(**MONTH))) == {"a-0": "NodeGroupMinSizeReached"}


def test_a_node_in_use_of_a_group_at_its_minimum_is_replaced_within_it() -> None:
    cluster = full_nodes(2, smallest=2)
    cluster.group("b", "4", 50)
    ages(cluster, {"a-1": OLD})
    plan = cluster.planned(rules(**MONTH))
    assert leaving(plan) == ["a-1"]
    assert coming(plan)["a"] == 1


def test_what_protects_pods_protects_them_here_too() -> None:
    cluster = full_nodes(1)
    ages(cluster, {"a-0": OLD})
    assert kept(cluster.planned(rules(**MONTH), budgets=[a_budget("web", allowed=0, app="web")])) == {"a-0": "NotEnoughPdb"}
    facts = EvictionFacts(owner=WEB, do_not_disrupt=float("inf"))
    cluster.pods = [structs.replace(pod, eviction_facts=facts) for pod in cluster.pods]
    assert kept(cluster.planned(rules(**MONTH))) == {"a-0": "DoNotDisruptAnnotation"}


# --- drift ------------------------------------------------------------------------------------------------------------------


def drifting(**said: Any) -> PricedCluster:
    """Two nodes of a group whose provider says something else of new nodes; one node is as it says."""
    cluster = full_nodes(2)
    group = cluster.groups["a"]
    assert group.template is not None
    template = structs.replace(group.template.node, **said)
    provided = replace(group.group, template=template)
    cluster.groups["a"] = replace(group, group=provided, template=replace(group.template, node=template))
    first, second = cluster.nodes
    labels = {**template.labels, **{key: first.labels[key] for key in ("kubernetes.io/hostname",)}}
    cluster.nodes = [structs.replace(template, name=first.name, labels=labels), second]
    ages(cluster, {})
    return cluster


@pytest.mark.parametrize(
    "said",
    [{"labels": {"kubernetes.io/hostname": "t", "image": "v2"}}, {"taints": (Taint("dedicated", "", "PreferNoSchedule"),)}],
)
def test_a_node_that_lacks_what_new_ones_have_is_replaced(said: dict[str, Any]) -> None:
    cluster = drifting(**said)
    assert cluster.planned().moves == ()
    plan = cluster.planned(rules(drift=True))
    assert (leaving(plan), coming(plan), reasons(plan)) == (["a-1"], {"a": 1}, ["Drifted"])


def a_node(name: str = "n", **more: Any) -> Node:
    return structs.replace(a_template(name, labels=more.pop("labels", {})), name=NodeName(name), **more)


def a_group(said: Node | None, choice: VariantChoice = AS_TEMPLATE) -> NodeGroup:
    return NodeGroup(
        name=GroupName("a"), provider="p", min_size=0, max_size=9, target=1, instances=(), template=said, choice=choice
    )


ZONE = {"topology.kubernetes.io/zone": "b"}
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
TYPE, OTHER = ({INSTANCE_TYPE: name} for name in "ab")


@pytest.mark.parametrize(
    ("node", "said", "choice", "drift"),
    [
        (a_node(), a_node(labels={"image": "v2"}), CLOUD_CHOOSES, "label image is missing, new nodes have v2"),
        (a_node(labels={"image": "v1"}), a_node(labels={"image": "v2"}), AS_TEMPLATE, "label image is v1, new nodes have v2"),
        (a_node(), a_node(taints=(DEDICATED,)), CLOUD_CHOOSES, "taint dedicated is missing"),
        (a_node(taints=(DEDICATED,), labels={"mine": "x"}), a_node(), AS_TEMPLATE, ""),
        (a_node(), a_node(labels=ZONE), EVEN_ZONES, ""),
        (a_node(), a_node(labels=ZONE), AS_TEMPLATE, "label topology.kubernetes.io/zone is missing, new nodes have b"),
        (a_node(), a_node(labels=TYPE), CLOUD_CHOOSES, ""),
        (
            a_node(labels=TYPE),
            a_node(labels=OTHER),
            AS_TEMPLATE,
            "label node.kubernetes.io/instance-type is a, new nodes have b",
        ),
        (a_node(labels={NODE_GROUP: "a"}), a_node("t", labels={"kubernetes.io/os": "x"}), AS_TEMPLATE, ""),
        (a_node(), a_node(scalars=(("pods", 250),)), AS_TEMPLATE, "pods is 110, new nodes have 250"),
        (a_node(), a_node(scalars=(("pods", 250),)), CLOUD_CHOOSES, ""),
    ],
)
def test_what_is_drift(node: Node, said: Node, choice: VariantChoice, drift: str) -> None:
    assert drift_of(node, a_group(said, choice), [said]) == drift


def test_what_new_nodes_lack_too_is_a_promise_that_nobody_keeps() -> None:
    said = a_node(labels={"image": "v2"}, taints=(DEDICATED,))
    assert drift_of(a_node(), a_group(said), [said])
    assert not drift_of(a_node(), a_group(said), [a_node()])
    assert not drift_of(a_node(), a_group(said), [])
    assert not drift_of(a_node(), a_group(None), [said])
