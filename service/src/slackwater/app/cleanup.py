"""The cleanup: reads every resource type that the service writes, and removes what Slackwater has written.

    list -> steps of each object -> patches and deletions -> list again: what is left?

An object that changes meanwhile is read and planned again. Nothing else in the cluster is touched.

- `owns`, `owned_keys` and so on: which parts of an API object Slackwater wrote, by key and by field manager. The API server
  notes in `metadata.managedFields` who wrote which field
  (https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management). All our writes have one field manager.
- `pod_steps`, `node_steps` and so on: the steps for an object of each type. Pure functions over JSON objects.
- `Cleaner` carries them out.

Pods that are placed keep their node and their size, machines keep running, and nodes stay. Objects that only Slackwater makes
(ConfigMaps, Leases, Events, finished migrations) are deleted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Final

import anyio

from slackwater.adapters.api_calls import ApiPort
from slackwater.adapters.cloud.clusterapi.objects import DELETE_MACHINE
from slackwater.adapters.kube.decode import ENDED
from slackwater.adapters.kube.errors import StatusError
from slackwater.adapters.kube.objects import ApiObjects, Json, PatchType, seconds_since
from slackwater.app.running_service import find_replicas
from slackwater.model.objects import VICTIM_MESSAGE
from slackwater_protocol.names import (
    CAPACITY_BUFFER_GROUP,
    CLUSTER_API_GROUP,
    CORDONED,
    DELETION_CANDIDATE_TAINT,
    GATE,
    NEON_VM_GROUP,
    PERMIT,
    PREEMPTING,
    SCHEDULER_NAMESPACE,
    SLACKWATER_GROUP,
    TARGET_NODE,
    TO_BE_DELETED_TAINT,
    TOUCHED,
)

#: The field manager of our writes: the product in our `User-Agent`.
MANAGER: Final = "slackwater"
#: The annotations that only Slackwater writes. Others with its prefix are people's own.
WRITTEN: Final = frozenset({PERMIT, PREEMPTING, TOUCHED, TARGET_NODE, CORDONED})
_PREFIX: Final = f"{SLACKWATER_GROUP}/"


def is_managed(item: Json) -> bool:
    """True if our field manager owns a field of the object."""
    return any(_ours(entry) for entry in _entries(item))


def owns(item: Json, *path: str) -> bool:
    """True if our field manager owns the field. `path` is the path in `fieldsV1`, such as `f:status`, `f:nominatedNodeName`."""
    return any(_found(fields, path) is not None for fields in _fields(item))


def owned_keys(item: Json, *path: str) -> list[str]:
    """The keys that our field manager owns in the map at `path`, sorted."""
    maps = (found for fields in _fields(item) if (found := _found(fields, path)) is not None)
    return sorted({key.removeprefix("f:") for found in maps for key in found if key.startswith("f:")})


def user_keys(item: Json) -> list[str]:
    """The annotations and labels with our prefix that others wrote, sorted."""
    meta = item["metadata"]
    keys = {key for place in ("annotations", "labels") for key in meta.get(place) or () if key.startswith(_PREFIX)}
    return sorted(keys - {*_written(item, "annotations"), *_written(item, "labels")})


def managers_without_ours(item: Json) -> list[Json]:
    """The new value of `managedFields`: the entries of others. If there are none, one empty entry, which resets the list."""
    return [entry for entry in _entries(item) if not _ours(entry)] or [{}]


def _written(item: Json, place: str) -> list[str]:
    """The object's "annotations" or "labels" that Slackwater wrote, sorted."""
    mine = {key for key in owned_keys(item, "f:metadata", f"f:{place}") if key.startswith(_PREFIX)}
    return sorted((mine | WRITTEN) & set(item["metadata"].get(place) or ()))


def _entries(item: Json) -> list[Json]:
    return item["metadata"].get("managedFields") or []


def _ours(entry: Json) -> bool:
    return bool(entry.get("manager") == MANAGER)


def _fields(item: Json) -> Iterator[Json]:
    return (entry.get("fieldsV1") or {} for entry in _entries(item) if _ours(entry))


def _found(fields: Json, path: tuple[str, ...]) -> Json | None:
    found: Json | None = fields
    for step in path:
        found = None if found is None else found.get(step)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupStep:
    """One request: a patch of the object or of its subresource `part`; without a patch the object is deleted."""

    words: str
    part: str = ""
    patch: Json | None = None
    how: PatchType = "merge"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedType:
    """One resource type that Slackwater writes. `whole`: the steps need more of an object than its metadata. `deletes`: a step
    may delete the object. `status`: a step may patch its status."""

    name: str
    group: str
    steps: Callable[[Json], Iterator[CleanupStep]]
    whole: bool = False
    deletes: bool = False
    status: bool = False


