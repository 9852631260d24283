"""What asks for placeholders, as resource types: workloads, PodTemplates, and CapacityBuffer, whose CRD may be absent.

A workload is decoded as a pod that it would make. A ReplicaSet that a Deployment owns is one too: it may be marked, or named
by a buffer. Deliberately absent: what becomes of them (`decide.slack`), and writing a buffer's status (`buffer_status`).
"""

from typing import Final

import msgspec
from msgspec import field

from slackwater.edge.kube.decode import PodDecoder, read_meta, version_number
from slackwater.edge.kube.resource_type import Found, OnBroken, ResourceType
from slackwater.edge.kube.wire import MetaWire, Quantity, Wire
from slackwater.model.buffers import BufferStatus, CapacityBuffer, Condition, Workload
from slackwater.model.ids import PodKey
from slackwater.model.kinds import KindInterner
from slackwater.model.objects import Pod
from slackwater.model.surroundings import (
    WORKLOAD_KINDS,
    SurroundingGone,
    SurroundingKey,
    SurroundingKind,
    SurroundingSeen,
)
from slackwater.model.ties import Owner
from slackwater_protocol.names import CAPACITY_BUFFER_GROUP
from slackwater_protocol.units import parse_nanos

BUFFERS_PATH: Final = f"/apis/{CAPACITY_BUFFER_GROUP}/v1beta1/capacitybuffers"
_PATHS: Final[dict[SurroundingKind, str]] = {
    "deployments": "/apis/apps/v1/deployments",
    "replicasets": "/apis/apps/v1/replicasets",
    "statefulsets": "/apis/apps/v1/statefulsets",
    "jobs": "/apis/batch/v1/jobs",
    "replicationcontrollers": "/api/v1/replicationcontrollers",
    "podtemplates": "/api/v1/podtemplates",
}
_NANO: Final = 10**9
_NANOS_PER_MILLI: Final = 10**6


class _Generation(Wire):
    generation: int = 0


class _TemplateMeta(Wire):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Template(Wire):
    metadata: _TemplateMeta = field(default_factory=_TemplateMeta)
    spec: dict[str, object] = field(default_factory=dict)


class _WorkloadSpec(Wire):
    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    template: _Template | None = None


class _WorkloadWire(Wire):
    metadata: MetaWire = field(default_factory=MetaWire)
    spec: _WorkloadSpec = field(default_factory=_WorkloadSpec)
    template: _Template | None = None  #: a PodTemplate has it here


class _GenerationWire(Wire):
    metadata: _Generation = field(default_factory=_Generation)


class _NameRef(Wire):
    name: str = ""


class _ScalableRef(Wire):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class _BufferSpec(Wire):
    provisioning_strategy: str | None = None
    pod_template_ref: _NameRef | None = None
    scalable_ref: _ScalableRef | None = None
    replicas: int | None = None
    percentage: int | None = None
    limits: dict[str, Quantity] | None = None


class _ConditionWire(Wire):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class _BufferStatus(Wire):
    pod_template_ref: _NameRef | None = None
    pod_template_generation: int | None = None
    replicas: int | None = None
    provisioning_strategy: str | None = None
    conditions: list[_ConditionWire] | None = None


class _BufferWire(Wire):
    metadata: MetaWire = field(default_factory=MetaWire)
    spec: _BufferSpec = field(default_factory=_BufferSpec)
    status: _BufferStatus = field(default_factory=_BufferStatus)


_WORKLOAD: Final = msgspec.json.Decoder(_WorkloadWire)
_GENERATION: Final = msgspec.json.Decoder(_GenerationWire)
_BUFFER: Final = msgspec.json.Decoder(_BufferWire)


def askers(kinds: KindInterner, on_broken: OnBroken) -> tuple[ResourceType[SurroundingKey], ...]:
    """All of them."""
    decoder = PodDecoder(kinds)
    refs = {kind: ref for ref, kind in WORKLOAD_KINDS.items()}
    workloads = [
        _workloads(kind, path, refs.get(kind, ("", "PodTemplate")), decoder, on_broken) for kind, path in _PATHS.items()
    ]
    return (*workloads, _buffers(on_broken))


