"""Decodes workloads that grow in place into a `Vertical`: NeonVM runner pods, and plain pods with bounds.

It reads annotations, labels and owner references of the pod. All functions raise `ValueError` if these say that the pod grows,
but not how. From the VirtualMachine object only the permit is read, in `neon`.
"""

from typing import Final, NamedTuple

import msgspec

from slackwater.adapters.api_objects import OwnerWire, Quantity, Wire
from slackwater.adapters.kube.errors import UNREADABLE
from slackwater.adapters.kube.pod_requests import container_requests, held_requests, pod_requests, read_requests, resize_pending
from slackwater.adapters.kube.structs import ContainerWire, MetaWire, PodWire
from slackwater.model.interning import cached_texts
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion
from slackwater.model.resources import LARGEST_AMOUNT, Amounts
from slackwater.model.vertical import MigrationRef, ResizeTarget, Vertical
from slackwater_protocol.names import (
    BOUNDS,
    BOUNDS_CONTAINER,
    NEON_ALWAYS_MIGRATE,
    NEON_AUTO_MIGRATION,
    NEON_BOUNDS,
    NEON_ENABLED,
    NEON_VM_GROUP,
    NEON_VM_NAME,
    NEON_VM_RESOURCES,
)
from slackwater_protocol.units import Bytes, MilliCpu, byte_count, milli_cpu

MACHINE_KIND: Final = "VirtualMachine"
MIGRATION_KIND: Final = "VirtualMachineMigration"

#: Distinct annotation texts whose decoded form is kept: machines of one size share one.
_CACHED_TEXTS: Final = 16_384
_LONGEST_TEXT: Final = 512
#: The lowest and the highest CPU limit of a machine (neondatabase/autoscaling v0.36.1).
_CPU_LIMITS: Final = (MilliCpu(50), MilliCpu(512_000))


class _Pair(Wire):
    cpu: Quantity
    mem: Quantity


class _BoundsWire(Wire):
    min: _Pair
    max: _Pair


class _Cpus(Wire):
    min: Quantity
    max: Quantity
    use: Quantity


class _Slots(Wire):
    min: int
    max: int
    use: int


class _ResourcesWire(Wire):
    cpus: _Cpus
    memory_slots: _Slots
    memory_slot_size: Quantity


_RESOURCES: Final = msgspec.json.Decoder(_ResourcesWire)
_BOUNDS: Final = msgspec.json.Decoder(_BoundsWire)


class Bounds(NamedTuple):
    """The lower and the upper bound of a workload."""

    min: Amounts
    max: Amounts


def read_vertical(wire: PodWire, kubernetes: KubernetesVersion = DEFAULT_VERSION) -> Vertical | None:
    """How the pod grows in place; None if it does not. Raises ValueError."""
    meta = wire.metadata
    annotations = meta.annotations
    if annotations is None and not meta.owner_references:
        return None
    if (annotations is not None and annotations.vm_resources is not None) or _owner(meta, MACHINE_KIND) is not None:
        return _machine(wire)
    if annotations is not None and annotations.bounds is not None:
        return _plain(wire, annotations.bounds, annotations.bounds_container, kubernetes)
    return None


def _machine(wire: PodWire) -> Vertical:
    meta = wire.metadata
    annotations, labels = meta.annotations, meta.labels or {}
    if annotations is None or annotations.vm_resources is None:
        raise ValueError(f"annotation {NEON_VM_RESOURCES}: missing on a pod that a {MACHINE_KIND} owns")
    limits, using, slot_bytes = _machine_resources(annotations.vm_resources)
    if annotations.vm_bounds is not None:
        limits = _bounds(annotations.vm_bounds, NEON_BOUNDS, slot_bytes)
    owner = _owner(meta, MACHINE_KIND)
    return Vertical(
        min=limits.min,
        max=limits.max,
        using=using,
        slot_bytes=slot_bytes,
        scaling=labels.get(NEON_ENABLED) == "true",
        auto_migrate=labels.get(NEON_AUTO_MIGRATION) == "true",
        always_migrate=labels.get(NEON_ALWAYS_MIGRATE) == "true",
        machine=owner.name if owner is not None else labels.get(NEON_VM_NAME),
        migration=_migration(meta),
        permit=annotations.permit,
    )


def _plain(wire: PodWire, bounds: str, container: str | None, kubernetes: KubernetesVersion) -> Vertical:
    annotations = wire.metadata.annotations
    limits = _bounds(bounds, BOUNDS, 1)
    resized = _resized_container(wire, container)
    pending = resize_pending(wire.status)
    return Vertical(
        min=limits.min,
        max=limits.max,
        using=held_requests(wire, kubernetes) if pending is not None else pod_requests(wire, kubernetes),
        permit=annotations.permit if annotations is not None else None,
        resizing=ResizeTarget(
            container=resized.name,
            requests=container_requests(resized),
            whole=pod_requests(wire, kubernetes, spec_only=True),
            limits=_equal_limits(resized),
            pending=pending,
        ),
    )