def pod_steps(pod: Json) -> Iterator[CleanupStep]:
    """Returns the steps that remove what is ours from a pod: the scheduling gate, annotations, nomination and condition."""
    if any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates") or ()):
        patch = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
        yield CleanupStep(words=f"open gate {GATE}", patch=patch, how="strategic")
    yield from metadata_steps(pod)
    status = pod.get("status") or {}
    changed: Json = {}
    words: list[str] = []
    if "nominatedNodeName" in status and owns(pod, "f:status", "f:nominatedNodeName"):
        changed["nominatedNodeName"] = None
        words.append("nomination")
    victim = [each["type"] for each in status.get("conditions") or () if each.get("message", "").startswith(VICTIM_MESSAGE)]
    if victim:
        changed["conditions"] = [{"$patch": "delete", "type": each} for each in victim]
        words.append(f"condition {', '.join(victim)}")
    if changed:
        yield CleanupStep(words=f"remove {' and '.join(words)}", part="/status", patch={"status": changed}, how="strategic")


def node_steps(node: Json) -> Iterator[CleanupStep]:
    """Returns the steps that remove the two scale-down taints, our cordon and our annotations and labels from a node.

    The patch replaces all taints, so it names the resource version that was read.
    """
    taints = node["spec"].get("taints") or []
    ours = [taint["key"] for taint in taints if taint["key"] in {TO_BE_DELETED_TAINT, DELETION_CANDIDATE_TAINT}]
    cordoned = CORDONED in (node["metadata"].get("annotations") or {})
    if ours or cordoned:
        meta: Json = {"resourceVersion": node["metadata"]["resourceVersion"]}
        spec: Json = {"taints": [taint for taint in taints if taint["key"] not in ours]}
        words = f"remove taint {', '.join(ours)}" if ours else ""
        if cordoned:
            meta["annotations"], spec["unschedulable"] = {CORDONED: None}, None
            words = f"{words} and uncordon".removeprefix(" and ")
        yield CleanupStep(words=words, patch={"metadata": meta, "spec": spec})
    yield from metadata_steps(node, leave=CORDONED)


def metadata_steps(item: Json, *, leave: str = "", more: frozenset[str] = frozenset()) -> Iterator[CleanupStep]:
    """Returns the step that removes our annotations and labels from an object.

    `more` are annotations without our prefix, which are removed if our field manager owns them. The annotation `leave` stays.
    """
    mine = more & set(owned_keys(item, "f:metadata", "f:annotations"))
    found = {"annotations": [*_written(item, "annotations"), *sorted(mine)], "labels": _written(item, "labels")}
    keys = {place: dict.fromkeys(key for key in keys if key != leave) for place, keys in found.items()}
    if any(keys.values()):
        named = ", ".join(key for each in keys.values() for key in each)
        yield CleanupStep(words=f"remove {named}", patch={"metadata": {place: each for place, each in keys.items() if each}})


def migration_steps(migration: Json) -> Iterator[CleanupStep]:
    """Returns the steps for a migration. One of ours that has ended is deleted; any other only loses our metadata."""
    if owns(migration, "f:spec", ".") and (migration.get("status") or {}).get("phase") in ENDED:
        yield CleanupStep(words="delete")
    else:
        yield from metadata_steps(migration)


def made_steps(item: Json) -> Iterator[CleanupStep]:
    """Returns the steps for an object that we may have created: it is deleted, or if others created it, loses our keys.

    Whoever creates an object owns its data or spec as a map, not only keys in it.
    """
    if any(owns(item, part, ".") for part in ("f:data", "f:spec")) or owns(item, "f:reportingController"):
        yield CleanupStep(words="delete")
    elif keys := owned_keys(item, "f:data"):
        yield CleanupStep(words=f"remove {', '.join(keys)}", patch={"data": dict.fromkeys(keys)})


def status_steps(item: Json) -> Iterator[CleanupStep]:
    """Returns the step that removes the status fields that our field manager owns."""
    if keys := owned_keys(item, "f:status"):
        yield CleanupStep(words=f"remove status {', '.join(keys)}", part="/status", patch={"status": dict.fromkeys(keys)})


