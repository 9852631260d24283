"""Resource types of objects that request placeholders: Deployments, PodTemplates, and CapacityBuffers, whose CRD may be absent.

Other workloads are already watched as auxiliary objects. Deliberately absent: how placeholders are made of the requests
(`controllers.slack`), and writing a buffer's status (`buffer_status`).
"""

from dataclasses import replace
from typing import Final

import msgspec
from msgspec import field

from slackwater.adapters.kube.auxiliary import auxiliary_object, decode_replicas
from slackwater.adapters.kube.decode import PodDecoder, read_meta
from slackwater.adapters.kube.resource_type import OnBroken, ResourceType
from slackwater.adapters.kube.wire import Int32, Int64, Quantity, Wire
from slackwater.adapters.kube.workloads import decode_workload, generation_of
from slackwater.model.auxiliary import AuxiliaryKey
from slackwater.model.buffers import BufferStatus, CapacityBuffer, Condition, Workload
from slackwater.model.equivalence import KindInterner
from slackwater.model.eviction_facts import Owner
from slackwater.model.ids import PodKey
from slackwater_protocol.names import CAPACITY_BUFFER_GROUP
from slackwater_protocol.units import parse_nanos

BUFFERS_PATH: Final = f"/apis/{CAPACITY_BUFFER_GROUP}/v1beta1/capacitybuffers"
_NANO: Final = 10**9
_NANOS_PER_MILLI: Final = 10**6


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
    replicas: Int32 | None = None
    percentage: Int32 | None = None
    limits: dict[str, Quantity] | None = None


class _ConditionWire(Wire):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class _BufferStatus(Wire):
    pod_template_ref: _NameRef | None = None
    pod_template_generation: Int64 | None = None
    replicas: Int32 | None = None
    provisioning_strategy: str | None = None
    conditions: list[_ConditionWire] | None = None


class _BufferWire(Wire):
    spec: _BufferSpec = field(default_factory=_BufferSpec)
    status: _BufferStatus = field(default_factory=_BufferStatus)


_BUFFER: Final = msgspec.json.Decoder(_BufferWire)


def headroom_requests(kinds: KindInterner, on_broken: OnBroken) -> tuple[ResourceType[AuxiliaryKey], ...]:
    """The resource types of headroom requests that `auxiliary` does not watch already."""
    decoder = PodDecoder(kinds)

    def deployment(raw: bytes | msgspec.Raw) -> Workload:
        return decode_workload(decoder, ("apps", "Deployment"), raw, replicas=decode_replicas(raw).replicas)

    def template(raw: bytes | msgspec.Raw) -> Workload:
        return decode_workload(decoder, ("", "PodTemplate"), raw, replicas=0)

    return (
        auxiliary_object("deployments", "/apis/apps/v1/deployments", deployment, on_broken),
        auxiliary_object("podtemplates", "/api/v1/podtemplates", template, on_broken),
        replace(auxiliary_object("capacitybuffers", BUFFERS_PATH, decode_buffer, on_broken), may_be_absent=True),
    )


def decode_buffer(raw: bytes | msgspec.Raw) -> CapacityBuffer:
    """Decodes the JSON of a CapacityBuffer. Raises ValueError."""
    wire, meta = _BUFFER.decode(raw), read_meta(raw)
    spec, status, scalable = wire.spec, wire.status, wire.spec.scalable_ref
    limits = None if spec.limits is None else tuple(sorted((name, _limit(name, text)) for name, text in spec.limits.items()))
    return CapacityBuffer(
        key=PodKey(meta.namespace, meta.name),
        uid=meta.uid,
        generation=generation_of(raw),
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