def _resized_container(wire: PodWire, name: str | None) -> ContainerWire:
    containers = wire.spec.containers or []
    if name is None:
        if len(containers) != 1:
            raise ValueError(f"annotation {BOUNDS_CONTAINER}: missing, want one of {', '.join(c.name for c in containers)}")
        return containers[0]
    found = next((container for container in containers if container.name == name), None)
    if found is None:
        names = ", ".join(container.name for container in containers)
        raise ValueError(f"annotation {BOUNDS_CONTAINER}: got {name!r}, want one of {names}")
    return found


def _equal_limits(container: ContainerWire) -> tuple[bool, bool]:
    """Whether the container's limit equals its request, for CPU and for memory.

    Equal ones are resized together, because the QoS class must not change.
    """
    resources = container.resources
    if resources is None:
        return (False, False)
    limits, asked = read_requests(resources.limits), read_requests(resources.requests)
    return (
        limits.cpu is not None and limits.cpu == asked.cpu,
        limits.memory is not None and limits.memory == asked.memory,
    )


def _owner(meta: MetaWire, kind: str) -> OwnerWire | None:
    for owner in meta.owner_references or ():
        if owner.kind == kind and owner.api_version.partition("/")[0] == NEON_VM_GROUP:
            return owner
    return None


def _migration(meta: MetaWire) -> MigrationRef | None:
    """The migration that owns the pod, with the pod's role in it; None if no migration owns the pod.

    The pod is the migration's target if the migration is its controller, or (Neon 0.36.1) if no VirtualMachine owns it too.
    """
    owner = _owner(meta, MIGRATION_KIND)
    if owner is None:
        return None
    target = bool(owner.controller) or _owner(meta, MACHINE_KIND) is None
    return MigrationRef(name=owner.name, role="target" if target else "source")


@cached_texts(most=_CACHED_TEXTS, longest=_LONGEST_TEXT)
def _machine_resources(text: str) -> tuple[Bounds, Amounts, int]:
    try:
        wire = _RESOURCES.decode(text)
        slot_bytes = byte_count(wire.memory_slot_size)
        cpus, slots = wire.cpus, wire.memory_slots
        low, high, using = (
            Amounts(milli_cpu(cpu), Bytes(count * slot_bytes))
            for cpu, count in ((cpus.min, slots.min), (cpus.max, slots.max), (cpus.use, slots.use))
        )
    except UNREADABLE as error:
        raise ValueError(f"annotation {NEON_VM_RESOURCES}: {error}") from error
    if not 0 < slot_bytes <= LARGEST_AMOUNT:
        wanted = f"more than 0, at most {LARGEST_AMOUNT} bytes"
        raise ValueError(f"annotation {NEON_VM_RESOURCES}: memorySlotSize {wire.memory_slot_size!r:.40}, want {wanted}")
    if min(using) < 0:
        raise ValueError(f"annotation {NEON_VM_RESOURCES}: use is negative")
    least, most = _CPU_LIMITS
    if not least <= low.cpu <= high.cpu <= most:
        wanted = "0.05 <= min <= max <= 512"
        raise ValueError(f"annotation {NEON_VM_RESOURCES}: cpus min {cpus.min!r}, max {cpus.max!r}, want {wanted}")
    if max(*high, *using) > LARGEST_AMOUNT:
        seen = f"got {max(*high, *using)}, want at most {LARGEST_AMOUNT} (milliCPU, bytes)"
        raise ValueError(f"annotation {NEON_VM_RESOURCES}: {seen}")
    if not 0 < low.memory <= high.memory:
        raise ValueError(f"annotation {NEON_VM_RESOURCES}: memorySlots min {slots.min}, max {slots.max}, want 0 < min <= max")
    return Bounds(low, high), using, slot_bytes


@cached_texts(most=_CACHED_TEXTS, longest=_LONGEST_TEXT)
def _bounds(text: str, name: str, slot_bytes: int) -> Bounds:
    try:
        wire = _BOUNDS.decode(text)
        low, high = (Amounts(milli_cpu(pair.cpu), byte_count(pair.mem)) for pair in (wire.min, wire.max))
    except UNREADABLE as error:
        raise ValueError(f"annotation {name}: {error}") from error
    if min(*low, *high) <= 0:
        raise ValueError(f"annotation {name}: {text}, want nothing zero or negative")
    if max(high) > LARGEST_AMOUNT:
        raise ValueError(f"annotation {name}: {text:.200}, want at most {LARGEST_AMOUNT} (milliCPU, bytes)")
    if not low.within(high):
        raise ValueError(f"annotation {name}: {text}, want min <= max")
    if low.memory % slot_bytes or high.memory % slot_bytes:
        raise ValueError(f"annotation {name}: {text}, want memory in multiples of the slot size, {slot_bytes} bytes")
    return Bounds(low, high)
