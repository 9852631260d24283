"""Resource types that only planners read: namespaces, storage objects, controllers of pods. Watched only if the autoscaler
runs.

- `auxiliary`: all these types, as event sources read them.
- `decode_workload`, `decode_daemon_set` and so on: a controller or PodTemplate as a value, with the pod that it would create.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec
from msgspec import Raw, field

from slackwater.adapters.api_objects import Int32, ObjectDecoder, Wire
from slackwater.adapters.kube import devices
from slackwater.adapters.kube import storage as decoding
from slackwater.adapters.kube.decode import PodDecoder, read_meta, version_number
from slackwater.adapters.kube.eviction_facts import controller_of
from slackwater.adapters.kube.pod_constraints import selector_of
from slackwater.adapters.kube.resource_type import PATHS, Found, OnBroken, ResourceType
from slackwater.adapters.kube.structs import MetaWire, SelectorWire
from slackwater.model.auxiliary import (
    AuxiliaryGone,
    AuxiliaryKey,
    AuxiliaryKind,
    AuxiliaryObject,
    AuxiliarySeen,
    ControllerScale,
)
from slackwater.model.eviction_facts import Owner
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion, Rule
from slackwater.model.objects import Pod
from slackwater.model.placeholders import Workload
from slackwater.model.pod_constraints import KindInterner
from slackwater.model.scheduler_profile import SPREADING
from slackwater.model.selectors import Requirement, Selector

_NULL: Final = Raw(b"null")


class _TemplateMeta(Wire):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Template(Wire):
    metadata: _TemplateMeta = field(default_factory=_TemplateMeta)
    spec: dict[str, object] = field(default_factory=dict)


class _ControllerSpec(Wire):
    """`replicas` is a field of ReplicaSet, ReplicationController and StatefulSet; the next three are fields of a Job. Selector
    and template stay undecoded until somebody needs them."""

    replicas: Int32 = 1
    parallelism: Int32 = 1
    completions: Int32 | None = None
    suspend: bool = False
    selector: Raw = _NULL
    template: Raw = _NULL


class _ControllerStatus(Wire):
    succeeded: Int32 = 0


class _ControllerWire(Wire):
    metadata: MetaWire = field(default_factory=MetaWire)
    spec: _ControllerSpec = field(default_factory=_ControllerSpec)
    status: _ControllerStatus = field(default_factory=_ControllerStatus)
    template: Raw = _NULL  #: where a PodTemplate has its template

    def pod_template(self) -> _Template:
        found = self.spec.template if self.template == _NULL else self.template
        return _Template() if found == _NULL else _TEMPLATE.decode(found)


_CONTROLLER: Final = ObjectDecoder(_ControllerWire)
_TEMPLATE: Final = ObjectDecoder(_Template)


def decode_workload(decoder: PodDecoder, ref: tuple[str, str], raw: bytes | msgspec.Raw, *, replicas: int) -> Workload:
    """Decodes a workload or PodTemplate together with a pod that it would create. Raises ValueError.

    `ref` is the API group and kind, `replicas` the number of pods that the workload wants.
    """
    wire = _CONTROLLER.decode(raw)
    meta, annotations = wire.metadata, wire.metadata.annotations
    group, kind = ref
    owner = {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind, "name": meta.name, "controller": True}
    return Workload(
        ref=Owner(group, kind, meta.name),
        namespace=meta.namespace,
        replicas=replicas,
        pod=_pod(decoder, meta, wire.pod_template(), uid=f"template/{meta.uid}", owner=owner),
        slack="" if annotations is None or ref == ("", "PodTemplate") else (annotations.slack or "").strip(),
        generation=meta.generation,
        owner=controller_of(meta),
    )


def _pod(decoder: PodDecoder, meta: MetaWire, template: _Template, *, uid: str, owner: dict[str, object]) -> Pod:
    """The pod that the owner would create. The template needs no defaults from us: the API server has set them, as it does for
    a pod."""
    body = {
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": uid,
            "labels": template.metadata.labels or {},
            "annotations": template.metadata.annotations or {},
            "ownerReferences": [owner],
        },
        "spec": template.spec,
    }
    return decoder.decode(msgspec.json.encode(body))


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
#: Clusters before Kubernetes 1.34 do not have these.
_OF_DEVICES: Final[tuple[tuple[AuxiliaryKind, Callable[..., AuxiliaryObject]], ...]] = (
    ("resourceslices", devices.decode_slice),
    ("deviceclasses", devices.decode_device_class),
    ("resourceclaims", devices.decode_resource_claim),
    ("resourceclaimtemplates", devices.decode_claim_template),
)


def auxiliary(
    kinds: KindInterner,
    on_broken: OnBroken,
    *,
    templates: bool = False,
    spreading: bool = False,
    kubernetes: KubernetesVersion = DEFAULT_VERSION,
) -> tuple[ResourceType[AuxiliaryKey], ...]:
    """All auxiliary resource types. With `templates`, controllers are decoded together with the pod that they would create.
    With `spreading`, Services are among them, and controllers have their selectors.

    DeviceTaintRules are among them only where kube-scheduler of this version reads them.
    """
    daemons = PodDecoder(kinds, kubernetes)

    def controller(group: str, kind: str, count: Callable[[bytes | msgspec.Raw], ControllerScale] = decode_replicas) -> _Read:
        def read(raw: bytes | msgspec.Raw) -> ControllerScale | Workload:
            wanted = count(raw)
            if spreading and (group, kind) in SPREADING:
                wanted = replace(wanted, selector=decode_selector(kind, raw))
            if not templates:
                return wanted
            found = decode_workload(daemons, (group, kind), raw, replicas=wanted.replicas)
            found = replace(found, selector=wanted.selector)
            # Most ReplicaSets are old revisions of Deployments; nobody reads their templates.
            return found if wanted.replicas or found.slack else wanted

        return read

    reads: tuple[tuple[AuxiliaryKind, _Read], ...] = (
        ("namespaces", decoding.decode_namespace),
        ("persistentvolumeclaims", decoding.decode_claim),
        ("persistentvolumes", decoding.decode_volume),
        ("storageclasses", decoding.decode_class),
        ("csinodes", decoding.decode_csi_node),
        ("csidrivers", decoding.decode_driver),
        ("csistoragecapacities", decoding.decode_capacity),
        ("volumeattachments", decoding.decode_attachment),
        ("daemonsets", partial(decode_daemon_set, daemons)),
        ("replicasets", controller("apps", "ReplicaSet")),
        ("replicationcontrollers", controller("", "ReplicationController")),
        ("statefulsets", controller("apps", "StatefulSet")),
        ("jobs", controller("batch", "Job", decode_job)),
    )
    if spreading:
        reads += (("services", decode_service),)
    of_devices = [(kind, PATHS[kind], read) for kind, read in _OF_DEVICES]
    if kubernetes.follows(Rule.DEVICE_TAINT_RULES):
        path = f"/apis/{devices.taint_rule_api(kubernetes)}/devicetaintrules"
        of_devices.append(("devicetaintrules", path, devices.decode_device_taint_rule))
    return (
        *(auxiliary_object(kind, PATHS[kind], read, on_broken) for kind, read in reads),
        *(
            auxiliary_object(kind, path, partial(read, kubernetes=kubernetes), on_broken, may_be_absent=True)
            for kind, path, read in of_devices
        ),
    )


def auxiliary_object(
    kind: AuxiliaryKind, path: str, read: _Read, on_broken: OnBroken, *, may_be_absent: bool = False
) -> ResourceType[AuxiliaryKey]:
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
        may_be_absent=may_be_absent,
    )


def decode_replicas(raw: bytes | msgspec.Raw) -> ControllerScale:
    """Decodes the wanted replicas of a ReplicaSet, ReplicationController or StatefulSet. Raises ValueError."""
    return ControllerScale(_CONTROLLER.decode(raw).spec.replicas)


def decode_job(raw: bytes | msgspec.Raw) -> ControllerScale:
    """Decodes how many pods a Job wants now: its parallelism, but no more than remain to complete. Raises ValueError."""
    wire = _CONTROLLER.decode(raw)
    if wire.spec.suspend:
        return ControllerScale(0)
    parallel, completions = wire.spec.parallelism, wire.spec.completions
    return ControllerScale(parallel if completions is None else max(min(parallel, completions - wire.status.succeeded), 0))


def decode_daemon_set(decoder: PodDecoder, raw: bytes | msgspec.Raw) -> Pod:
    """Decodes the pod that the DaemonSet controller would create, without its node. Raises ValueError."""
    wire = _CONTROLLER.decode(raw)
    meta, template = wire.metadata, wire.pod_template()
    more = [*_DAEMON_TOLERATIONS, *([_HOST_NETWORK_TOLERATION] if template.spec.get("hostNetwork") else ())]
    known = template.spec.get("tolerations")
    template.spec["tolerations"] = [*(known if isinstance(known, list) else ()), *more]
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": meta.name, "uid": meta.uid, "controller": True}
    return _pod(decoder, meta, template, uid=f"daemon/{meta.uid}", owner=owner)


class _ServiceSpec(Wire):
    selector: dict[str, str] | None = None


class _ServiceWire(Wire):
    spec: _ServiceSpec | None = None


_SERVICE: Final = ObjectDecoder(_ServiceWire)
_SELECTOR: Final = ObjectDecoder(SelectorWire)


def decode_service(raw: bytes | msgspec.Raw) -> Mapping[str, str]:
    """The labels of the pods that a Service selects; empty if it selects none. Raises ValueError."""
    spec = _SERVICE.decode(raw).spec
    return (spec.selector if spec is not None else None) or {}


def decode_selector(kind: str, raw: bytes | msgspec.Raw) -> Selector:
    """The selector of a controller of this kind; None if it has none. Raises ValueError."""
    if kind == "ReplicationController":
        return tuple(Requirement(key, "In", (value,)) for key, value in sorted(decode_service(raw).items()))
    found = _CONTROLLER.decode(raw).spec.selector
    return selector_of(None if found == _NULL else _SELECTOR.decode(found))
