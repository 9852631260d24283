"""Plans the cleanup: for each API object the steps that take away what Slackwater has written. Pure functions over JSON
objects.

- `owns`, `owned_keys` and so on: which parts of an API object Slackwater wrote, by key and by field manager. The API server
  notes in `metadata.managedFields` who wrote which field
  (https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management). All our writes have one field manager.
- `pod_steps`, `node_steps` and so on: the steps for an object of each type.

Pods that are placed keep their node and their size, machines keep running, and nodes stay. Objects that only Slackwater makes
(ConfigMaps, Leases, Events, finished migrations) are deleted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from slackwater.adapters.kube.objects import PatchType
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
    SLACKWATER_GROUP,
    TARGET_NODE,
    TO_BE_DELETED_TAINT,
    TOUCHED,
)

Json = dict[str, Any]

#: The field manager of our writes: the product in our `User-Agent`.
MANAGER: Final = "slackwater"
#: The annotations that only Slackwater writes. Others with its prefix are people's own.
WRITTEN: Final = frozenset({PERMIT, PREEMPTING, TOUCHED, TARGET_NODE, CORDONED})
_PREFIX: Final = f"{SLACKWATER_GROUP}/"


def is_managed(item: Json) -> bool:
    """True if our field manager owns a field of the object."""
    return any(_ours(entry) for entry in _entries(item))


def last_written(item: Json) -> str | None:
    """When our field manager last wrote to the object, as the API server notes it; None if it owns nothing of it."""
    return max((entry["time"] for entry in _entries(item) if _ours(entry) and entry.get("time")), default=None)


def owns(item: Json, *path: str) -> bool:
    """True if our field manager owns the field. `path` is the path in `fieldsV1`, such as `f:status`, `f:nominatedNodeName`."""
    return any(_found(fields, path) is not None for fields in _fields(item))


def owned_keys(item: Json, *path: str) -> list[str]:
    """The keys that our field manager owns in the map at `path`, sorted."""
    maps = (found for fields in _fields(item) if (found := _found(fields, path)) is not None)
    return sorted({key.removeprefix("f:") for found in maps for key in found if key.startswith("f:")})


def written_annotations(item: Json) -> list[str]:
    """The object's annotations that Slackwater wrote, sorted."""
    return _written(item, "annotations")


def written_labels(item: Json) -> list[str]:
    """The object's labels with our prefix that Slackwater wrote, sorted."""
    return _written(item, "labels")


def user_keys(item: Json) -> list[str]:
    """The annotations and labels with our prefix that others wrote, sorted."""
    meta = item["metadata"]
    keys = {key for place in ("annotations", "labels") for key in meta.get(place) or () if key.startswith(_PREFIX)}
    return sorted(keys - {*written_annotations(item), *written_labels(item)})


def managers_without_ours(item: Json) -> list[Json]:
    """The new value of `managedFields`: the entries of others. If there are none, one empty entry, which resets the list."""
    return [entry for entry in _entries(item) if not _ours(entry)] or [{}]


def _written(item: Json, place: str) -> list[str]:
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


_DELETE_MACHINE: Final = f"{CLUSTER_API_GROUP}/delete-machine"
_ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
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
    steps: Callable[[Json], Iterator[Step]]
    whole: bool = False
    deletes: bool = False
    status: bool = False


def pod_steps(pod: Json) -> Iterator[Step]:
    """Returns the steps that remove what is ours from a pod: the scheduling gate, annotations, nomination and condition."""
    if any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates") or ()):
        patch = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
        yield Step(words=f"open gate {GATE}", patch=patch, how="strategic")
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
        yield Step(words=f"remove {' and '.join(words)}", part="/status", patch={"status": changed}, how="strategic")


def node_steps(node: Json) -> Iterator[Step]:
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
        yield Step(words=words, patch={"metadata": meta, "spec": spec})
    yield from metadata_steps(node, leave=CORDONED)