def _workloads(
    kind: SurroundingKind, path: str, ref: tuple[str, str], decoder: PodDecoder, on_broken: OnBroken
) -> ResourceType[SurroundingKey]:
    def decode(raw: bytes | msgspec.Raw) -> Found[SurroundingKey]:
        meta, workload = read_meta(raw), decode_workload(decoder, ref, raw)
        key = SurroundingKey(meta.namespace, meta.name)
        return Found(key, meta.uid, version_number(meta.resource_version), SurroundingSeen(kind, key, workload))

    return ResourceType(
        name=kind,
        path=path,
        decode=decode,
        key_of=SurroundingKey,
        gone=lambda key, _: SurroundingGone(kind, key),
        on_broken=on_broken,
    )


def _buffers(on_broken: OnBroken) -> ResourceType[SurroundingKey]:
    def decode(raw: bytes | msgspec.Raw) -> Found[SurroundingKey]:
        meta, buffer = read_meta(raw), decode_buffer(raw)
        key = SurroundingKey(meta.namespace, meta.name)
        seen = SurroundingSeen("capacitybuffers", key, buffer)
        return Found(key, meta.uid, version_number(meta.resource_version), seen)

    return ResourceType(
        name="capacitybuffers",
        path=BUFFERS_PATH,
        decode=decode,
        key_of=SurroundingKey,
        gone=lambda key, _: SurroundingGone("capacitybuffers", key),
        on_broken=on_broken,
        may_be_absent=True,
    )


def decode_workload(decoder: PodDecoder, ref: tuple[str, str], raw: bytes | msgspec.Raw) -> Workload:
    """Its template is defaulted by the API server as a pod is. Raises ValueError."""
    wire = _WORKLOAD.decode(raw)
    meta = wire.metadata
    group, kind = ref
    template = wire.template or wire.spec.template or _Template()
    annotations = meta.annotations
    return Workload(
        ref=Owner(group, kind, meta.name),
        namespace=meta.namespace,
        replicas=_replicas(wire.spec),
        pod=_pod(decoder, meta, template, ref),
        slack="" if annotations is None or ref == ("", "PodTemplate") else (annotations.slack or "").strip(),
        generation=_GENERATION.decode(raw).metadata.generation,
    )


def _replicas(spec: _WorkloadSpec) -> int:
    """Of a Job as many as run at a time."""
    if spec.replicas is not None:
        return spec.replicas
    parallel = 1 if spec.parallelism is None else spec.parallelism
    return parallel if spec.completions is None else min(parallel, spec.completions)


def _pod(decoder: PodDecoder, meta: MetaWire, template: _Template, ref: tuple[str, str]) -> Pod:
    group, kind = ref
    owner = {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind, "name": meta.name, "controller": True}
    body = {
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": f"template/{meta.uid}",
            "labels": template.metadata.labels or {},
            "annotations": template.metadata.annotations or {},
            "ownerReferences": [owner],
        },
        "spec": template.spec,
    }
    return decoder.decode(msgspec.json.encode(body))


def decode_buffer(raw: bytes | msgspec.Raw) -> CapacityBuffer:
    """Raises ValueError."""
    wire, meta = _BUFFER.decode(raw), read_meta(raw)
    spec, status, scalable = wire.spec, wire.status, wire.spec.scalable_ref
    limits = None if spec.limits is None else tuple(sorted((name, _limit(name, text)) for name, text in spec.limits.items()))
    return CapacityBuffer(
        key=PodKey(meta.namespace, meta.name),
        uid=meta.uid,
        generation=_GENERATION.decode(raw).metadata.generation,
        created_at=meta.creation_timestamp or "",
        strategy=spec.provisioning_strategy or "",
        template=None if spec.pod_template_ref is None else spec.pod_template_ref.name,
        scalable=None if scalable is None else Owner(scalable.api_group, scalable.kind, scalable.name),
        replicas=spec.replicas,
        percentage=spec.percentage,
        limits=limits,
        status=BufferStatus(
            template=None if status.pod_template_ref is None else status.pod_template_ref.name,
            template_generation=status.pod_template_generation,
            replicas=status.replicas,
            strategy=status.provisioning_strategy,
            conditions=tuple(
                Condition(each.type, each.status, each.reason, each.message, each.last_transition_time)
                for each in status.conditions or ()
            ),
        ),
    )


def _limit(name: str, text: Quantity) -> int:
    amount = parse_nanos(text)
    return amount // (_NANOS_PER_MILLI if name == "cpu" else _NANO)
