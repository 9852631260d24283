"""Namespaces, storage and controllers of pods from the API's JSON to what planners are told."""

from typing import Any

import msgspec
import pytest

from slackwater.adapters.kube.auxiliary import auxiliary
from slackwater.adapters.kube.resource_type import Found
from slackwater.model.auxiliary import (
    AuxiliaryGone,
    AuxiliaryKey,
    AuxiliaryKind,
    AuxiliarySeen,
    ControllerScale,
)
from slackwater.model.eviction_facts import Owner
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import KindInterner, Toleration
from slackwater.runtime.auxiliary_intake import AuxiliaryIntake
from tests.support.builders import amounts


def broken(resource: str, name: str, error: Exception) -> None:
    raise AssertionError(f"{resource} {name}: {error}")


TYPES = {resource.name: resource for resource in auxiliary(KindInterner(), broken)}


def read(kind: str, body: dict[str, Any], **meta: Any) -> Found[AuxiliaryKey]:
    meta = {"name": "x", "uid": f"{kind}-x", "resourceVersion": "7", **meta}
    return TYPES[kind].decode(msgspec.json.encode({"metadata": meta, **body}))


def test_each_type_is_read_by_key_uid_and_version() -> None:
    found = read("persistentvolumeclaims", {"spec": {"storageClassName": "fast"}}, namespace="ns")
    assert (found.key, found.uid, found.version) == (AuxiliaryKey("ns", "x"), "persistentvolumeclaims-x", 7)
    assert TYPES["persistentvolumeclaims"].gone(found.key, found.uid) == AuxiliaryGone("persistentvolumeclaims", found.key)


def test_a_daemon_set_is_the_pod_that_it_would_make() -> None:
    container = {"name": "agent", "image": "agent:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    template = {
        "metadata": {"labels": {"app": "agent"}},
        "spec": {"containers": [container], "hostNetwork": True, "tolerations": [{"key": "own", "operator": "Exists"}]},
    }
    event = read("daemonsets", {"spec": {"template": template}}, namespace="kube-system").event
    assert isinstance(event, AuxiliarySeen)
    assert isinstance(event.value, Pod)
    pod = event.value
    assert (pod.key, pod.node, pod.kind.requests) == (("kube-system", "x"), None, amounts("100m", "64Mi"))
    assert pod.eviction_facts.owner is not None
    assert pod.eviction_facts.owner.kind == "DaemonSet"
    tolerated = {toleration.key for toleration in pod.kind.tolerations}
    assert {"own", "node.kubernetes.io/not-ready", "node.kubernetes.io/network-unavailable"} <= tolerated
    assert Toleration("own", "Exists", "", "") in pod.kind.tolerations


def test_only_what_changed_is_an_event_again() -> None:
    kinds: list[AuxiliaryKind] = ["namespaces", "storageclasses", "daemonsets", "volumeattachments"]
    intake = AuxiliaryIntake(dict.fromkeys(kinds, None))  # type: ignore[arg-type]  # nothing is drained here
    reader = intake.reader()
    first = reader.changes()
    assert (first.namespaces, first.daemons) == ({}, ())
    assert first.storage is not None
    assert (first.storage.classes, first.storage.claims, first.storage.attachments) == ({}, None, {})

    event = read("storageclasses", {"provisioner": "p"}).event
    assert isinstance(event, AuxiliarySeen)
    intake.take(event)
    later = reader.changes()
    assert (later.namespaces, later.daemons) == (None, None)
    assert later.storage is not None
    assert set(later.storage.classes or ()) == {"x"}

    intake.take(AuxiliaryGone("storageclasses", AuxiliaryKey("", "x")))
    gone = reader.changes()
    assert gone.storage is not None
    assert gone.storage.classes == {}
    assert reader.changes().storage is None


