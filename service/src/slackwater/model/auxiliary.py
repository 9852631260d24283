"""Auxiliary objects, which only planners read (namespaces, storage, devices, pods' controllers), and the events about them.

- `AuxiliarySeen`, `AuxiliaryGone`: the events.
- `AuxiliaryObjects`: what planners get.
- `AuxiliaryObject`: the objects with the fields that planners read.

Nodes and pods are not auxiliary: the state machine keeps them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from slackwater.model.devices import ClaimSpec, DeviceClass, DeviceObjects, DeviceTaintRule, ResourceClaim, ResourceSlice
from slackwater.model.eviction_facts import Owner
from slackwater.model.objects import Pod
from slackwater.model.placeholders import CapacityBuffer, HeadroomRequests, ResourceQuota, Workload
from slackwater.model.scheduler_profile import SpreadSources
from slackwater.model.selectors import Selector
from slackwater.model.storage import Attachment, Claim, CsiDriver, CsiNode, Storage, StorageCapacity, StorageClass, Volume

#: A controller in its namespace.
ControllerKey = tuple[str, Owner]
#: How many pods each controller wants; 0 for a controller that wants no fixed number.
Targets = Mapping[ControllerKey, int]


def controller_key(pod: Pod) -> ControllerKey | None:
    """The key of the controller that makes the pod again; None if none does."""
    owner = pod.eviction_facts.owner
    return None if owner is None else (pod.key.namespace, owner)


@dataclass(frozen=True, slots=True)
class ControllerScale:
    """The number of pods that a controller wants now. `selector` is that of its pods; None where it is not read."""

    replicas: int
    selector: Selector = None


AuxiliaryKind = Literal[
    "namespaces",
    "persistentvolumeclaims",
    "persistentvolumes",
    "storageclasses",
    "csinodes",
    "csidrivers",
    "csistoragecapacities",
    "volumeattachments",
    "resourceslices",
    "devicetaintrules",
    "deviceclasses",
    "resourceclaims",
    "resourceclaimtemplates",
    "daemonsets",
    "replicasets",
    "replicationcontrollers",
    "statefulsets",
    "jobs",
    "deployments",
    "podtemplates",
    "capacitybuffers",
    "resourcequotas",
    "services",
]
#: The objects of dynamic resource allocation.
DEVICE_KINDS: Final[frozenset[AuxiliaryKind]] = frozenset(
    {"resourceslices", "devicetaintrules", "deviceclasses", "resourceclaims", "resourceclaimtemplates"}
)
#: The kinds of objects that can ask for placeholders; they are watched only where slack is planned.
ASKING: Final[frozenset[AuxiliaryKind]] = frozenset(
    {
        "deployments",
        "replicasets",
        "statefulsets",
        "jobs",
        "replicationcontrollers",
        "podtemplates",
        "capacitybuffers",
        "resourcequotas",
    }
)
#: The API resource of each kind of workload, by API group and kind.
WORKLOAD_KINDS: Final[Mapping[tuple[str, str], AuxiliaryKind]] = {
    ("apps", "Deployment"): "deployments",
    ("apps", "ReplicaSet"): "replicasets",
    ("apps", "StatefulSet"): "statefulsets",
    ("batch", "Job"): "jobs",
    ("", "ReplicationController"): "replicationcontrollers",
}


class AuxiliaryKey(NamedTuple):
    """The key of an auxiliary object. `namespace` is empty for objects that have none."""

    namespace: str
    name: str


#: An auxiliary object with the fields that planners read. A namespace is its labels, a Service the labels of the pods that it
#: selects (empty: none), and a DaemonSet a pod that it would create, without a node.
AuxiliaryObject = (
    Mapping[str, str]
    | Claim
    | Volume
    | StorageClass
    | CsiNode
    | CsiDriver
    | StorageCapacity
    | Attachment
    | ResourceSlice
    | DeviceTaintRule
    | DeviceClass
    | ResourceClaim
    | ClaimSpec
    | Pod
    | ControllerScale
    | Workload
    | CapacityBuffer
    | ResourceQuota
)


@dataclass(frozen=True, slots=True)
class AuxiliarySeen:
    """An auxiliary object as the API server has it now."""

    kind: AuxiliaryKind
    key: AuxiliaryKey
    value: AuxiliaryObject


@dataclass(frozen=True, slots=True)
class AuxiliaryGone:
    """An auxiliary object is deleted."""

    kind: AuxiliaryKind
    key: AuxiliaryKey


AuxiliaryEvent = AuxiliarySeen | AuxiliaryGone


@dataclass(frozen=True, slots=True, kw_only=True)
class AuxiliaryObjects:
    """The auxiliary objects that changed since planners last collected them. A field is None if nothing of that type changed;
    otherwise it has all objects of the type."""

    namespaces: Mapping[str, Mapping[str, str]] | None = None
    storage: Storage | None = None
    devices: DeviceObjects | None = None
    daemons: tuple[Pod, ...] | None = None
    headroom_requests: HeadroomRequests | None = None
    replicas: Targets | None = None
    spread_sources: SpreadSources | None = None


#: The known auxiliary objects. Types that are not watched are missing.
KnownAuxiliary = Mapping[AuxiliaryKind, Mapping[AuxiliaryKey, Any]]


def by_name(known: KnownAuxiliary, kind: AuxiliaryKind) -> dict[str, Any] | None:
    """The objects of a type without namespaces; None if the type is missing."""
    objects = known.get(kind)
    return None if objects is None else {key.name: value for key, value in objects.items()}


def storage_of(known: KnownAuxiliary) -> Storage:
    """The storage objects; None for each missing type."""
    attachments: dict[str, tuple[Attachment, ...]] = {}
    for attachment in known.get("volumeattachments", {}).values():
        attachments[attachment.node] = (*attachments.get(attachment.node, ()), attachment)
    capacities = known.get("csistoragecapacities")
    claims = known.get("persistentvolumeclaims")
    return Storage(
        claims=None if claims is None else {(key.namespace, key.name): claim for key, claim in claims.items()},
        volumes=by_name(known, "persistentvolumes"),
        classes=by_name(known, "storageclasses"),
        csi_nodes=by_name(known, "csinodes"),
        drivers=by_name(known, "csidrivers"),
        capacities=None if capacities is None else tuple(capacities.values()),
        attachments=attachments if "volumeattachments" in known else None,
    )


def devices_of(known: KnownAuxiliary) -> DeviceObjects:
    """The objects about devices; a missing type has none."""
    return DeviceObjects(
        slices=by_name(known, "resourceslices") or {},
        taint_rules=by_name(known, "devicetaintrules") or {},
        classes=by_name(known, "deviceclasses") or {},
        claims={(key.namespace, key.name): claim for key, claim in known.get("resourceclaims", {}).items()},
        templates={(key.namespace, key.name): spec for key, spec in known.get("resourceclaimtemplates", {}).items()},
    )
