"""States of a node that end by themselves, and labels that say what it is, are nothing to be edited away."""

import pytest
from msgspec import structs

from slackwater.explain.pods import explain_pod
from slackwater.model.objects import Node, Taint
from tests.support.builders import a_node, a_pod
from tests.support.explaining import StatusSources


def roomy(*taints: tuple[str, str], cordoned: bool = False) -> Node:
    node = a_node("n1", taints=[Taint(key, "", effect) for key, effect in taints], unschedulable=cordoned)
    return structs.replace(node, scalars=(("pods", 110),))


def remedies(node: Node, **asks: dict[str, str]) -> list[str]:
    pod = a_pod("web", node_selector=asks.get("node_selector"))
    return [remedy.change for remedy in explain_pod(StatusSources(nodes=(node,), pending=(pod,)).explain_input(), pod).remedies]


@pytest.mark.parametrize(
    ("key", "want"),
    [
        ("node.kubernetes.io/not-ready", "wait until node n1 is ready"),
        ("node.kubernetes.io/unreachable", "wait until node n1 answers again, or remove the node"),
        ("node.kubernetes.io/memory-pressure", "wait until node n1 has memory to spare again"),
        ("node.kubernetes.io/disk-pressure", "wait until node n1 has disk space to spare again"),
        ("node.kubernetes.io/pid-pressure", "wait until node n1 has process ids to spare again"),
        ("node.kubernetes.io/network-unavailable", "wait until the network of node n1 is set up"),
        ("node.kubernetes.io/out-of-service", "bring node n1 back into service"),
        ("node.kubernetes.io/unschedulable", "uncordon node n1"),
        ("node.cloudprovider.kubernetes.io/uninitialized", "wait until the cloud provider has initialized node n1"),
        ("node.cloudprovider.kubernetes.io/shutdown", "start the machine of node n1"),
        ("ToBeDeletedByClusterAutoscaler", "cancel the removal of node n1"),
        (
            "startup-taint.cluster-autoscaler.kubernetes.io/gpu",
            "wait until node n1 has started, which takes taint startup-taint.cluster-autoscaler.kubernetes.io/gpu off",
        ),
    ],
)
def test_a_state_ends_and_its_taint_is_not_taken_off(key: str, want: str) -> None:
    assert remedies(roomy((key, "NoSchedule"))) == [want]
    assert remedies(roomy((key, "NoSchedule"), (key, "NoExecute"))) == [want]


def test_a_cordoned_node_is_uncordoned_and_nothing_more() -> None:
    assert remedies(roomy(("node.kubernetes.io/unschedulable", "NoSchedule"), cordoned=True)) == ["uncordon node n1"]


def test_two_states_have_to_end() -> None:
    node = roomy(
        ("node.kubernetes.io/not-ready", "NoSchedule"), ("node.kubernetes.io/unschedulable", "NoSchedule"), cordoned=True
    )
    assert remedies(node) == ["uncordon node n1; and wait until node n1 is ready"]


def test_a_taint_that_dedicates_a_node_may_be_removed_or_tolerated() -> None:
    assert remedies(roomy(("dedicated", "NoSchedule"))) == [
        "remove taint dedicated:NoSchedule from node n1",
        "let pod default/web tolerate taint dedicated:NoSchedule",
    ]


@pytest.mark.parametrize(
    "key",
    [
        "topology.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "kubernetes.io/hostname",
        "node.kubernetes.io/instance-type",
        "topology.ebs.csi.aws.com/zone",
        "failure-domain.beta.kubernetes.io/zone",
        "slackwater.dev/node-group",
    ],
)
def test_no_remedy_relabels_facts_about_the_machine(key: str) -> None:
    assert remedies(roomy(), node_selector={key: "b"}) == [f"take {key}=b out of the node selector of pod default/web"]
