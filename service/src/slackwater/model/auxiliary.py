"""Objects that only planners read: namespaces, storage, controllers of pods. Their changes, and all of them at one moment.

Deliberately absent: nodes and pods, which the state machine keeps.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from slackwater.model.buffers import CapacityBuffer, HeadroomRequests, Workload
from slackwater.model.controllers import Targets, Wanted
from slackwater.model.objects import Pod
from slackwater.model.storage import (
    Attachment,
    Claim,
    CsiDriver,
    CsiNode,
    Storage,
    StorageCapacity,
    StorageClass,
    Volume,
)

AuxiliaryKind = Literal[
    "namespaces",
    "persistentvolumeclaims",
    "persistentvolumes",
    "storageclasses",
    "csinodes",
    "csidrivers",
    "csistoragecapacities",
    "volumeattachments",
    "daemonsets",
    "replicasets",
    "replicationcontrollers",
    "statefulsets",
    "jobs",
    "deployments",
    "podtemplates",
    "capacitybuffers",
]
#: What asks for placeholders: watched only where slack is planned.
ASKING: Final[frozenset[AuxiliaryKind]] = frozenset(
    {
        "deployments",
        "replicasets",
        "statefulsets",
        "jobs",
        "replicationcontrollers",
        "podtemplates",
        "capacitybuffers",
    }
)
#: The resource of a workload, by its API group and kind.
WORKLOAD_KINDS: Final[Mapping[tuple[str, str], AuxiliaryKind]] = {
    ("apps", "Deployment"): "deployments",
    ("apps", "ReplicaSet"): "replicasets",
    ("apps", "StatefulSet"): "statefulsets",
    ("batch", "Job"): "jobs",
    ("", "ReplicationController"): "replicationcontrollers",
}


class AuxiliaryKey(NamedTuple):
    """`namespace` is empty for objects that have none."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class NamespaceLabels:
    """A namespace, as far as selectors read it."""

    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DaemonSet:
    """A DaemonSet, as a pod that it would make: without a node, and tolerating what the controller lets its pods tolerate."""

    pod: Pod


AuxiliaryObject = (
    NamespaceLabels
    | Claim
    | Volume
    | StorageClass
    | CsiNode
    | CsiDriver
    | StorageCapacity
    | Attachment
    | DaemonSet
    | Wanted
    | Workload
    | CapacityBuffer
)


@dataclass(frozen=True, slots=True)
class AuxiliarySeen:
    """The object as the API server has it now."""

    kind: AuxiliaryKind
    key: AuxiliaryKey
    value: AuxiliaryObject


@dataclass(frozen=True, slots=True)
class AuxiliaryGone:
    """The object is deleted."""

    kind: AuxiliaryKind
    key: AuxiliaryKey


AuxiliaryEvent = AuxiliarySeen | AuxiliaryGone


@dataclass(frozen=True, slots=True, kw_only=True)
class AuxiliaryObjects:
    """What changed since it was last asked for; a field is None where nothing of its kind did."""

    namespaces: Mapping[str, Mapping[str, str]] | None = None
    storage: Storage | None = None
    daemons: tuple[Pod, ...] | None = None
    headroom_requests: HeadroomRequests | None = None
    replicas: Targets | None = None
