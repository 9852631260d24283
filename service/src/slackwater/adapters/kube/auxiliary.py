"""Resource types that only planners read: namespaces, storage objects, controllers of pods. Watched only if the autoscaler
runs.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import field

from slackwater.adapters.kube import storage as decoding
from slackwater.adapters.kube.decode import PodDecoder, read_meta, version_number
from slackwater.adapters.kube.resource_type import Found, OnBroken, ResourceType
from slackwater.adapters.kube.wire import Int32, Wire
from slackwater.adapters.kube.workloads import decode_workload
from slackwater.model.auxiliary import (
    AuxiliaryGone,
    AuxiliaryKey,
    AuxiliaryKind,
    AuxiliaryObject,
    AuxiliarySeen,
    DaemonSet,
    NamespaceLabels,
)
from slackwater.model.buffers import Workload
from slackwater.model.controllers import Wanted
from slackwater.model.equivalence import KindInterner
from slackwater.model.objects import Pod

_STORAGE_GROUP: Final = "/apis/storage.k8s.io/v1"
#: The tolerations that the DaemonSet controller adds to its pods (pkg/controller/daemon/util).
_DAEMON_TOLERATIONS: Final = [
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/disk-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/pid-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
]
_HOST_NETWORK_TOLERATION: Final = {
    "key": "node.kubernetes.io/network-unavailable",
    "operator": "Exists",
    "effect": "NoSchedule",
}

_Read = Callable[[bytes | msgspec.Raw], AuxiliaryObject]


class _TemplateMetaWire(Wire):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _TemplateWire(Wire):
    metadata: _TemplateMetaWire = field(default_factory=_TemplateMetaWire)
    spec: dict[str, object] = field(default_factory=dict)


class _DaemonSetSpecWire(Wire):
    template: _TemplateWire = field(default_factory=_TemplateWire)


class _DaemonSetWire(Wire):
    spec: _DaemonSetSpecWire = field(default_factory=_DaemonSetSpecWire)


class _WantingSpecWire(Wire):
    """The fields that give the wanted number of pods: `replicas` of a ReplicaSet, ReplicationController or StatefulSet, else a
    Job's.
    """

    replicas: Int32 = 1
    parallelism: Int32 = 1
    completions: Int32 | None = None
    suspend: bool = False


class _WantingStatusWire(Wire):
    succeeded: Int32 = 0


class _WantingWire(Wire):
    spec: _WantingSpecWire = field(default_factory=_WantingSpecWire)
    status: _WantingStatusWire = field(default_factory=_WantingStatusWire)


_WANTING: Final = msgspec.json.Decoder(_WantingWire)
_DAEMON_SET: Final = msgspec.json.Decoder(_DaemonSetWire)


def auxiliary(kinds: KindInterner, on_broken: OnBroken, *, templates: bool = False) -> tuple[ResourceType[AuxiliaryKey], ...]:
    """All auxiliary resource types. With `templates`, controllers are decoded together with the pod that they would create."""
    daemons = PodDecoder(kinds)

    def controller(group: str, kind: str, count: Callable[[bytes | msgspec.Raw], Wanted] = decode_replicas) -> _Read:
        def read(raw: bytes | msgspec.Raw) -> Wanted | Workload:
            wanted = count(raw)
            if not templates:
                return wanted
            found = decode_workload(daemons, (group, kind), raw, replicas=wanted.replicas)
            # Most ReplicaSets are old revisions of Deployments; nobody reads their templates.
            return found if wanted.replicas or found.slack else wanted

        return read

    reads: tuple[tuple[AuxiliaryKind, str, _Read], ...] = (
        ("namespaces", "/api/v1/namespaces", _namespace),
        ("persistentvolumeclaims", "/api/v1/persistentvolumeclaims", decoding.decode_claim),
        ("persistentvolumes", "/api/v1/persistentvolumes", decoding.decode_volume),
        ("storageclasses", f"{_STORAGE_GROUP}/storageclasses", decoding.decode_class),
        ("csinodes", f"{_STORAGE_GROUP}/csinodes", decoding.decode_csi_node),
        ("csidrivers", f"{_STORAGE_GROUP}/csidrivers", decoding.decode_driver),
        ("csistoragecapacities", f"{_STORAGE_GROUP}/csistoragecapacities", decoding.decode_capacity),
        ("volumeattachments", f"{_STORAGE_GROUP}/volumeattachments", decoding.decode_attachment),
        ("daemonsets", "/apis/apps/v1/daemonsets", lambda raw: DaemonSet(decode_daemon_set(daemons, raw))),
        ("replicasets", "/apis/apps/v1/replicasets", controller("apps", "ReplicaSet")),
        ("replicationcontrollers", "/api/v1/replicationcontrollers", controller("", "ReplicationController")),
        ("statefulsets", "/apis/apps/v1/statefulsets", controller("apps", "StatefulSet")),
        ("jobs", "/apis/batch/v1/jobs", controller("batch", "Job", decode_job)),
    )
    return tuple(auxiliary_object(kind, path, read, on_broken) for kind, path, read in reads)


def auxiliary_object(kind: AuxiliaryKind, path: str, read: _Read, on_broken: OnBroken) -> ResourceType[AuxiliaryKey]:
    """One auxiliary resource type. `read` raises ValueError for an object that it cannot read."""

    def decode(raw: bytes | msgspec.Raw) -> Found[AuxiliaryKey]:
        meta = read_meta(raw)
        key = AuxiliaryKey(meta.namespace, meta.name)
        return Found(key, meta.uid, version_number(meta.resource_version), AuxiliarySeen(kind, key, read(raw)))

    return ResourceType(
        name=kind,
        path=path,
        decode=decode,
        key_of=AuxiliaryKey,
        gone=lambda key, _: AuxiliaryGone(kind, key),
        on_broken=on_broken,
    )


def _namespace(raw: bytes | msgspec.Raw) -> NamespaceLabels:
    return NamespaceLabels(decoding.decode_namespace(raw)[1])


def decode_replicas(raw: bytes | msgspec.Raw) -> Wanted:
    """Decodes the wanted replicas of a ReplicaSet, ReplicationController or StatefulSet. Raises ValueError."""
    return Wanted(_WANTING.decode(raw).spec.replicas)


def decode_job(raw: bytes | msgspec.Raw) -> Wanted:
    """Decodes the wanted pods of a Job: its parallelism, but no more than are left to complete. Raises ValueError."""
    wire = _WANTING.decode(raw)
    if wire.spec.suspend:
        return Wanted(0)
    parallel, completions = wire.spec.parallelism, wire.spec.completions
    return Wanted(parallel if completions is None else max(min(parallel, completions - wire.status.succeeded), 0))


def decode_daemon_set(decoder: PodDecoder, raw: bytes | msgspec.Raw) -> Pod:
    """Decodes the pod that the DaemonSet controller would create, without its node. Raises ValueError.

    The API server has set the defaults of its template as it does for a pod.
    """
    meta, template = read_meta(raw), _DAEMON_SET.decode(raw).spec.template
    spec = dict(template.spec)
    more = [*_DAEMON_TOLERATIONS, *([_HOST_NETWORK_TOLERATION] if spec.get("hostNetwork") else ())]
    known = spec.get("tolerations")
    spec["tolerations"] = [*(known if isinstance(known, list) else ()), *more]
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": meta.name, "uid": meta.uid, "controller": True}
    body = {
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": f"daemon/{meta.uid}",
            "labels": template.metadata.labels or {},
            "annotations": template.metadata.annotations or {},
            "ownerReferences": [owner],
        },
        "spec": spec,
    }
    return decoder.decode(msgspec.json.encode(body))
