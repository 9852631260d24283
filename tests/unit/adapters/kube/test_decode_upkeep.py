"""What nodes and pods say of their own removal: annotations, time to end, order of deletion."""

import json
import math
from typing import Any

import pytest

from slackwater.adapters.kube.decode import NodeDecoder, PodDecoder
from slackwater.model.objects import Node, Pod
from slackwater.model.pod_constraints import KindInterner

CA = "cluster-autoscaler.kubernetes.io"


def node(**annotations: str) -> Node:
    meta = {"name": "n1", "uid": "u1", "annotations": annotations}
    return NodeDecoder().decode(json.dumps({"metadata": meta}).encode())


def pod(annotations: dict[str, str] | None = None, **spec: Any) -> Pod:
    meta = {"name": "p", "namespace": "ns", "uid": "u", "annotations": annotations}
    return PodDecoder(KindInterner()).decode(json.dumps({"metadata": meta, "spec": spec}).encode())


@pytest.mark.parametrize("annotation", [f"{CA}/scale-down-disabled", "karpenter.sh/do-not-disrupt"])
@pytest.mark.parametrize(("value", "want"), [("true", True), ("false", False), ("", False), ("1h", False)])
def test_a_node_may_say_that_it_is_never_removed(annotation: str, value: str, want: bool) -> None:
    assert node(**{annotation: value}).keep == (annotation if want else "")


@pytest.mark.parametrize(
    ("value", "want"),
    [("true", math.inf), ("1h30m", 5400.0), ("True", 0.0), ("false", 0.0), ("-5m", 0.0), ("0s", 0.0), ("soon", 0.0)],
)
def test_a_pod_may_say_for_how_long_it_is_not_disrupted(value: str, want: float) -> None:
    assert pod({"karpenter.sh/do-not-disrupt": value}).eviction_facts.do_not_disrupt == want


def test_any_annotation_of_the_prefix_delays_a_nodes_deletion() -> None:
    assert node(**{f"delay-deletion.{CA}/driver": ""}).deletion_delayed
    assert not node(**{f"delay-deletion.{CA}": ""}).deletion_delayed
    assert not node().deletion_delayed


def test_a_cordon_is_ours_where_we_wrote_so() -> None:
    assert node(**{"slackwater.dev/cordoned": "true"}).cordoned_by_us
    assert not node().cordoned_by_us


def test_how_long_a_pod_may_take_to_end() -> None:
    assert (pod().grace_seconds, pod(terminationGracePeriodSeconds=0).grace_seconds) == (30, 0)
    meta = {"name": "p", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}
    body = {"metadata": meta, "spec": {"terminationGracePeriodSeconds": 600}}
    assert PodDecoder(KindInterner()).decode(json.dumps(body).encode()).grace_seconds == 5  # its deletion says otherwise


@pytest.mark.parametrize(("text", "want"), [("-7", -7), ("12", 12), ("much", 0), ("", 0)])
def test_a_pods_place_in_its_controllers_order_of_deletion(text: str, want: int) -> None:
    assert pod({"controller.kubernetes.io/pod-deletion-cost": text}).eviction_facts.deletion_cost == want
    assert pod().eviction_facts.deletion_cost == 0


def test_the_costs_of_evictions_are_read_in_karpenters_order() -> None:
    """The first text counts even if it is no number, as in Karpenter. Pods differ though only one of the texts does."""
    names = ["karpenter.sh/disruption-cost", "node-autoscaling.kubernetes.io/disruption-cost"]
    names.append("controller.kubernetes.io/pod-deletion-cost")
    decoder = PodDecoder(KindInterner())

    def cost(*texts: str | None) -> int:
        annotations = {name: text for name, text in zip(names, texts, strict=True) if text is not None}
        body = {"metadata": {"name": "p", "namespace": "ns", "uid": "u", "annotations": annotations}}
        return decoder.decode(json.dumps(body).encode()).eviction_facts.deletion_cost

    assert [cost("3", "2", "1"), cost(None, "2", "1"), cost(None, None, "1"), cost("much", "2", "1")] == [3, 2, 1, 0]


@pytest.mark.parametrize("prefix", ["autoscaling.x-k8s.io", CA])
def test_a_pod_may_say_which_provisioning_request_provides_its_nodes(prefix: str) -> None:
    assert pod({f"{prefix}/consume-provisioning-request": "pr-1"}).provisioning_request == "pr-1"
    assert pod().provisioning_request == ""


@pytest.mark.parametrize(("text", "want"), [("1h30m", 5400.0), ("5", 0.0), ("soon", 0.0)])
def test_a_pod_may_say_for_how_long_it_preempts_nobody(text: str, want: float) -> None:
    assert pod({"kai.scheduler/preemption-delay": text}).preemption_delay_seconds == want


def resizing(reason: str, *, node: str = "n1") -> Pod:
    """A pod that asks 3 CPUs and holds 1."""
    held = {"requests": {"cpu": "1"}}
    statuses = [{"name": "app", "resources": held, "allocatedResources": {"cpu": "1"}}]
    pending = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    meta = {"name": "p", "namespace": "ns", "uid": "u"}
    spec = {"nodeName": node, "containers": [{"name": "app", "resources": {"requests": {"cpu": "3"}}}]}
    body = {"metadata": meta, "spec": spec, "status": {"containerStatuses": statuses, "conditions": pending}}
    return PodDecoder(KindInterner()).decode(json.dumps(body).encode())


def test_what_a_node_refuses_a_pod_its_successor_may_ask_all_the_same() -> None:
    pod = resizing("Infeasible")
    assert (pod.kind.requests.cpu, pod.renewed_kind.requests.cpu) == (1000, 3000)


@pytest.mark.parametrize(
    "pod", [resizing("Deferred"), resizing("Infeasible", node=""), pod()], ids=["deferred", "new", "plain"]
)
def test_of_all_others_the_successor_asks_the_same(pod: Pod) -> None:
    assert pod.successor is None
    assert pod.renewed_kind is pod.kind