def metadata_steps(item: Json, *, leave: str = "", more: frozenset[str] = frozenset()) -> Iterator[Step]:
    """Returns the step that removes our annotations and labels from an object.

    `more` are annotations without our prefix, which are removed if our field manager owns them. The annotation `leave` stays.
    """
    mine = more & set(owned_keys(item, "f:metadata", "f:annotations"))
    found = {"annotations": [*written_annotations(item), *sorted(mine)], "labels": written_labels(item)}
    keys = {place: dict.fromkeys(key for key in keys if key != leave) for place, keys in found.items()}
    if any(keys.values()):
        named = ", ".join(key for each in keys.values() for key in each)
        yield Step(words=f"remove {named}", patch={"metadata": {place: each for place, each in keys.items() if each}})


def machine_steps(machine: Json) -> Iterator[Step]:
    """Returns the step for a Machine. It also removes the annotation that marks the Machine for deletion, if we wrote it."""
    return metadata_steps(machine, more=frozenset({_DELETE_MACHINE}))


def migration_steps(migration: Json) -> Iterator[Step]:
    """Returns the steps for a migration. One of ours that has ended is deleted; any other only loses our metadata."""
    if owns(migration, "f:spec", ".") and (migration.get("status") or {}).get("phase") in _ENDED:
        yield Step(words="delete")
    else:
        yield from metadata_steps(migration)


def made_steps(item: Json) -> Iterator[Step]:
    """Returns the steps for an object that we may have created: it is deleted, or if others created it, loses our keys.

    Whoever creates an object owns its data or spec as a map, not only keys in it.
    """
    if any(owns(item, part, ".") for part in ("f:data", "f:spec")) or owns(item, "f:reportingController"):
        yield Step(words="delete")
    elif keys := owned_keys(item, "f:data"):
        yield Step(words=f"remove {', '.join(keys)}", patch={"data": dict.fromkeys(keys)})


def status_steps(item: Json) -> Iterator[Step]:
    """Returns the step that removes the status fields that our field manager owns."""
    if keys := owned_keys(item, "f:status"):
        yield Step(words=f"remove status {', '.join(keys)}", part="/status", patch={"status": dict.fromkeys(keys)})


def last_step(item: Json) -> Iterator[Step]:
    """Returns the step, the last one, that removes our entries from `managedFields`.

    What remains of our writes, such as a pod's size, has no manager afterwards.
    """
    if is_managed(item):
        version = item["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version, "managedFields": managers_without_ours(item)}}
        yield Step(words="remove field manager slackwater", patch=patch)


#: Everything that the service has the right to write; `tests/unit/app/test_cleanup.py` compares it with the RBAC rules.
TYPES: Final = (
    CleanedType(name="pods", group="", steps=pod_steps, whole=True, status=True),
    CleanedType(name="nodes", group="", steps=node_steps, whole=True),
    CleanedType(name="virtualmachines", group=NEON_VM_GROUP, steps=metadata_steps),
    CleanedType(name="virtualmachinemigrations", group=NEON_VM_GROUP, steps=migration_steps, whole=True, deletes=True),
    CleanedType(name="capacitybuffers", group=CAPACITY_BUFFER_GROUP, steps=status_steps, status=True),
    CleanedType(name="machines", group=CLUSTER_API_GROUP, steps=machine_steps),
    CleanedType(name="machinedeployments", group=CLUSTER_API_GROUP, steps=metadata_steps),
    CleanedType(name="machinesets", group=CLUSTER_API_GROUP, steps=metadata_steps),
    CleanedType(name="machinepools", group=CLUSTER_API_GROUP, steps=metadata_steps),
    CleanedType(name="events", group="events.k8s.io", steps=made_steps, deletes=True),
    CleanedType(name="configmaps", group="", steps=made_steps, deletes=True),
    CleanedType(name="leases", group="coordination.k8s.io", steps=made_steps, whole=True, deletes=True),
)