def last_step(item: Json) -> Iterator[CleanupStep]:
    """Returns the step, the last one, that removes our entries from `managedFields`.

    What remains of our writes, such as a pod's size, has no manager afterwards.
    """
    if is_managed(item):
        version = item["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version, "managedFields": managers_without_ours(item)}}
        yield CleanupStep(words="remove field manager slackwater", patch=patch)


#: Everything that the service has the right to write; `tests/unit/app/test_cleanup.py` compares it with the RBAC rules.
TYPES: Final = (
    CleanedType(name="pods", group="", steps=pod_steps, whole=True, status=True),
    CleanedType(name="nodes", group="", steps=node_steps, whole=True),
    CleanedType(name="virtualmachines", group=NEON_VM_GROUP, steps=metadata_steps),
    CleanedType(name="virtualmachinemigrations", group=NEON_VM_GROUP, steps=migration_steps, whole=True, deletes=True),
    CleanedType(name="capacitybuffers", group=CAPACITY_BUFFER_GROUP, steps=status_steps, status=True),
    CleanedType(name="machines", group=CLUSTER_API_GROUP, steps=partial(metadata_steps, more=frozenset({DELETE_MACHINE}))),
    CleanedType(name="machinedeployments", group=CLUSTER_API_GROUP, steps=metadata_steps),
    CleanedType(name="machinesets", group=CLUSTER_API_GROUP, steps=metadata_steps),
    CleanedType(name="machinepools", group=CLUSTER_API_GROUP, steps=metadata_steps),
    CleanedType(name="events", group="events.k8s.io", steps=made_steps, deletes=True),
    CleanedType(name="configmaps", group="", steps=made_steps, deletes=True),
    CleanedType(name="leases", group="coordination.k8s.io", steps=made_steps, whole=True, deletes=True),
)


#: Something that wrote more recently may still run. Idle replicas write less often, but their Pods are seen.
_WRITTEN_SECONDS: Final = 60.0
_ATTEMPTS: Final = 5
_WIDTH: Final = 8


class StillRuns(Exception):
    """A replica of the service, or Cluster Autoscaler, still runs. The message says how that was seen, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedObject:
    """What was done, or would be done, to one object."""

    kind: str
    name: str
    words: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Cleanup:
    """The result of a cleanup. `absent`: types that are not installed. `left`: objects that still have something of ours.
    `user_keys`: keys with our prefix that people wrote, by object; they stay."""

    changes: list[CleanedObject] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    user_keys: dict[str, list[str]] = field(default_factory=dict)


Report = Callable[[CleanedObject], None]


class Cleaner:
    """Cleans one cluster. `now` is compared with the times in Leases."""

    def __init__(self, client: ApiPort, *, now: datetime, dry_run: bool, report: Report = lambda _: None) -> None:
        self._client = client
        self._objects = ApiObjects(client)
        self._now = now
        self._dry_run = dry_run
        self._report = report
        self._result = Cleanup()

    async def run(self, *, force: bool) -> Cleanup:
        """Cleans all types, then lists them again to find what is left. Raises `KubeError`.

        Raises `StillRuns`, before anything is changed, if the service or Cluster Autoscaler still runs; not with `force`."""
        types = [(cleaned, path) for cleaned in TYPES if (path := await self._path(cleaned)) is not None]
        if not force:
            await self._check_nothing_runs(next(path for cleaned, path in types if cleaned.name == "leases"))
            for cleaned, path in types:
                await self._check_nothing_writes(cleaned, path)
        for cleaned, path in types:
            await self._clean(cleaned, path)
        if not self._dry_run:
            for cleaned, path in types:
                async for item in self._objects.each(path, metadata_only=not cleaned.whole):
                    if is_managed(item) or any(cleaned.steps(item)):
                        self._result.left.append(f"{cleaned.name} {_name(item)}")
        return self._result

    async def _path(self, cleaned: CleanedType) -> str | None:
        """The path of the type's objects, in the API version that the server prefers; None if the type is not installed."""
        prefix = "/api/v1"
        if cleaned.group:
            found = await self._objects.get(f"/apis/{cleaned.group}")
            prefix = "" if found is None else f"/apis/{found['preferredVersion']['groupVersion']}"
        known = await self._objects.get(prefix) if prefix else None
        if known is None or all(each["name"] != cleaned.name for each in known["resources"]):
            self._result.absent.append(cleaned.name)
            return None
        return f"{prefix}/{cleaned.name}"

    async def _check_nothing_writes(self, cleaned: CleanedType, path: str) -> None:
        async for item in self._objects.each(path, metadata_only=True):
            written = max((entry["time"] for entry in _entries(item) if _ours(entry) and entry.get("time")), default=None)
            age = seconds_since(written, self._now)
            if age < _WRITTEN_SECONDS:
                raise StillRuns(
                    f"Slackwater wrote to {cleaned.name} {_name(item)} {age:.0f} s ago, so it may still run; "
                    f"stop it and try again in {_WRITTEN_SECONDS:.0f} s, or if it has been stopped, use --force"
                )

    async def _check_nothing_runs(self, leases_path: str) -> None:
        for replica in (await find_replicas(self._client, None)).running:
            raise StillRuns(f"Pod {replica.pod} runs the service; stop it (helm uninstall, or scale it to 0), or use --force")
        async for lease in self._objects.each(leases_path):
            age = lease_age(lease, self._now)
            if age is not None and owns(lease, "f:spec", "f:renewTime"):
                seen = f"Lease {_name(lease)} was renewed {age:.0f} s ago"
                raise StillRuns(f"{seen}: a replica still runs; stop it, or use --force")
        age = await status_age(self._objects, self._now)
        if age is not None:
            raise StillRuns(
                f"Cluster Autoscaler wrote its status ConfigMap {age:.0f} s ago, and its taints on nodes look as ours; "
                "wait until it removes no node, then use --force"
            )

    async def _clean(self, cleaned: CleanedType, path: str) -> None:
        limiter = anyio.CapacityLimiter(_WIDTH)
        prefix, _, plural = path.rpartition("/")

        async def one(item: Json) -> None:
            meta = item["metadata"]
            inside = f"/namespaces/{meta['namespace']}" if meta.get("namespace") else ""
            async with limiter:
                await self._clean_object(cleaned, f"{prefix}{inside}/{plural}/{meta['name']}", item)

        found = [item async for item in self._objects.each(path, metadata_only=not cleaned.whole)]
        async with anyio.create_task_group() as group:
            for item in found:
                if keys := user_keys(item):
                    self._result.user_keys[f"{cleaned.name} {_name(item)}"] = keys
                if any(cleaned.steps(item)) or is_managed(item):
                    group.start_soon(one, item)

    async def _clean_object(self, cleaned: CleanedType, path: str, item: Json) -> None:
        words = [step.words for step in (*cleaned.steps(item), *last_step(item))]
        if not self._dry_run:
            await self._until_done(cleaned, path, item)
        change = CleanedObject(kind=cleaned.name, name=_name(item), words=("delete",) if "delete" in words else tuple(words))
        self._result.changes.append(change)
        self._report(change)

    async def _until_done(self, cleaned: CleanedType, path: str, item: Json) -> None:
        """Carries out the steps of one object. If others change the object meanwhile, it is read and planned again."""
        for attempt in range(_ATTEMPTS):
            try:
                await self._carry_out(cleaned, path, item)
            except StatusError as error:
                if error.code not in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND} or attempt == _ATTEMPTS - 1:
                    raise
            else:
                return
            again = await self._objects.get(path)
            if again is None:
                return
            item = again

    async def _carry_out(self, cleaned: CleanedType, path: str, item: Json) -> None:
        """Sends the patches of one object, one after another. Each changes the object, so it is read again before its
        `managedFields` are written."""
        for step in cleaned.steps(item):
            if step.patch is None:
                await self._objects.delete(path, {"uid": item["metadata"]["uid"]})
                return
            await self._objects.patch(path + step.part, step.patch, step.how)
        now = await self._objects.get(path)
        for step in () if now is None else last_step(now):
            await self._objects.patch(path, step.patch, step.how)


