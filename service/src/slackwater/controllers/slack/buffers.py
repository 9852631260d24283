"""CapacityBuffers: how many placeholders each asks for, like which pod, and what its status should say.

    chunks = min(max(replicas, ceil(percentage x replicas of the workload / 100)), limits)

A chunk is a pod of the PodTemplate or of the workload. If the workload has pods, its newest pod is used, since admission may
have changed it. If only limits are given, the buffer gets as many chunks as they allow. The rules and the texts of the
conditions are those of Cluster Autoscaler's controller for the same objects. Deliberately absent: ResourceQuotas, and managed
copies of templates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from slackwater.controllers.slack.pod_headroom import PodHeadroom
from slackwater.model.buffers import ACTIVE_CAPACITY, BufferStatus, CapacityBuffer, Condition, HeadroomRequests, Workload
from slackwater.model.equivalence import Kind
from slackwater.model.eviction_facts import Owner
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import NO_POD_CONSTRAINTS

READY: Final = "ReadyForProvisioning"
PROVISIONING: Final = "Provisioning"
#: A buffer that asks for more is refused: one number too large by mistake would be planned for in every loop.
MOST_CHUNKS: Final = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A buffer, the placeholders it gets (None: none), and the status that says so, without times."""

    buffer: CapacityBuffer
    pod_headroom: PodHeadroom | None
    status: BufferStatus


class _NotReady(Exception):
    """The buffer cannot be provided for; the message is the reason as a sentence."""


def source_of(buffer: CapacityBuffer) -> str:
    """The name of the buffer as a source of placeholders, for people."""
    return f"buffer {buffer.key}"


def resolved(headroom_requests: HeadroomRequests, newest: Mapping[tuple[str, Owner], Pod]) -> list[Resolved]:
    """Resolves all buffers of our strategy, the oldest first. `newest` is the newest pod of each workload that has one."""
    buffers = sorted(headroom_requests.buffers, key=lambda each: (each.created_at, each.key))
    return [_resolve(buffer, headroom_requests, newest) for buffer in buffers if buffer.strategy in ("", ACTIVE_CAPACITY)]


def _resolve(buffer: CapacityBuffer, headroom_requests: HeadroomRequests, newest: Mapping[tuple[str, Owner], Pod]) -> Resolved:
    try:
        workload = _workload(buffer, headroom_requests)
        pod = newest.get((buffer.key.namespace, buffer.scalable), workload.pod) if buffer.scalable else workload.pod
        chunks = _chunks(buffer, workload, pod.kind)
    except _NotReady as why:
        conditions = (
            Condition(READY, "False", "error", f"Buffer not ready for provisioning: {why}"),
            Condition(PROVISIONING, "False", "NotReadyForProvisioning", "CapacityBuffer is not ready for provisioning"),
        )
        return Resolved(buffer=buffer, pod_headroom=None, status=BufferStatus(strategy=ACTIVE_CAPACITY, conditions=conditions))
    ready = Condition(READY, "True", "AttributesSetSuccessfully", "ready")
    provisioning = (
        Condition(PROVISIONING, "True", "FakePodsInjected", f"room is kept for {chunks} pods")
        if chunks
        else Condition(PROVISIONING, "False", "BufferIsEmpty", "CapacityBuffer has zero replicas")
    )
    status = BufferStatus(
        template=buffer.template,
        template_generation=workload.generation if buffer.template is not None else None,
        replicas=chunks,
        strategy=ACTIVE_CAPACITY,
        conditions=(ready, provisioning),
    )
    pod_headroom = PodHeadroom(source=source_of(buffer), kind=pod.kind, labels=pod.labels, count=chunks) if chunks else None
    return Resolved(buffer=buffer, pod_headroom=pod_headroom, status=status)


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
    """How many pods the limits allow."""
    asks = dict((kind.pod_constraints or NO_POD_CONSTRAINTS).scalars)
    asks.update(cpu=kind.requests.cpu, memory=kind.requests.memory)
    counts = [limit // asks[name] for name, limit in limits if asks.get(name)]
    if not counts:
        raise _NotReady("limits name no resource that the pod asks for")
    return min(counts)
