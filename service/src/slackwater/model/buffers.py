"""API objects that ask for placeholders: marked workloads, and CapacityBuffer objects (autoscaling.x-k8s.io/v1beta1).

The objects have the fields that slack reads. Deliberately absent: how many placeholders they ask for (`controllers.slack`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from slackwater.model.eviction_facts import Owner
from slackwater.model.ids import PodKey
from slackwater.model.objects import Pod

#: The strategy that this autoscaler implements; an empty strategy means the same.
ACTIVE_CAPACITY: Final = "buffer.x-k8s.io/active-capacity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A workload that makes pods from a template: `pod` is one that it would make.

    `slack` is the workload's annotation, "" without one. A PodTemplate is a workload too, with no replicas. `generation` is
    that of the object.
    """

    ref: Owner
    namespace: str
    replicas: int
    pod: Pod
    slack: str = ""
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of an object's status."""

    type: str
    status: str
    reason: str
    message: str
    changed_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferStatus:
    """The status of a CapacityBuffer. A field is None where the status does not have it."""

    template: str | None = None
    template_generation: int | None = None
    replicas: int | None = None
    strategy: str | None = None
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityBuffer:
    """A CapacityBuffer. `limits` are in milliCPU, bytes and whole numbers, by the resource's name."""

    key: PodKey
    uid: str
    generation: int
    created_at: str
    strategy: str = ""
    template: str | None = None
    scalable: Owner | None = None
    replicas: int | None = None
    percentage: int | None = None
    limits: tuple[tuple[str, int], ...] | None = None
    status: BufferStatus = field(default_factory=BufferStatus)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomRequests:
    """All requests for placeholders that are not pods: CapacityBuffers, the objects they refer to, and marked workloads.

    `workloads` and `templates` are those that some buffer names, keyed by namespace and by reference or name. `marked` are the
    workloads with the slack annotation.
    """

    buffers: tuple[CapacityBuffer, ...] = ()
    workloads: Mapping[tuple[str, Owner], Workload] = field(default_factory=dict)
    templates: Mapping[tuple[str, str], Workload] = field(default_factory=dict)
    marked: tuple[Workload, ...] = ()


NO_HEADROOM_REQUESTS: Final = HeadroomRequests()