def _name(item: Json) -> str:
    meta = item["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


#: A Lease renewed more recently belongs to a process that lives; those of autoscalers last 15 s.
LEASE_SECONDS: Final = 60.0
#: Cluster Autoscaler writes its status in each loop, about every ten seconds. A loop may take minutes.
STATUS_SECONDS: Final = 600.0
#: The annotation of the status ConfigMap with the time of the last loop.
LAST_UPDATED: Final = "cluster-autoscaler.kubernetes.io/last-updated"


async def status_age(objects: ApiObjects, now: datetime, name: str = "cluster-autoscaler-status") -> float | None:
    """`age_of_status` of the ConfigMap with this name."""
    return age_of_status(await objects.get(f"/api/v1/namespaces/{SCHEDULER_NAMESPACE}/configmaps/{name}"), now)


def age_of_status(status: Json | None, now: datetime) -> float | None:
    """How many seconds ago Cluster Autoscaler wrote this status ConfigMap; None if it did not within `STATUS_SECONDS`; negative
    if its clock is ahead, by less than that. What Slackwater wrote last does not count. It may have made the ConfigMap that
    Cluster Autoscaler writes now."""
    if status is None or owns(status, "f:data", "f:status"):
        return None
    annotations = status["metadata"].get("annotations") or {}
    age = seconds_since(annotations.get(LAST_UPDATED), now)
    return age if abs(age) < STATUS_SECONDS else None


def lease_age(lease: Json, now: datetime) -> float | None:
    """How many seconds ago the Lease was renewed; None if nobody holds it, or not within `LEASE_SECONDS`."""
    spec = lease.get("spec") or {}
    age = seconds_since(spec.get("renewTime"), now)
    return age if spec.get("holderIdentity") and age < LEASE_SECONDS else None
