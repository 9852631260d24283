"""Workloads, PodTemplates and CapacityBuffers as the API server writes them; a buffer's status as it is written back."""

import json
from inspect import signature
from typing import Any

import pytest

from slackwater.adapters.kube.auxiliary import auxiliary
from slackwater.adapters.kube.client import open_client
from slackwater.adapters.kube.headroom_requests import decode_buffer, headroom_requests, stamped
from slackwater.model.auxiliary import AuxiliarySeen, ControllerScale
from slackwater.model.eviction_facts import Owner
from slackwater.model.placeholders import BufferStatus, Condition, NameRef, ResourceQuota, Workload
from slackwater.model.pod_constraints import KindInterner
from tests.support.builders import amounts

Obj = dict[str, Any]
META: Obj = {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "generation": 4}
TEMPLATE: Obj = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "schedulerName": "slackwater",
        "nodeSelector": {"pool": "a"},
        "containers": [{"name": "app", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}],
    },
}


def broken(resource: str, name: str, error: Exception) -> None:
    raise AssertionError(f"{resource} {name}: {error}")


TYPES = {
    resource.name: resource
    for resource in (*auxiliary(KindInterner(), broken, templates=True), *headroom_requests(KindInterner(), broken))
}


def read(kind: str, **body: Any) -> Any:
    found = TYPES[kind].decode(json.dumps({"metadata": META, **body}).encode())
    assert isinstance(found.event, AuxiliarySeen)
    return found.event.value


def test_a_deployment_is_a_pod_that_it_would_make() -> None:
    meta = {**META, "annotations": {"slackwater.dev/slack": " 10% "}}
    found = read("deployments", metadata=meta, spec={"replicas": 3, "template": TEMPLATE})
    assert isinstance(found, Workload)
    assert (found.ref, found.namespace, found.replicas, found.slack, found.generation) == (
        Owner("apps", "Deployment", "web"),
        "shop",
        3,
        "10%",
        4,
    )
    assert (found.pod.kind.requests, found.pod.labels) == (amounts("500m", "1Gi"), (("app", "web"),))
    assert (found.pod.kind.node_selector, found.pod.node) == ((("pool", "a"),), None)


def test_a_controller_of_the_core_api_and_a_pod_template() -> None:
    found = read("replicationcontrollers", spec={"replicas": 2, "template": TEMPLATE})
    assert (found.ref, found.replicas) == (Owner("", "ReplicationController", "web"), 2)
    found = read("podtemplates", template=TEMPLATE)
    assert (found.ref.kind, found.replicas, found.pod.kind.requests) == ("PodTemplate", 0, amounts("500m", "1Gi"))


def test_a_job_wants_what_it_may_run_at_a_time() -> None:
    found = read("jobs", spec={"parallelism": 5, "completions": 8, "template": TEMPLATE}, status={"succeeded": 6})
    assert (found.ref, found.replicas) == (Owner("batch", "Job", "web"), 2)


def test_old_revisions_are_no_more_than_a_number() -> None:
    assert read("replicasets", spec={"replicas": 0, "template": TEMPLATE}) == ControllerScale(0)
    marked = {**META, "annotations": {"slackwater.dev/slack": "1"}}
    assert isinstance(read("replicasets", metadata=marked, spec={"replicas": 0, "template": TEMPLATE}), Workload)


