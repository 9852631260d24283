"""What CapacityBuffers and marked workloads come to."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from slackwater.controllers.slack.headroom_demand import PROVISIONING, READY, ResolvedBuffer, marked, resolved, wanted
from slackwater.controllers.slack.planning_input import like
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import PodKey
from slackwater.model.objects import Pod
from slackwater.model.placeholders import CapacityBuffer, HeadroomRequests, Workload
from slackwater.model.pod_constraints import ClaimMount, PodConstraints
from tests.support.builders import a_pod, amounts

WEB = Owner("apps", "ReplicaSet", "web")
KEY = PodKey("default", "b")


def a_workload(*, replicas: int = 10, cpu: str = "500m", slack: str = "") -> Workload:
    return Workload(ref=WEB, namespace="default", replicas=replicas, pod=a_pod("w", cpu=cpu), slack=slack, generation=3)


def a_buffer(**spec: Any) -> CapacityBuffer:
    return CapacityBuffer(key=KEY, uid="u", generation=1, created_at="2026-01-01T00:00:00Z", **spec)


def found(buffer: CapacityBuffer, *, newest: Pod | None = None, **workload: Any) -> ResolvedBuffer:
    made = a_workload(**workload)
    headroom_requests = HeadroomRequests(
        buffers=(buffer,), workloads={("default", WEB): made}, templates={("default", "t"): made}
    )
    (one,) = resolved(headroom_requests, {} if newest is None else {("default", WEB): newest})
    return one


CHUNKS = {
    "replicas": (a_buffer(template="t", replicas=3), 3),
    "percentage, rounded up": (a_buffer(scalable=WEB, percentage=25), 3),
    "the larger of the two": (a_buffer(scalable=WEB, percentage=25, replicas=7), 7),
    "limits alone": (a_buffer(template="t", limits=(("cpu", 1600),)), 3),
    "limits cap": (a_buffer(template="t", replicas=9, limits=(("cpu", 1600), ("memory", 2 << 30))), 2),
    "a limit on what nobody asks for is none": (a_buffer(template="t", replicas=9, limits=(("cpu", 1600), ("x/gpu", 1))), 3),
    "nothing": (a_buffer(template="t", replicas=0), 0),
}


@pytest.mark.parametrize(("buffer", "want"), CHUNKS.values(), ids=CHUNKS)
def test_chunks_are_what_the_spec_comes_to(buffer: CapacityBuffer, want: int) -> None:
    one = found(buffer)
    assert one.status.replicas == want
    assert (0 if one.pod_headroom is None else one.pod_headroom.count) == want
    reported = {condition.type: (condition.status, condition.reason) for condition in one.status.conditions or ()}
    assert reported[READY] == ("True", "AttributesSetSuccessfully")
    assert reported[PROVISIONING] == (("True", "FakePodsInjected") if want else ("False", "BufferIsEmpty"))


BAD = {
    "both references": (a_buffer(template="t", scalable=WEB, replicas=1), "want exactly one of podTemplateRef and scalableRef"),
    "no reference": (a_buffer(replicas=1), "want exactly one of podTemplateRef and scalableRef"),
    "nothing asked for": (a_buffer(template="t"), "want at least one of replicas"),
    "a percentage of a template": (a_buffer(template="t", percentage=10), "want at least one of replicas"),
    "no such template": (a_buffer(template="other", replicas=1), "PodTemplate default/other: not found"),
    "no such workload": (a_buffer(scalable=Owner("apps", "Deployment", "x"), replicas=1), "Deployment default/x: not found"),
    "too many": (a_buffer(template="t", replicas=1_000_000), "asks for 1000000 pods, want at most 50000"),
}


@pytest.mark.parametrize(("buffer", "want"), BAD.values(), ids=BAD)
def test_a_buffer_that_cannot_be_provided_for_says_why(buffer: CapacityBuffer, want: str) -> None:
    one = found(buffer)
    ready, provisioning = one.status.conditions or ()
    assert one.pod_headroom is None
    assert (ready.type, ready.status, ready.reason) == (READY, "False", "error")  # Cluster Autoscaler's word for all of them
    assert ready.message.startswith(f"Buffer not ready for provisioning: {want}")
    assert (provisioning.type, provisioning.reason) == (PROVISIONING, "NotReadyForProvisioning")


def test_other_strategies_are_left_alone() -> None:
    assert resolved(HeadroomRequests(buffers=(a_buffer(template="t", replicas=1, strategy="other/x"),)), {}) == []


def test_a_chunk_is_like_the_newest_pod_of_the_workload() -> None:
    one = found(a_buffer(scalable=WEB, replicas=1), newest=a_pod("live", cpu="2"))
    assert one.pod_headroom is not None
    assert one.pod_headroom.kind.requests == amounts("2", "1Gi")


@pytest.mark.parametrize(("text", "want"), [("2", 2), ("10%", 3), ("0", 0), ("100%", 21), ("0%", 0)])
def test_an_annotation_is_a_number_or_a_share(text: str, want: int) -> None:
    assert wanted(text, 21) == want


@pytest.mark.parametrize("text", ["yes", "-1", "1.5", "%", "", "٣", "99999999"])
def test_another_annotation_is_reported_and_asks_for_nothing(text: str) -> None:
    pod_headroom, problems = marked([a_workload(slack=text)], [], {})
    assert pod_headroom == []
    assert problems[0].startswith("ReplicaSet default/web: annotation slackwater.dev/slack: ")


def test_pods_of_one_controller_count_together_and_the_workloads_annotation_holds_for_its_pods() -> None:
    eviction_facts = EvictionFacts(owner=WEB, slack="50%")
    pods = [
        structs.replace(a_pod(f"p{n}", cpu=f"{n + 1}"), eviction_facts=eviction_facts, created_at=f"2026-01-0{n + 1}T00:00:00Z")
        for n in range(3)
    ]
    (one,), _ = marked([], pods, {})
    assert (one.source, one.count, one.kind.requests.cpu) == ("ReplicaSet default/web", 2, 3000)
    (one,), _ = marked([a_workload(slack="1")], pods, {})
    assert (one.count, one.kind.requests.cpu) == (1, 500)


def test_the_annotation_of_a_pod_without_a_controller_counts() -> None:
    pod = structs.replace(a_pod("alone"), eviction_facts=EvictionFacts(slack="1"))
    assert [(one.source, one.count) for one in marked([], [pod], {})[0]] == [("Pod default/alone", 1)]


def test_what_only_one_pod_can_have_is_not_asked_for_again() -> None:
    asks = PodConstraints(claims=(ClaimMount("data"),), node_name="n1", scalars=(("x/gpu", 1),))
    kind = replace(a_pod("p").kind, pod_constraints=asks)
    assert like(kind).pod_constraints == PodConstraints(scalars=(("x/gpu", 1),))
