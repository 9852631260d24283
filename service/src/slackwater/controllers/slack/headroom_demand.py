"""The headroom that annotated workloads and pods, CapacityBuffers and start-time SLOs request, before any is placed.

- `asked_by`: all of it.
- `resolved`: for each CapacityBuffer, how many placeholders it gets, like which pod, and its status.
- `marked`: the placeholders for pods and controllers with the annotation (S7 of the proposal).

Limits are in
`headroom_limits`; managed copies of templates are not supported.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from msgspec import structs

from slackwater.controllers.slack.headroom_limits import HeadroomCut, requests_of, within_quotas
from slackwater.controllers.slack.planning_input import PodHeadroom
from slackwater.controllers.slack.slo_sizing import SLORoom
from slackwater.model.eviction_facts import Owner
from slackwater.model.objects import Pod
from slackwater.model.placeholders import (
    ACTIVE_CAPACITY,
    BufferStatus,
    CapacityBuffer,
    Condition,
    HeadroomRequests,
    NameRef,
    Workload,
)
from slackwater.model.pod_constraints import Kind
from slackwater.snapshot.snapshot_replica import SnapshotReplica
from slackwater_protocol.names import SLACK


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedBuffer:
    """A buffer, its placeholders (`pod_headroom`; None if it gets none) and its new status. The status has no times."""

    buffer: CapacityBuffer
    pod_headroom: PodHeadroom | None
    status: BufferStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomDemand:
    """The requested headroom. `pod_headroom` has all of it; `buffers` and `slos` show it for each CapacityBuffer and start-time
    SLO. `problems` say, for example, which annotations cannot be read; `cuts`, what ResourceQuotas do not allow."""

    pod_headroom: tuple[PodHeadroom, ...] = ()
    buffers: tuple[ResolvedBuffer, ...] = ()
    slos: Mapping[str, SLORoom] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    cuts: tuple[HeadroomCut, ...] = ()

    def with_slos(self, slos: Mapping[str, SLORoom]) -> "HeadroomDemand":
        """A copy with the headroom for start-time SLOs added."""
        more = [each for room in slos.values() for each in room.pod_headroom]
        problems = [room.problem for room in slos.values() if room.problem is not None]
        headroom = (*self.pod_headroom, *more)
        return replace(self, pod_headroom=headroom, slos=slos, problems=(*self.problems, *problems))


def asking_now(replica: SnapshotReplica, headroom_requests: HeadroomRequests) -> HeadroomDemand:
    """The headroom that is requested now: by annotations of pods of the replica, and by `headroom_requests`."""
    return asked_by(replica.every_pod(), headroom_requests)


def asked_by(pods: Iterable[Pod], headroom_requests: HeadroomRequests) -> HeadroomDemand:
    """The headroom that the annotations of these pods and `headroom_requests` request.

    The placeholders for a controller are copies of its newest pod. They are made of the pod template if it has no pod, or if it
    is a Deployment, whose pods belong to ReplicaSets.
    """
    owners = {(each.namespace, each.ref) for each in headroom_requests.marked} | set(headroom_requests.workloads)
    carrying: list[Pod] = []
    newest: dict[tuple[str, Owner], Pod] = {}
    for pod in pods:
        eviction_facts = pod.eviction_facts
        if eviction_facts.slack and not pod.ended and not pod.deleting:
            carrying.append(pod)
        owner = eviction_facts.owner if owners else None
        if owner is not None and (key := (pod.key.namespace, owner)) in owners and not pod.ended:
            newest[key] = max(newest.get(key, pod), pod, key=lambda pod: (pod.created_at, pod.key))
    buffers = resolved(headroom_requests, newest)
    found, problems = marked(headroom_requests.marked, carrying, newest)
    pod_headroom = [each.pod_headroom for each in buffers if each.pod_headroom is not None]
    limited = within_quotas([*pod_headroom, *found], headroom_requests.quotas)
    kept = {each.source: each.count for each in limited.pod_headroom}
    return HeadroomDemand(
        pod_headroom=tuple(limited.pod_headroom),
        buffers=tuple(with_quota(each, kept.get(source_of(each.buffer), 0)) for each in buffers),
        problems=tuple(problems),
        cuts=tuple(limited.cuts),
    )


READY: Final = "ReadyForProvisioning"
PROVISIONING: Final = "Provisioning"
LIMITED_BY_QUOTAS: Final = "LimitedByQuotas"
#: A buffer that asks for more is refused: a number that is too large by mistake would burden every loop.
MOST_CHUNKS: Final = 50_000


class _NotReady(Exception):
    """The buffer gets no placeholders; the message says why."""


def source_of(buffer: CapacityBuffer) -> str:
    """The text by which people recognize the buffer as a source of placeholders."""
    return f"buffer {buffer.key}"


def resolved(headroom_requests: HeadroomRequests, newest: Mapping[tuple[str, Owner], Pod]) -> list[ResolvedBuffer]:
    """Computes how many placeholders each CapacityBuffer gets and like which pod, and its new status; the oldest buffer first.
    Leaves out buffers whose provisioning strategy is not active capacity. `newest`: the newest pod of each workload that has
    pods.

        chunks = min(max(replicas, ceil(percentage * workload_replicas / 100)), most)    # most: the number within the limits

    Chunk is CapacityBuffer's word for one placeholder. A placeholder is like the pod of the PodTemplate or of the workload. If
    the workload has pods, its newest pod is used, since admission may have changed it. If only limits are given, the buffer
    gets as many placeholders as they allow. The rules and the texts of the conditions are those of Cluster Autoscaler's
    controller for the same objects.
    """
    buffers = sorted(headroom_requests.buffers, key=lambda each: (each.created_at, each.key))
    return [_resolve(buffer, headroom_requests, newest) for buffer in buffers if buffer.strategy in ("", ACTIVE_CAPACITY)]


def _resolve(
    buffer: CapacityBuffer, headroom_requests: HeadroomRequests, newest: Mapping[tuple[str, Owner], Pod]
) -> ResolvedBuffer:
    try:
        workload = _workload(buffer, headroom_requests)
        pod = newest.get((buffer.key.namespace, buffer.scalable), workload.pod) if buffer.scalable else workload.pod
        chunks = _chunks(buffer, workload, pod.kind)
    except _NotReady as why:
        conditions = (
            Condition(READY, "False", "error", f"Buffer not ready for provisioning: {why}"),
            Condition(PROVISIONING, "False", "NotReadyForProvisioning", "CapacityBuffer is not ready for provisioning"),
        )
        return ResolvedBuffer(
            buffer=buffer, pod_headroom=None, status=BufferStatus(provisioning_strategy=ACTIVE_CAPACITY, conditions=conditions)
        )
    ready = Condition(READY, "True", "AttributesSetSuccessfully", "ready")
    provisioning = (
        Condition(PROVISIONING, "True", "FakePodsInjected", f"room is kept for {chunks} pods")
        if chunks
        else Condition(PROVISIONING, "False", "BufferIsEmpty", "CapacityBuffer has zero replicas")
    )
    status = BufferStatus(
        pod_template_ref=None if buffer.template is None else NameRef(buffer.template),
        pod_template_generation=workload.generation if buffer.template is not None else None,
        replicas=chunks,
        provisioning_strategy=ACTIVE_CAPACITY,
        conditions=(ready, provisioning),
    )
    pod_headroom = PodHeadroom(source=source_of(buffer), kind=pod.kind, labels=pod.labels, count=chunks) if chunks else None
    return ResolvedBuffer(buffer=buffer, pod_headroom=pod_headroom, status=status)


def with_quota(found: ResolvedBuffer, kept: int) -> ResolvedBuffer:
    """The buffer with so many placeholders as its namespace's ResourceQuotas leave. The condition is Cluster Autoscaler's."""
    if found.pod_headroom is None or kept >= found.pod_headroom.count:
        return found
    why = f"ResourceQuotas leave room for {kept} of {found.pod_headroom.count} pods"
    limited = Condition(LIMITED_BY_QUOTAS, "True", "QuotasExceeded", why)
    status = structs.replace(found.status, replicas=kept, conditions=(*(found.status.conditions or ()), limited))
    return replace(found, status=status, pod_headroom=replace(found.pod_headroom, count=kept) if kept else None)


def _workload(buffer: CapacityBuffer, headroom_requests: HeadroomRequests) -> Workload:
    namespace = buffer.key.namespace
    if (buffer.template is None) == (buffer.scalable is None):
        raise _NotReady("want exactly one of podTemplateRef and scalableRef")
    if buffer.template is not None:
        found = headroom_requests.templates.get((namespace, buffer.template))
        what = f"PodTemplate {namespace}/{buffer.template}"
    else:
        assert buffer.scalable is not None
        found = headroom_requests.workloads.get((namespace, buffer.scalable))
        what = f"{buffer.scalable.kind} {namespace}/{buffer.scalable.name}"
    if found is None:
        raise _NotReady(f"{what}: not found")
    return found


def _chunks(buffer: CapacityBuffer, workload: Workload, kind: Kind) -> int:
    asked = [buffer.replicas] if buffer.replicas is not None else []
    if buffer.percentage is not None and buffer.scalable is not None:
        asked.append(-(-buffer.percentage * workload.replicas // 100))
    within = None if buffer.limits is None else _within(buffer.limits, kind)
    if not asked and within is None:
        raise _NotReady("want at least one of replicas, percentage (with scalableRef) and limits")
    chunks = max(asked) if asked else within
    if chunks is None or chunks > MOST_CHUNKS:
        raise _NotReady(f"asks for {chunks} pods, want at most {MOST_CHUNKS}")
    return chunks if within is None else min(chunks, within)


def _within(limits: Sequence[tuple[str, int]], kind: Kind) -> int:
    """How many pods the limits allow. Raises `_NotReady` if no limit is on a resource that the pod requests."""
    asks = requests_of(kind)
    counts = [limit // asks[name] for name, limit in limits if asks.get(name)]
    if not counts:
        raise _NotReady("limits name no resource that the pod asks for")
    return min(counts)


#: A larger number for one workload is taken for a mistake.
MOST: Final = 50_000


def wanted(text: str, replicas: int) -> int:
    """Reads how many placeholders the text of an annotation asks for. `replicas`: the number of which a percentage is taken.
    Raises ValueError if the text cannot be read, or asks for more than `MOST`."""
    percent = text.endswith("%")
    digits = text.removesuffix("%").strip()
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{text!r}, want a number or a percentage such as 2 or 10%")
    count = -(-int(digits) * replicas // 100) if percent else int(digits)
    if count > MOST:
        raise ValueError(f"{text!r} is {count} placeholders, want at most {MOST}")
    return count


def marked(
    workloads: Iterable[Workload], pods: Iterable[Pod], newest: Mapping[tuple[str, Owner], Pod]
) -> tuple[list[PodHeadroom], list[str]]:
    """The placeholders for workloads with the annotation, and texts for people about annotations that cannot be read.
    `workloads` and `pods`: the controllers and the pods that have it.

    "2" asks for two placeholders like a pod of the workload; "10%" for a tenth of the workload's replicas, rounded up; "0" for
    none (rules then ignore these pods when they size the placeholder for the largest pod). Pods of one controller count as one
    workload, even if several have the annotation. The annotation of the controller takes precedence over those of its pods. A
    Deployment's annotation is copied to its ReplicaSets, where it does not count again. A text that cannot be read is reported,
    and asks for nothing.
    """
    asks: list[tuple[str, str, int, Pod]] = []
    workloads = sorted(workloads, key=lambda each: (each.namespace, each.ref.kind, each.ref.name))
    decided_keys = {(workload.namespace, workload.ref) for workload in workloads}
    for workload in workloads:
        key = (workload.namespace, workload.ref)
        if workload.owner is not None and (workload.namespace, workload.owner) in decided_keys:
            continue
        name = f"{workload.ref.kind} {workload.namespace}/{workload.ref.name}"
        asks.append((name, workload.slack, workload.replicas, newest.get(key, workload.pod)))
    for name, group in sorted(_by_controller(pods, decided_keys).items()):
        newest_pod = max(group, key=lambda pod: (pod.created_at, pod.key))
        asks.append((name, newest_pod.eviction_facts.slack, len(group), newest_pod))
    found: list[PodHeadroom] = []
    problems: list[str] = []
    for name, text, replicas, pod in asks:
        try:
            count = wanted(text, replicas)
        except ValueError as error:
            problems.append(f"{name}: annotation {SLACK}: {error}")
        else:
            headroom = PodHeadroom(source=name, kind=pod.kind, labels=pod.labels, count=count, capped=True, pod=pod)
            found += [headroom] if count else []
    return found, problems


def _by_controller(pods: Iterable[Pod], decided_keys: set[tuple[str, Owner]]) -> dict[str, list[Pod]]:
    """Groups the pods by controller, keyed by a name for people; a pod without a controller is a group of its own. Leaves out
    the pods of controllers in `decided_keys`."""
    groups: dict[str, list[Pod]] = {}
    for pod in pods:
        owner = pod.eviction_facts.owner
        if owner is None or (pod.key.namespace, owner) not in decided_keys:
            name = f"Pod {pod.key}" if owner is None else f"{owner.kind} {pod.key.namespace}/{owner.name}"
            groups.setdefault(name, []).append(pod)
    return groups