def test_attachments_are_found_by_their_node() -> None:
    intake = AuxiliaryIntake({"volumeattachments": None})  # type: ignore[dict-item]  # nothing is drained here
    reader = intake.reader()
    for number in range(3):
        spec = {"attacher": "csi", "nodeName": f"n{number % 2}", "source": {"persistentVolumeName": f"v{number}"}}
        event = read("volumeattachments", {"spec": spec}, name=f"a{number}").event
        assert isinstance(event, AuxiliarySeen)
        intake.take(event)
    storage = reader.changes().storage
    assert storage is not None
    assert [attachment.volume for attachment in storage.attachments_of("n0")] == ["v0", "v2"]


WORKS = {"parallelism": 3, "completions": 5}


@pytest.mark.parametrize(
    ("kind", "body", "want"),
    [
        ("replicasets", {"spec": {"replicas": 4}, "status": {"replicas": 2}}, 4),
        ("replicasets", {"spec": {}}, 1),
        ("replicationcontrollers", {"spec": {"replicas": 0}}, 0),
        ("statefulsets", {"spec": {"replicas": 2}}, 2),
        ("jobs", {"spec": {"parallelism": 3}}, 3),
        ("jobs", {"spec": WORKS, "status": {"succeeded": 1}}, 3),
        ("jobs", {"spec": WORKS, "status": {"succeeded": 4}}, 1),
        ("jobs", {"spec": WORKS, "status": {"succeeded": 6}}, 0),
        ("jobs", {"spec": {**WORKS, "suspend": True}}, 0),
    ],
)
def test_how_many_pods_a_controller_wants(kind: str, body: dict[str, Any], want: int) -> None:
    event = read(kind, body, namespace="ns").event
    assert isinstance(event, AuxiliarySeen)
    assert event.value == ControllerScale(want)


def test_targets_are_kept_by_controller_and_forgotten_with_it() -> None:
    kinds: list[AuxiliaryKind] = ["replicasets", "jobs", "daemonsets"]
    intake = AuxiliaryIntake(dict.fromkeys(kinds, None))  # type: ignore[arg-type]  # nothing is drained here
    reader = intake.reader()
    assert reader.changes().replicas == {}
    key = AuxiliaryKey("ns", "web")
    intake.take(AuxiliarySeen("replicasets", key, ControllerScale(3)))
    intake.take(AuxiliarySeen("jobs", key, ControllerScale(1)))
    reported = reader.changes()
    assert reported.replicas == {("ns", Owner("apps", "ReplicaSet", "web")): 3, ("ns", Owner("batch", "Job", "web")): 1}
    assert (reported.storage, reader.changes().replicas) == (None, None)
    intake.take(AuxiliaryGone("replicasets", key))
    assert reader.changes().replicas == {("ns", Owner("batch", "Job", "web")): 1}


@pytest.mark.parametrize(
    ("version", "gates", "path"),
    [
        ("1.34", {}, None),
        ("1.34", {"DRADeviceTaints": True}, "v1alpha3"),
        ("1.35", {"DRADeviceTaints": True}, None),
        ("1.35", {"DRADeviceTaints": True, "DRADeviceTaintRules": True}, "v1alpha3"),
        ("1.35", {"DRADeviceTaintRules": True}, None),
        ("1.36", {}, None),
        ("1.36", {"DRADeviceTaintRules": True}, "v1beta2"),
        ("1.37", {}, "v1"),
        ("1.37", {"DRADeviceTaintRules": False}, None),
        ("1.37", {"DRADeviceTaints": False}, None),
    ],
)
def test_device_taint_rules_are_watched_where_kube_scheduler_reads_them(
    version: str, gates: dict[str, bool], path: str | None
) -> None:
    kubernetes = KubernetesVersion.parse(version, gates)
    types = {resource.name: resource for resource in auxiliary(KindInterner(), broken, kubernetes=kubernetes)}
    found = types.get("devicetaintrules")
    assert (None if found is None else found.path) == (
        None if path is None else f"/apis/resource.k8s.io/{path}/devicetaintrules"
    )
    assert found is None or found.may_be_absent, "an API server may not serve a version that is not stable"
