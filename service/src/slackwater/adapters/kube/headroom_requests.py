"""Objects that request placeholders: their resource types, and the status of CapacityBuffers.

- `headroom_requests`: Deployments, PodTemplates, ResourceQuotas and CapacityBuffers (whose CRD may be absent) as resource
  types. Other workloads are already watched as auxiliary objects.
- `BufferStatusWriter`: writes the status of buffers where it differs from the wanted one.

How placeholders are made of the requests, and what the status should be, is decided in `controllers.slack.headroom_demand`.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import field, structs

from slackwater.adapters.api_calls import MERGE_PATCH, ApiPort, ask
from slackwater.adapters.api_objects import Int32, ObjectDecoder, Quantity, Wire
from slackwater.adapters.kube.auxiliary import auxiliary_object, decode_replicas, decode_workload
from slackwater.adapters.kube.decode import PodDecoder, read_meta
from slackwater.adapters.kube.errors import KubeError
from slackwater.adapters.kube.resource_type import PATHS, OnBroken, ResourceType, object_path
from slackwater.model.auxiliary import AuxiliaryKey
from slackwater.model.eviction_facts import Owner
from slackwater.model.ids import PodKey
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion
from slackwater.model.placeholders import BufferStatus, CapacityBuffer, Condition, NameRef, ResourceQuota, Workload
from slackwater.model.pod_constraints import KindInterner
from slackwater_protocol.units import NANO, NANOS_PER_MILLI, parse_nanos


class _ScalableRef(Wire):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class _BufferSpec(Wire):
    provisioning_strategy: str | None = None
    pod_template_ref: NameRef | None = None
    scalable_ref: _ScalableRef | None = None
    replicas: Int32 | None = None
    percentage: Int32 | None = None
    limits: dict[str, Quantity] | None = None


class _BufferWire(Wire):
    spec: _BufferSpec = field(default_factory=_BufferSpec)
    status: BufferStatus = BufferStatus()


class _QuotaSpec(Wire):
    hard: dict[str, Quantity] | None = None
    scopes: list[str] | None = None
    scope_selector: dict[str, object] | None = None


class _QuotaStatus(Wire):
    hard: dict[str, Quantity] | None = None
    used: dict[str, Quantity] | None = None


class _QuotaWire(Wire):
    spec: _QuotaSpec = field(default_factory=_QuotaSpec)
    status: _QuotaStatus = field(default_factory=_QuotaStatus)


_QUOTA: Final = ObjectDecoder(_QuotaWire)
#: Scopes that pods with requests and without a deadline have.
_USUAL_SCOPES: Final = frozenset({"NotTerminating", "NotBestEffort"})
_BUFFER: Final = ObjectDecoder(_BufferWire)


def headroom_requests(
    kinds: KindInterner, on_broken: OnBroken, kubernetes: KubernetesVersion = DEFAULT_VERSION
) -> tuple[ResourceType[AuxiliaryKey], ...]:
    """The resource types of headroom requests that `auxiliary` does not watch already."""
    decoder = PodDecoder(kinds, kubernetes)

    def deployment(raw: bytes | msgspec.Raw) -> Workload:
        return decode_workload(decoder, ("apps", "Deployment"), raw, replicas=decode_replicas(raw).replicas)

    def template(raw: bytes | msgspec.Raw) -> Workload:
        return decode_workload(decoder, ("", "PodTemplate"), raw, replicas=0)

    return (
        auxiliary_object("deployments", PATHS["deployments"], deployment, on_broken),
        auxiliary_object("podtemplates", PATHS["podtemplates"], template, on_broken),
        auxiliary_object("resourcequotas", PATHS["resourcequotas"], decode_quota, on_broken),
        auxiliary_object("capacitybuffers", PATHS["capacitybuffers"], decode_buffer, on_broken, may_be_absent=True),
    )


def decode_quota(raw: bytes | msgspec.Raw) -> ResourceQuota:
    """Decodes the JSON of a ResourceQuota. Raises ValueError. A quota for other pods than long-running ones with requests, or
    for a priority class, leaves everything."""
    wire, namespace = _QUOTA.decode(raw), read_meta(raw).namespace
    if wire.spec.scope_selector is not None or not set(wire.spec.scopes or ()) <= _USUAL_SCOPES:
        return ResourceQuota(namespace=namespace, left=())
    hard, used = wire.status.hard or wire.spec.hard or {}, wire.status.used or {}
    left: dict[str, int] = {}
    for key, text in hard.items():
        name = _quota_resource(key)
        if name is not None:
            amount = _limit(name, text) - (_limit(name, used[key]) if key in used else 0)
            left[name] = min(amount, left.get(name, amount))
    return ResourceQuota(namespace=namespace, left=tuple(sorted(left.items())))


def _quota_resource(key: str) -> str | None:
    """The resource of pods that a quota's key limits; None if it limits something else."""
    if key in {"cpu", "memory", "pods"}:
        return key
    if key == "count/pods":
        return "pods"
    return key.removeprefix("requests.") if key.startswith("requests.") and key != "requests.storage" else None


