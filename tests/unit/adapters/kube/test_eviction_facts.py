"""What ties a pod to its node, read from the API's JSON."""

import json
from typing import Any

import pytest

from slackwater.adapters.kube.decode import PodDecoder
from slackwater.model.eviction_facts import NO_EVICTION_FACTS, EvictionFacts, Owner
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import KindInterner

SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def decoded(pods: PodDecoder | None = None, /, **parts: Any) -> Pod:
    meta = {"name": "p", "namespace": "ns", "uid": "u", **parts.pop("metadata", {})}
    raw = json.dumps({"kind": "Pod", "metadata": meta, **parts}).encode()
    return (pods or PodDecoder(KindInterner())).decode(raw)


def annotated(**annotations: str) -> Pod:
    return decoded(metadata={"annotations": annotations})


def test_the_owner_is_the_controller_alone() -> None:
    owners = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "c"},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "controller": True},
    ]
    assert decoded(metadata={"ownerReferences": owners}).eviction_facts == EvictionFacts(
        owner=Owner("apps", "ReplicaSet", "web-1")
    )
    assert decoded(metadata={"ownerReferences": owners[:1]}).eviction_facts == NO_EVICTION_FACTS
    core = [{"apiVersion": "v1", "kind": "ReplicationController", "name": "old", "controller": True}]
    assert decoded(metadata={"ownerReferences": core}).eviction_facts.owner == Owner("", "ReplicationController", "old")


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        ({SAFE: "true"}, EvictionFacts(safe_to_evict="true")),
        ({SAFE: "false"}, EvictionFacts(safe_to_evict="false")),
        ({SAFE: "on-completion"}, EvictionFacts(safe_to_evict="on-completion")),
        ({SAFE: "True"}, NO_EVICTION_FACTS),
        ({"kubernetes.io/config.mirror": ""}, EvictionFacts(mirror_pod=True)),
        ({"kubernetes.io/config.source": "file"}, EvictionFacts(mirror_pod=True)),
        ({"kubernetes.io/config.source": "api"}, NO_EVICTION_FACTS),
        ({"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"}, EvictionFacts(daemon=True)),
        ({"cluster-autoscaler.kubernetes.io/daemonset-pod": "false"}, NO_EVICTION_FACTS),
    ],
)
def test_annotations_say_whether_a_pod_may_leave(annotations: dict[str, str], want: EvictionFacts) -> None:
    assert annotated(**annotations).eviction_facts == want


VOLUMES = [
    {"name": "scratch", "emptyDir": {}},
    {"name": "memory", "emptyDir": {"medium": "Memory"}},
    {"name": "logs", "hostPath": {"path": "/var/log"}},
    {"name": "token", "projected": {"sources": []}},
    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
]


def test_volumes_on_the_nodes_disks_are_local() -> None:
    assert decoded(spec={"volumes": VOLUMES}).eviction_facts.local_volumes == ("scratch", "logs")


def test_local_volumes_that_an_annotation_gives_free_do_not_count() -> None:
    free = {"cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": "scratch, other"}
    assert decoded(metadata={"annotations": free}, spec={"volumes": VOLUMES}).eviction_facts.local_volumes == ("logs",)


def test_replicas_share_their_eviction_facts() -> None:
    pods = PodDecoder(KindInterner())
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "controller": True}
    one, other = (decoded(pods, metadata={"ownerReferences": [owner]}) for _ in range(2))
    assert one.eviction_facts is other.eviction_facts


@pytest.mark.parametrize(
    ("spec", "want"), [({}, 30.0), ({"terminationGracePeriodSeconds": 600}, 600.0), ({"terminationGracePeriodSeconds": 0}, 0.0)]
)
def test_a_pod_is_overdue_once_its_time_to_end_has_passed_too(spec: dict[str, Any], want: float) -> None:
    assert decoded(metadata={"deletionTimestamp": "1970-01-01T00:00:00Z"}, spec=spec).overdue_at == want
    assert decoded(metadata={"deletionTimestamp": "1970-01-01T02:00:00+02:00"}, spec=spec).overdue_at == want
    assert decoded(metadata={"deletionTimestamp": "1970-01-01T00:00:00"}, spec=spec).overdue_at == want
    assert decoded(spec=spec).overdue_at is None


@pytest.mark.parametrize(("status", "want"), [("True", True), ("False", False), ("Unknown", False), (None, True)])
def test_a_pod_is_not_ready_where_its_conditions_say_so(status: str | None, want: bool) -> None:
    conditions = [{"type": "PodScheduled", "status": "True"}]
    conditions += [{"type": "Ready", "status": status}] if status else []
    assert decoded(status={"conditions": conditions}).ready is want
