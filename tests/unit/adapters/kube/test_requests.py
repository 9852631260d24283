"""What a pod asks: Kubernetes' own formula, compared with what its own code answered, and told by example."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from slackwater.adapters.kube.pod_requests import held_requests, missing_request, pod_requests
from slackwater.adapters.kube.structs import PodWire
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.model.resources import LARGEST_AMOUNT, Amounts
from tests.support.builders import amounts

#: Random pods, and what `PodRequests` of k8s.io/component-helpers v0.36.3 answered for them.
RECORDED = [json.loads(line) for line in (Path(__file__).parent / "pod_requests.jsonl").read_text().splitlines()]


def wire(pod: dict[str, Any]) -> PodWire:
    return msgspec.json.decode(msgspec.json.encode(pod), type=PodWire)


def container(name: str = "app", *, restart: str = "", **requests: str) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "resources": {"requests": requests}}
    return {**made, "restartPolicy": restart} if restart else made


def resized(name: str, *, actual: str, allocated: str) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": actual}}, "allocatedResources": {"cpu": allocated}}


@pytest.mark.parametrize("case", RECORDED, ids=[case["pod"]["metadata"]["name"] for case in RECORDED])
def test_the_sum_is_that_of_kubernetes_own_code(case: dict[str, Any]) -> None:
    assert pod_requests(wire(case["pod"])) == Amounts(case["cpu"], case["memory"])


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({}, "0"),
        ({"containers": [container(cpu="1"), container(cpu="250m")]}, "1250m"),
        ({"containers": [container(cpu="1n"), container(cpu="1n")]}, "1m"),
        ({"containers": [container(cpu="1")], "initContainers": [container(cpu="3"), container(cpu="2")]}, "3"),
        ({"containers": [container(cpu="1")], "initContainers": [container(cpu="2", restart="Always")]}, "3"),
        (
            {
                "containers": [container(cpu="1")],
                "initContainers": [container("s", cpu="2", restart="Always"), container(cpu="4")],
            },
            "6",
        ),
        (
            {
                "containers": [container(cpu="1")],
                "initContainers": [container(cpu="4"), container("s", cpu="2", restart="Always")],
            },
            "4",
        ),
        ({"containers": [container(cpu="1")], "overhead": {"cpu": "100m"}}, "1100m"),
        ({"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "1"}}, "5"),
        ({"containers": [container(cpu="1")], "resources": {"requests": {"memory": "1"}}}, "1"),
        ({"containers": [container(cpu="1")], "resources": {"limits": {"cpu": "4"}}}, "1"),
    ],
    ids=[
        "no containers",
        "containers add up",
        "the sum is rounded up, not its parts",
        "the largest init container sets the least",
        "a sidecar runs beside the apps",
        "an init container runs beside the sidecars before it",
        "and not beside the one after it",
        "overhead is added",
        "the pod as a whole counts in place of its containers",
        "only for the resources that it names",
        "its limits count for nothing",
    ],
)
def test_what_a_spec_asks_of_the_cpu(spec: dict[str, Any], want: str) -> None:
    assert pod_requests(wire({"spec": spec})).cpu == amounts(cpu=want).cpu


INFEASIBLE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
DEFERRED = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]}


@pytest.mark.parametrize(
    ("status", "want"),
    [
        ({"containerStatuses": [resized("app", actual="1", allocated="1")]}, "2"),
        ({"containerStatuses": [resized("app", actual="3", allocated="1")]}, "3"),
        ({"containerStatuses": [resized("app", actual="1", allocated="4")]}, "4"),
        ({"containerStatuses": [resized("app", actual="1", allocated="1500m")], **INFEASIBLE}, "1500m"),
        ({"containerStatuses": [resized("app", actual="1", allocated="1")], **DEFERRED}, "2"),
        ({"containerStatuses": [{"name": "app", "allocatedResources": {"cpu": "8"}}]}, "2"),
        ({"containerStatuses": [resized("other", actual="9", allocated="9")]}, "2"),
    ],
    ids=["growing", "shrinking", "granted", "infeasible", "deferred", "status without resources", "another's status"],
)
def test_a_resize_counts_at_its_largest(status: dict[str, Any], want: str) -> None:
    pod = {"spec": {"containers": [container(cpu="2")]}, "status": status}
    assert pod_requests(wire(pod)).cpu == amounts(cpu=want).cpu


def test_a_resize_of_the_pod_as_a_whole_counts_at_its_largest_too() -> None:
    spec = {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "2"}}}
    status = {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "4"}}
    assert pod_requests(wire({"spec": spec, "status": status})).cpu == 4000


def test_what_no_machine_can_hold_is_capped_and_does_not_wrap() -> None:
    spec = {"containers": [container(memory="8Ei"), container(memory="8Ei")]}
    assert pod_requests(wire({"spec": spec})).memory == LARGEST_AMOUNT


BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"containers": [container(**BOTH)]}, None),
        ({"containers": [container(cpu="0", memory="0")]}, None),
        ({"containers": [container(cpu="1")]}, "app: memory"),
        ({"containers": [{"name": "app"}]}, "app: cpu"),
        ({"containers": [container(**BOTH), container("b", memory="1")]}, "b: cpu"),
        ({"containers": [container(**BOTH)], "initContainers": [container("i", cpu="1")]}, None),
        ({"containers": [container(**BOTH)], "initContainers": [container("s", cpu="1", restart="Always")]}, "s: memory"),
        ({"containers": [container(cpu="1")], "resources": {"requests": {"memory": "1Gi"}}}, None),
        ({"containers": [container(memory="1")], "resources": {"requests": {"memory": "1Gi"}}}, "app: cpu"),
        ({"containers": [container(cpu="1")], "resources": {"limits": {"memory": "1Gi"}}}, "app: memory"),
    ],
    ids=[
        "all there",
        "zero is a request",
        "memory",
        "both: the first is named",
        "second container",
        "init containers may lack them",
        "sidecars may not",
        "the pod as a whole covers it",
        "but only what it names",
        "its limits cover nothing",
    ],
)
def test_the_first_container_and_resource_without_a_request_are_named(spec: dict[str, Any], want: str | None) -> None:
    assert missing_request(wire({"spec": spec}).spec) == want


@pytest.mark.parametrize(
    ("status", "want"),
    [
        ({"containerStatuses": [resized("a", actual="1", allocated="1"), resized("b", actual="3", allocated="3")]}, "4"),
        ({"containerStatuses": [resized("a", actual="4", allocated="1"), resized("b", actual="1", allocated="1")]}, "5"),
        ({"containerStatuses": [resized("a", actual="1", allocated="5"), resized("b", actual="1", allocated="1")]}, "6"),
        ({"containerStatuses": [resized("a", actual="4", allocated="1"), resized("b", actual="1", allocated="3")]}, "5"),
        (
            {
                "containerStatuses": [resized("a", actual="1", allocated="1"), resized("b", actual="1", allocated="1")],
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
            },
            "2",
        ),
    ],
    ids=["spec", "actual", "allocated", "never the sum of each container's largest", "infeasible: not the spec"],
)
def test_since_1_37_a_resize_counts_by_the_largest_sum(status: dict[str, Any], want: str) -> None:
    """Before 1.37 the amounts of each container counted at their largest; since then the largest of three sums counts."""
    pod = {"spec": {"containers": [container("a", cpu="2"), container("b", cpu="2")]}, "status": status}
    assert pod_requests(wire(pod), KubernetesVersion(minor=37)).cpu == amounts(cpu=want).cpu


@pytest.mark.parametrize(
    ("status", "want_1_36", "want_1_37", "want_held"),
    [
        ({}, "4", "0", "4"),
        ({"containerStatuses": [{"name": "a"}]}, "4", "0", "4"),
        ({"containerStatuses": [resized("a", actual="1", allocated="1")]}, "3", "1", "3"),
        ({"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "1"}}, {"name": "b"}]}, "4", "1", "3"),
        ({"initContainerStatuses": [{"name": "a", "allocatedResources": {"cpu": "1"}}]}, "4", "1", "3"),
    ],
    ids=["no status", "no amounts", "of one container", "allocated alone", "among the others"],
)
def test_an_infeasible_resize_counts_what_the_node_reports_and_since_1_37_nothing_else(
    status: dict[str, Any], want_1_36: str, want_1_37: str, want_held: str
) -> None:
    pod = wire({"spec": {"containers": [container("a", cpu="2"), container("b", cpu="2")]}, "status": status | INFEASIBLE})
    found = [pod_requests(pod, KubernetesVersion(minor=minor)).cpu for minor in (36, 37)]
    assert found == [amounts(cpu=want_1_36).cpu, amounts(cpu=want_1_37).cpu]
    assert held_requests(pod, KubernetesVersion(minor=37)).cpu == amounts(cpu=want_held).cpu


def test_an_infeasible_resize_of_the_pod_itself_leaves_out_what_its_status_does_not_name_since_1_37() -> None:
    spec = {"containers": [container(cpu="1", memory="3Gi")], "resources": {"requests": {"cpu": "2", "memory": "4Gi"}}}
    status = resized("app", actual="1", allocated="1")
    status["allocatedResources"]["memory"] = "3Gi"
    reported = {"resources": {"requests": {"cpu": "1"}}, "containerStatuses": [status]}
    pod = wire({"spec": spec, "status": reported | INFEASIBLE})
    found = [pod_requests(pod, KubernetesVersion(minor=minor)).memory for minor in (36, 37)]
    assert found == [0, 3 * 2**30]
