"""Reads what decides about the pods of one workload: the workload, its ReplicaSets and pods, and what admits pods.

- `fetch_workload`: from the API server, in the workload's namespace. It needs the rights of the ClusterRole view there.
- `load_workload`: from a file.

What the account may not list is left out, and `notes` say what is not known therefore.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import msgspec

from slackwater.adapters.api_calls import ApiPort
from slackwater.adapters.kube.errors import StatusError
from slackwater.adapters.kube.objects import ApiObjects
from slackwater.app.offline.files import documents_of
from slackwater.app.offline.objects import (
    DAEMON_SET,
    JOB,
    LIMIT_RANGE,
    PRIORITY_CLASS,
    QUOTA,
    RUNTIME_CLASS,
    ClusterError,
    FoundObject,
    objects_by_kind,
)
from slackwater.model.ids import PodKey

Json = dict[str, Any]
EVENT: Final = "Event"
ACCOUNT: Final = "ServiceAccount"
REPLICA_SET: Final = "ReplicaSet"
CLAIM: Final = "PersistentVolumeClaim"
#: The workloads that can be explained: the kind of each, and the path of its API.
WORKLOADS: Final[Mapping[str, tuple[str, str]]] = {
    "deployment": ("Deployment", "/apis/apps/v1"),
    "statefulset": ("StatefulSet", "/apis/apps/v1"),
    "daemonset": (DAEMON_SET, "/apis/apps/v1"),
    "replicaset": (REPLICA_SET, "/apis/apps/v1"),
    "job": (JOB, "/apis/batch/v1"),
}
#: For each kind that is read besides: its resource, and what is not known without it.
_MORE: Final[Mapping[str, tuple[str, str]]] = {
    QUOTA: ("/api/v1/namespaces/{}/resourcequotas", "whether a quota leaves room"),
    LIMIT_RANGE: ("/api/v1/namespaces/{}/limitranges", "whether a LimitRange forbids the pods"),
    ACCOUNT: ("/api/v1/namespaces/{}/serviceaccounts", "whether the pods' ServiceAccount exists"),
    CLAIM: ("/api/v1/namespaces/{}/persistentvolumeclaims", "what quotas count of claims"),
    PRIORITY_CLASS: ("/apis/scheduling.k8s.io/v1/priorityclasses", "which PriorityClasses there are"),
    RUNTIME_CLASS: ("/apis/node.k8s.io/v1/runtimeclasses", "what RuntimeClasses add to the pods"),
}
_KINDS: Final = ("Pod", EVENT, *_MORE, *dict.fromkeys(kind for kind, _ in WORKLOADS.values()))
#: The reason of the Events by which controllers say that the API server refused a pod.
FAILED_CREATE: Final = "FailedCreate"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadObjects:
    """A workload with what was read about it. `listed` are the kinds of which every object was read, so that none means none;
    none of a file, which may be a part of a cluster. `notes` say what is not known. `where` the objects were looked for, for
    messages."""

    kind: str
    key: PodKey
    by_kind: Mapping[str, Sequence[FoundObject]]
    listed: frozenset[str]
    where: str
    notes: tuple[str, ...] = ()
    _decoded: dict[str, list[Json]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.kind} {self.key}"

    def found(self) -> FoundObject:
        """The workload itself. Raises `ClusterError` if it does not exist."""
        for item in self.by_kind[self.kind]:
            if (item.namespace, item.name) == (self.key.namespace, self.key.name):
                return item
        elsewhere = sorted(item.namespace for item in self.by_kind[self.kind] if item.name == self.key.name)
        hint = f"; one of this name is in namespace {', '.join(elsewhere)}" if elsewhere else ""
        raise ClusterError(f"{self.kind.lower()} {self.key}", "", f"is not {self.where}{hint}")

    def of(self, kind: str) -> list[Json]:
        """The objects of a kind in the workload's namespace."""
        if kind not in self._decoded:
            items = (item for item in self.by_kind[kind] if item.namespace == self.key.namespace)
            self._decoded[kind] = [msgspec.json.decode(item.raw) for item in items]
        return self._decoded[kind]


def load_workload(path: str, what: str, key: PodKey) -> WorkloadObjects:
    """Reads the workload from a file or folder. Raises `ClusterError`."""
    by_kind, _ = objects_by_kind(documents_of(path), _KINDS)
    return WorkloadObjects(kind=WORKLOADS[what][0], key=key, by_kind=by_kind, listed=frozenset(), where="in the file")


async def fetch_workload(client: ApiPort, what: str, key: PodKey, report: Callable[[str], None]) -> WorkloadObjects:
    """Reads the workload from the API server. Raises `KubeError` if the workload or its pods may not be read."""
    objects, pages, notes = ApiObjects(client), list[msgspec.Raw](), list[str]()
    kind, api = WORKLOADS[what]

    async def read(path: str, fields: str = "") -> None:
        report(f"reading {path.rpartition('/')[2]}")
        pages.extend([msgspec.Raw(page) async for page in objects.pages(path, fields=fields)])

    inside = f"namespaces/{key.namespace}"
    await read(f"{api}/{inside}/{what}s", fields=f"metadata.name={key.name}")
    await read(f"/api/v1/{inside}/pods")
    if kind == "Deployment":
        await read(f"/apis/apps/v1/{inside}/replicasets")
    lists = {path.format(key.namespace): unknown for path, unknown in _MORE.values()}
    lists[f"/api/v1/{inside}/events"] = "what its controller says of pods that it could not make"
    for path, unknown in lists.items():
        try:
            await read(path, fields=f"reason={FAILED_CREATE}" if path.endswith("/events") else "")
        except StatusError as error:
            if error.code != HTTPStatus.FORBIDDEN:
                raise
            notes.append(f"{unknown}: the right to list {path.rpartition('/')[2]} is lacking")
    by_kind, listed = objects_by_kind(pages, _KINDS)
    return WorkloadObjects(kind=kind, key=key, by_kind=by_kind, listed=listed, where="in the cluster", notes=tuple(notes))


def owned_by(objects: Collection[Json], kind: str, names: Collection[str]) -> list[Json]:
    """The objects whose controller is of this kind and has one of these names."""

    def is_owned(each: Json) -> bool:
        owners = each["metadata"].get("ownerReferences") or ()
        return any(owner.get("controller") and owner.get("kind") == kind and owner.get("name") in names for owner in owners)

    return [each for each in objects if is_owned(each)]