def decode_buffer(raw: bytes | msgspec.Raw) -> CapacityBuffer:
    """Decodes the JSON of a CapacityBuffer. Raises ValueError."""
    wire, meta = _BUFFER.decode(raw), read_meta(raw)
    spec, scalable = wire.spec, wire.spec.scalable_ref
    limits = None if spec.limits is None else tuple(sorted((name, _limit(name, text)) for name, text in spec.limits.items()))
    return CapacityBuffer(
        key=PodKey(meta.namespace, meta.name),
        uid=meta.uid,
        generation=meta.generation,
        created_at=meta.creation_timestamp or "",
        strategy=spec.provisioning_strategy or "",
        template=None if spec.pod_template_ref is None else spec.pod_template_ref.name,
        scalable=None if scalable is None else Owner(scalable.api_group, scalable.kind, scalable.name),
        replicas=spec.replicas,
        percentage=spec.percentage,
        limits=limits,
        status=wire.status,
    )


def _limit(name: str, text: Quantity) -> int:
    amount = parse_nanos(text)
    return amount // (NANOS_PER_MILLI if name == "cpu" else NANO)


_OK: Final = 200
#: Limit of writes after one loop of the autoscaler; the other statuses wait for the next loop.
_MOST: Final = 50
_TIMEOUT_SECONDS: Final = 10.0


class BufferStatusWriter:
    """Patches the status of CapacityBuffers. Never raises, because no decision depends on it.

    `now` returns the time as RFC 3339 in whole seconds.

    The transition time of a condition changes only with the condition's status. Each patch names the object's UID, so that it
    never changes a successor of the same name.
    """

    def __init__(self, client: ApiPort, *, now: Callable[[], str]) -> None:
        self._client = client
        self._now = now

    async def write(self, wanted: Iterable[tuple[CapacityBuffer, BufferStatus]]) -> int:
        """Writes the statuses that differ from the buffers' present ones, at most `_MOST`; returns how many it wrote."""
        written = 0
        for buffer, status in wanted:
            new_status = stamped(buffer.status, status, self._now())
            if new_status == buffer.status:
                continue
            if written >= _MOST:
                break
            written += await self._patch(buffer, new_status)
        return written

    async def _patch(self, buffer: CapacityBuffer, status: BufferStatus) -> bool:
        patch = {"metadata": {"uid": buffer.uid}, "status": status}  # null removes a field
        path = f"{object_path(PATHS['capacitybuffers'], buffer.key)}/status"
        try:
            answer = await ask(self._client, "PATCH", path, patch, content_type=MERGE_PATCH, timeout_seconds=_TIMEOUT_SECONDS)
            code, words = answer.status, answer.body[:300].decode(errors="replace")
        except KubeError as error:
            code, words = 0, str(error)
        if code != _OK:
            import structlog  # commands that read a file log nothing, and it takes 0.1 s

            _log = structlog.get_logger(__name__)
            _log.warning("status of a capacity buffer not written", buffer=str(buffer.key), status=code, detail=words)
        return code == _OK


def stamped(before: BufferStatus, wanted: BufferStatus, now: str) -> BufferStatus:
    """The wanted status with transition times, and with the conditions of other types that `before` has."""
    present = before.conditions or ()
    known = {condition.type: condition for condition in present}
    ours = [_timed(condition, known.get(condition.type), now) for condition in wanted.conditions or ()]
    types = {condition.type for condition in ours}
    others = [condition for condition in present if condition.type not in types]
    order = {condition.type: at for at, condition in enumerate(present)}
    conditions = sorted([*others, *ours], key=lambda condition: order.get(condition.type, len(order)))
    return structs.replace(wanted, conditions=tuple(conditions))


def _timed(condition: Condition, known: Condition | None, now: str) -> Condition:
    same = known is not None and known.status == condition.status
    since = known.last_transition_time if known is not None and same else now
    return structs.replace(condition, last_transition_time=since)
