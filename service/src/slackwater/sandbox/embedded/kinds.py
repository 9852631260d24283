"""Lists the resource types that the embedded API server serves, and parses paths, label selectors and field selectors."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from slackwater.sandbox.embedded.faults import Json, bad_request, no_such_path


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceKind:
    """A resource type. `custom`: a CRD defines it, so it has no strategic merge patch. `counted`: `metadata.generation` counts
    the changes of the spec. `halves`: it has a status subresource, so the status can be written only by path `/status`, and
    everything else only by the object's own path."""

    prefix: str  #: the beginning of its paths, such as /apis/policy/v1
    plural: str
    kind: str
    namespaced: bool = True
    custom: bool = False
    counted: bool = False
    halves: bool = False

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return self.prefix.split("/", 2)[2]

    @property
    def full_name(self) -> str:
        """The name in error texts: the plural, with the group if there is one."""
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
_DEVICES: Final = "/apis/resource.k8s.io/v1"

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
    ResourceKind(prefix="/api/v1", plural="resourcequotas", kind="ResourceQuota", halves=True),
    ResourceKind(prefix=_STORAGE, plural="storageclasses", kind="StorageClass", namespaced=False),
    ResourceKind(prefix=_STORAGE, plural="csinodes", kind="CSINode", namespaced=False),
    ResourceKind(prefix=_STORAGE, plural="csidrivers", kind="CSIDriver", namespaced=False),
    ResourceKind(prefix=_STORAGE, plural="csistoragecapacities", kind="CSIStorageCapacity"),
    ResourceKind(prefix=_STORAGE, plural="volumeattachments", kind="VolumeAttachment", namespaced=False, halves=True),
    ResourceKind(prefix=_DEVICES, plural="resourceslices", kind="ResourceSlice", namespaced=False),
    ResourceKind(
        prefix=_DEVICES, plural="devicetaintrules", kind="DeviceTaintRule", namespaced=False, counted=True, halves=True
    ),
    ResourceKind(prefix=_DEVICES, plural="deviceclasses", kind="DeviceClass", namespaced=False),
    ResourceKind(prefix=_DEVICES, plural="resourceclaims", kind="ResourceClaim", halves=True),
    ResourceKind(prefix=_DEVICES, plural="resourceclaimtemplates", kind="ResourceClaimTemplate"),
)
_BY_COLLECTION: Final = {(kind.prefix, kind.plural): kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Target:
    """The object or collection that a path names. `namespace` is empty for all namespaces and for cluster-scoped types, `name`
    for a collection."""

    kind: ResourceKind
    namespace: str
    name: str
    subresource: str


def target_of(path: str) -> Target:
    """The target of a path. Raises `Fault` (404) if the path names no resource type of the sandbox."""
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


Match = Callable[[Json], bool]

_SETS: Final = re.compile(r"^\s*([^\s!=,()]+)\s+(in|notin)\s+\(([^)]*)\)\s*$")
_PARTS: Final = re.compile(r",(?![^(]*\))")


def matching(*, labels: str, fields: str) -> Match | None:
    """A function that says whether an object matches both selectors; None if both are empty. Raises `Fault` (400)."""
    tests = [*map(_label_test, _PARTS.split(labels) if labels else ()), *map(_field_test, fields.split(",") if fields else ())]
    return (lambda body: all(test(body) for test in tests)) if tests else None


def _label_test(text: str) -> Match:
    if found := _SETS.match(text):
        name, how, values = found[1], found[2], {value.strip() for value in found[3].split(",")}
        return lambda body: (_labels(body).get(name) in values) == (how == "in")
    name, operator, value = _split(text.strip())
    if operator == "!=":
        return lambda body: _labels(body).get(name) != value
    if operator:
        return lambda body: _labels(body).get(name) == value
    if name.startswith("!"):
        return lambda body: name[1:] not in _labels(body)
    return lambda body: name in _labels(body)


def _field_test(text: str) -> Match:
    name, operator, value = _split(text.strip())
    if not operator:
        raise bad_request(f"invalid selector: {text!r}; can't understand it")
    path = name.split(".")
    return lambda body: (_at(body, path) == value) == (operator != "!=")


def _split(text: str) -> tuple[str, str, str]:
    for operator in ("!=", "==", "="):
        name, found, value = text.partition(operator)
        if found:
            return name.strip(), operator, value.strip()
    return text, "", ""


def _at(body: Json, path: list[str]) -> str:
    found: Any = body
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return "" if found is None else str(found)


def _labels(body: Json) -> dict[str, str]:
    return body["metadata"].get("labels") or {}


def selects(selector: Json | None, labels: dict[str, str]) -> bool:
    """Does a LabelSelector, such as that of a budget, select these labels? None selects nothing."""
    if selector is None:
        return False
    if any(labels.get(name) != value for name, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression(rule, labels) for rule in selector.get("matchExpressions") or ())


def _expression(rule: Json, labels: dict[str, str]) -> bool:
    value, values = labels.get(rule["key"]), rule.get("values") or ()
    match rule["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None