def test_a_buffer_with_all_its_fields() -> None:
    spec = {
        "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
        "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"},
        "replicas": 2,
        "percentage": 20,
        "limits": {"cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": 3},
    }
    condition = {
        "type": "Provisioning",
        "status": "True",
        "reason": "FakePodsInjected",
        "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"replicas": 2, "podTemplateRef": {"name": "t"}, "podTemplateGeneration": 1, "conditions": [condition]}
    body = {"metadata": {**META, "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec, "status": status}
    found = decode_buffer(json.dumps(body).encode())
    assert (str(found.key), found.uid, found.created_at) == ("shop/web", "u", "2026-01-01T00:00:00Z")
    assert (found.template, found.scalable) == (None, Owner("apps", "Deployment", "web"))
    assert (found.replicas, found.percentage) == (2, 20)
    assert found.limits == (("cpu", 1500), ("memory", 2 << 30), ("nvidia.com/gpu", 3))
    assert (found.status.pod_template_ref, found.status.replicas) == (NameRef("t"), 2)
    assert found.status.conditions == (Condition("Provisioning", "True", "FakePodsInjected", "m", "2026-01-01T00:00:00Z"),)


QUOTAS = {
    "what is used is left no more": (
        {"hard": {"requests.cpu": "4", "memory": "8Gi", "count/pods": "10", "requests.x.io/gpu": "2", "services": "1"}},
        {"hard": {"requests.cpu": "4"}, "used": {"requests.cpu": "4500m"}},
        (("cpu", -500),),
    ),
    "before its controller has seen it": (
        {
            "hard": {
                "cpu": "4",
                "requests.cpu": "2",
                "memory": "8Gi",
                "count/pods": "10",
                "requests.x.io/gpu": "2",
                "services": "1",
            }
        },
        {},
        (("cpu", 2000), ("memory", 8 << 30), ("pods", 10), ("x.io/gpu", 2)),
    ),
    "usual pods": ({"hard": {"pods": "1"}, "scopes": ["NotTerminating", "NotBestEffort"]}, {}, (("pods", 1),)),
    "other pods": ({"hard": {"pods": "1"}, "scopes": ["BestEffort"]}, {}, ()),
    "a priority class": ({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": []}}, {}, ()),
}


@pytest.mark.parametrize(("spec", "status", "want_left"), QUOTAS.values(), ids=QUOTAS)
def test_a_quota_leaves_what_is_not_used(
    spec: dict[str, Any], status: dict[str, Any], want_left: tuple[tuple[str, int], ...]
) -> None:
    assert read("resourcequotas", spec=spec, status=status) == ResourceQuota(namespace="shop", left=want_left)


def test_crds_and_types_of_devices_may_be_absent_and_nothing_else() -> None:
    assert [name for name, resource in TYPES.items() if resource.may_be_absent] == [
        *("resourceslices", "deviceclasses", "resourceclaims", "resourceclaimtemplates"),  # before Kubernetes 1.34
        "capacitybuffers",
    ]


def test_a_conditions_time_is_when_its_status_changed() -> None:
    old = Condition("Provisioning", "True", "FakePodsInjected", "room is kept for 1 pods", "T0")
    other = Condition("LimitedByQuotas", "False", "x", "", "T0")
    before = BufferStatus(replicas=1, conditions=(old, other))
    same = Condition("Provisioning", "True", "FakePodsInjected", "room is kept for 2 pods")
    found = stamped(before, BufferStatus(replicas=2, conditions=(same,)), "T1")
    assert [(each.type, each.message, each.last_transition_time) for each in found.conditions or ()] == [
        ("Provisioning", "room is kept for 2 pods", "T0"),
        ("LimitedByQuotas", "", "T0"),
    ]
    changed = Condition("Provisioning", "False", "BufferIsEmpty", "")
    (first, _) = stamped(before, BufferStatus(conditions=(changed,)), "T1").conditions or ()
    assert first.last_transition_time == "T1"
    assert stamped(before, BufferStatus(replicas=1, conditions=(Condition(*old_words(old)),)), "T1") == before


def old_words(condition: Condition) -> tuple[str, str, str, str]:
    return condition.type, condition.status, condition.reason, condition.message


def test_every_type_has_a_connection_to_watch_on() -> None:
    """A watch holds its connection: one type too many would wait for ever, and nobody would be told."""
    most = signature(open_client).parameters["max_event_sources"].default
    served = ("nodes", "pods", "poddisruptionbudgets", "virtualmachines", "virtualmachinemigrations")
    assert most >= len(TYPES) + len(served)
