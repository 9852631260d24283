"""Placeholders, and the API objects that request them.

- `a_placeholder`, `is_placeholder`: pods that exist only inside the autoscaler's plans, to keep room for pods to come.
- `HeadroomRequests`: CapacityBuffer objects (autoscaling.x-k8s.io/v1beta1) and workloads with the slack annotation, with the
  fields that slack reads.

`controllers.slack` decides how many placeholders there are and where they are placed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.model.objects import Labels, Pod
from slackwater.model.pod_constraints import Kind
from slackwater.model.selectors import Selector

#: The strategy that this autoscaler implements; an empty strategy means the same.
ACTIVE_CAPACITY: Final = "buffer.x-k8s.io/active-capacity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A workload that makes pods from a template. `pod` is an example of such a pod.

    `slack` is the text of the workload's slack annotation, "" without one. `generation` is the object's metadata.generation,
    `selector` that of the workload's pods, None where it is not read. `owner` is the workload's own controller. A PodTemplate
    is represented as a workload too, with no replicas.
    """

    ref: Owner
    namespace: str
    replicas: int
    pod: Pod
    slack: str = ""
    generation: int = 0
    selector: Selector = None
    owner: Owner | None = None


class Condition(Struct, frozen=True, rename="camel"):
    """A condition of an object's status, as the API has it."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class NameRef(Struct, frozen=True):
    """A reference to an object of the same namespace, as the API has it."""

    name: str = ""


class BufferStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """The status of a CapacityBuffer, as the API has it. A field that the status does not have is None."""

    pod_template_ref: NameRef | None = None
    pod_template_generation: int | None = None
    replicas: int | None = None
    provisioning_strategy: str | None = None
    conditions: tuple[Condition, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityBuffer:
    """A CapacityBuffer. `limits` are (resource name, amount) pairs: CPU in milliCPU, memory in bytes, other resources as whole
    numbers."""

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
class ResourceQuota:
    """What a ResourceQuota leaves to further pods: (resource name, amount) pairs, CPU in milliCPU, memory in bytes, `pods` and
    other resources as whole numbers. An amount may be negative."""

    namespace: str
    left: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomRequests:
    """The API objects that ask for placeholders: CapacityBuffers with the objects they refer to, and workloads with the slack
    annotation.

    `workloads` and `templates` are what the buffers refer to, keyed by namespace and by reference or name. `marked` are the
    workloads with the annotation. `quotas`: the ResourceQuotas of all namespaces.
    """

    buffers: tuple[CapacityBuffer, ...] = ()
    workloads: Mapping[tuple[str, Owner], Workload] = field(default_factory=dict)
    templates: Mapping[tuple[str, str], Workload] = field(default_factory=dict)
    marked: tuple[Workload, ...] = ()
    quotas: tuple[ResourceQuota, ...] = ()

    def examples(self) -> tuple[Workload, ...]:
        """Every workload and template whose pod a placeholder may be like."""
        return *self.workloads.values(), *self.templates.values(), *self.marked


NO_HEADROOM_REQUESTS: Final = HeadroomRequests()


#: Placeholders are shown as pods `slack/<n>`.
NAMESPACE: Final = "slack"
#: The least int32: nothing is ever preempted for a placeholder.
LOWEST_PRIORITY: Final = -(2**31)
_UID_PREFIX: Final = "placeholder:"
#: The owner of all placeholders is an invented ReplicaSet, so that rules treat them as pods that a controller creates again
#: elsewhere.
_EVICTION_FACTS: Final = EvictionFacts(owner=Owner("apps", "ReplicaSet", NAMESPACE), safe_to_evict="true")


def a_placeholder(number: int, kind: Kind, labels: Labels = (), *, node: NodeName | None = None) -> Pod:
    """Creates the placeholder `slack/<number>`, with the scheduling needs of a pod of this `Kind` with these labels.

    It is a `Pod` like any other, so planners judge it by the same rules. Its UID marks it: no API server assigns such a UID. It
    has the lowest priority there is, and may leave any node.
    """
    return Pod(
        uid=PodUid(f"{_UID_PREFIX}{number}"),
        key=PodKey(NAMESPACE, str(number)),
        resource_version=0,
        labels=labels,
        kind=kind,
        node=node,
        ended=False,
        deleting=False,
        priority=LOWEST_PRIORITY,
        created_at="",
        started_at="",
        nominated_node=None,
        unschedulable_message=None,
        eviction_facts=_EVICTION_FACTS,
    )


def is_placeholder(pod: Pod) -> bool:
    """Whether the pod is a placeholder."""
    return is_placeholder_uid(pod.uid)


def is_placeholder_uid(uid: PodUid) -> bool:
    """Whether this is the UID of a placeholder."""
    return uid.startswith(_UID_PREFIX)
