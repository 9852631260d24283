"""The resource types that the sandbox serves, and how a path names an object of one."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from slackwater.sandbox.embedded.faults import no_such_path


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceKind:
    """One type. `custom`: defined by a CRD, so it knows no strategic merge patch. `counted`: `metadata.generation` counts
    changes of what is not status. `halves`: status is written through its own path, and all else through the other."""

    prefix: str  #: of its paths, such as /apis/policy/v1
    plural: str
    kind: str
    namespaced: bool = True
    custom: bool = False
    counted: bool = False
    halves: bool = False

    @property
    def api_version(self) -> str:
        """As objects name it."""
        return self.prefix.split("/", 2)[2]

    @property
    def full_name(self) -> str:
        """As refusals name it: plural, and the group where there is one."""
        group, _, version = self.api_version.partition("/")
        return f"{self.plural}.{group}" if version else self.plural


PODS: Final = ResourceKind(prefix="/api/v1", plural="pods", kind="Pod", counted=True, halves=True)
NODES: Final = ResourceKind(prefix="/api/v1", plural="nodes", kind="Node", namespaced=False, halves=True)
BUDGETS: Final = ResourceKind(
    prefix="/apis/policy/v1", plural="poddisruptionbudgets", kind="PodDisruptionBudget", counted=True, halves=True
)
_NEON: Final = "/apis/vm.neon.tech/v1"
MACHINES: Final = ResourceKind(
    prefix=_NEON, plural="virtualmachines", kind="VirtualMachine", custom=True, counted=True, halves=True
)
MIGRATIONS: Final = ResourceKind(
    prefix=_NEON, plural="virtualmachinemigrations", kind="VirtualMachineMigration", custom=True, counted=True, halves=True
)
_STORAGE: Final = "/apis/storage.k8s.io/v1"

KINDS: Final = (
    PODS,
    NODES,
    BUDGETS,
    MACHINES,
    MIGRATIONS,
    ResourceKind(prefix="/api/v1", plural="namespaces", kind="Namespace", namespaced=False, halves=True),
    ResourceKind(prefix="/api/v1", plural="configmaps", kind="ConfigMap"),
    ResourceKind(prefix="/api/v1", plural="persistentvolumeclaims", kind="PersistentVolumeClaim", halves=True),
    ResourceKind(prefix="/api/v1", plural="persistentvolumes", kind="PersistentVolume", namespaced=False, halves=True),
    ResourceKind(prefix="/apis/events.k8s.io/v1", plural="events", kind="Event"),
    ResourceKind(prefix="/apis/coordination.k8s.io/v1", plural="leases", kind="Lease"),
    ResourceKind(prefix="/apis/apps/v1", plural="daemonsets", kind="DaemonSet", counted=True, halves=True),
    ResourceKind(prefix="/apis/apps/v1", plural="replicasets", kind="ReplicaSet", counted=True, halves=True),
    ResourceKind(prefix="/apis/apps/v1", plural="statefulsets", kind="StatefulSet", counted=True, halves=True),
    ResourceKind(prefix="/api/v1", plural="replicationcontrollers", kind="ReplicationController", counted=True, halves=True),
    ResourceKind(prefix="/apis/batch/v1", plural="jobs", kind="Job", counted=True, halves=True),
    ResourceKind(prefix="/apis/apps/v1", plural="deployments", kind="Deployment", counted=True, halves=True),
    ResourceKind(prefix="/api/v1", plural="podtemplates", kind="PodTemplate", counted=True),
    ResourceKind(prefix=_STORAGE, plural="storageclasses", kind="StorageClass", namespaced=False),
    ResourceKind(prefix=_STORAGE, plural="csinodes", kind="CSINode", namespaced=False),
    ResourceKind(prefix=_STORAGE, plural="csidrivers", kind="CSIDriver", namespaced=False),
    ResourceKind(prefix=_STORAGE, plural="csistoragecapacities", kind="CSIStorageCapacity"),
    ResourceKind(prefix=_STORAGE, plural="volumeattachments", kind="VolumeAttachment", namespaced=False, halves=True),
)
_BY_COLLECTION: Final = {(kind.prefix, kind.plural): kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names. `namespace` is empty for the whole cluster, `name` for a collection."""

    kind: ResourceKind
    namespace: str
    name: str
    subresource: str


def target_of(path: str) -> Target:
    """Raises `Fault` (404) where there is no such type."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    taken = 2 if parts[0] == "api" else 3
    prefix, rest = "/" + "/".join(parts[:taken]), parts[taken:]
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and (prefix, rest[2]) in _BY_COLLECTION:
        namespace, rest = rest[1], rest[2:]
    kind = _BY_COLLECTION.get((prefix, rest[0])) if rest else None
    if kind is None or len(rest) > 3 or (bool(namespace) and not kind.namespaced):
        raise no_such_path()
    return Target(kind, namespace, rest[1] if len(rest) > 1 else "", rest[2] if len(rest) > 2 else "")
