"""Decodes workloads and PodTemplates, as a pod that they would create."""

from typing import Final

import msgspec
from msgspec import field

from slackwater.adapters.kube.decode import PodDecoder
from slackwater.adapters.kube.wire import Int64, MetaWire, Wire
from slackwater.model.buffers import Workload
from slackwater.model.eviction_facts import Owner
from slackwater.model.objects import Pod


class _Generation(Wire):
    generation: Int64 = 0


class _TemplateMeta(Wire):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Template(Wire):
    metadata: _TemplateMeta = field(default_factory=_TemplateMeta)
    spec: dict[str, object] = field(default_factory=dict)


class _WorkloadSpec(Wire):
    template: _Template | None = None


class _WorkloadWire(Wire):
    metadata: MetaWire = field(default_factory=MetaWire)
    spec: _WorkloadSpec = field(default_factory=_WorkloadSpec)
    template: _Template | None = None  #: where a PodTemplate has its template


class _GenerationWire(Wire):
    metadata: _Generation = field(default_factory=_Generation)


_WORKLOAD: Final = msgspec.json.Decoder(_WorkloadWire)
_GENERATION: Final = msgspec.json.Decoder(_GenerationWire)


def generation_of(raw: bytes | msgspec.Raw) -> int:
    """The object's `metadata.generation`, 0 if it has none."""
    return _GENERATION.decode(raw).metadata.generation


def decode_workload(decoder: PodDecoder, ref: tuple[str, str], raw: bytes | msgspec.Raw, *, replicas: int) -> Workload:
    """`ref` is the API group and kind, `replicas` what the workload wants. Its template is defaulted by the API server as a pod
    is. Raises ValueError.
    """
    wire = _WORKLOAD.decode(raw)
    meta = wire.metadata
    group, kind = ref
    template = wire.template or wire.spec.template or _Template()
    annotations = meta.annotations
    return Workload(
        ref=Owner(group, kind, meta.name),
        namespace=meta.namespace,
        replicas=replicas,
        pod=_pod(decoder, meta, template, ref),
        slack="" if annotations is None or ref == ("", "PodTemplate") else (annotations.slack or "").strip(),
        generation=generation_of(raw),
    )


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
