"""What asks for placeholders like pods: marked workloads, and CapacityBuffer objects (autoscaling.x-k8s.io/v1beta1).

Objects as the API server has them, as far as slack reads them. Deliberately absent: what they come to (`controllers.slack`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from slackwater.model.eviction_facts import Owner
from slackwater.model.ids import PodKey
from slackwater.model.objects import Pod

#: The strategy that this autoscaler implements; the empty one is the same.
ACTIVE_CAPACITY: Final = "buffer.x-k8s.io/active-capacity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Something that makes pods by a template: `pod` is one that it would make. `slack` is its annotation, "" without one.

    A PodTemplate is one too, of no replicas. `generation` is that of the object.
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
    """What the status of a buffer says; None where it says nothing."""

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
    """All that asks for placeholders like pods, but pods themselves: buffers with what they refer to, and marked workloads.

    `workloads` and `templates` are those that some buffer names, by namespace and reference, or name.
    """

    buffers: tuple[CapacityBuffer, ...] = ()
    workloads: Mapping[tuple[str, Owner], Workload] = field(default_factory=dict)
    templates: Mapping[tuple[str, str], Workload] = field(default_factory=dict)
    marked: tuple[Workload, ...] = ()


NO_HEADROOM_REQUESTS: Final = HeadroomRequests()
