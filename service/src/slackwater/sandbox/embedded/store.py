"""Stores the embedded API server's objects with their versions, and the history of their changes, as etcd and the watch cache
do.

Stored objects are immutable; a change stores a new object. The store checks neither contents nor rights.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import anyio
import msgspec

from slackwater.sandbox.embedded.faults import Json, expired, not_found
from slackwater.sandbox.embedded.kinds import KINDS, ResourceKind

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
#: (namespace, name).
Key = tuple[str, str]

#: How many changes of one type are kept for watches, about as many as in the watch cache.
_KEPT: Final = 5_000
_FIRST_REVISION: Final = 100


class StoredObject(NamedTuple):
    """One version of an object. `raw` is the JSON of `body`."""

    body: Json
    raw: bytes
    revision: int


class Change(NamedTuple):
    """One change in the history. `now` is the object after the change (for a deletion, its last state), `before` the previous
    version; None for an addition."""

    revision: int
    type: ChangeType
    key: Key
    now: StoredObject
    before: StoredObject | None


@dataclass(slots=True)
class _ObjectsOfType:
    """The objects of one type and the history of their changes. Changes up to version `compacted` have been dropped."""

    objects: dict[Key, StoredObject] = field(default_factory=dict)
    revisions: list[int] = field(default_factory=list)
    history: list[Change] = field(default_factory=list)
    compacted: int = 0
    changed: anyio.Event = field(default_factory=anyio.Event)


class Store:
    """Stores the objects of all types. Calls the callbacks in `on_change` immediately after each change."""

    def __init__(self) -> None:
        self.revision = _FIRST_REVISION
        self.on_change: list[Callable[[ResourceKind, Change], None]] = []
        self._objects_of_kind = {kind: _ObjectsOfType() for kind in KINDS}

    def find(self, kind: ResourceKind, key: Key) -> StoredObject | None:
        return self._objects_of_kind[kind].objects.get(key)

    def get(self, kind: ResourceKind, key: Key) -> StoredObject:
        """The object with this key. Raises `Fault` (404)."""
        found = self._objects_of_kind[kind].objects.get(key)
        if found is None:
            raise not_found(kind.full_name, key[1])
        return found

    def all(self, kind: ResourceKind, namespace: str = "") -> list[StoredObject]:
        """All objects of the type in the namespace ("": in all), sorted by key as in etcd."""
        objects = self._objects_of_kind[kind].objects
        return [objects[key] for key in sorted(objects) if not namespace or key[0] == namespace]

    def each(self, kind: ResourceKind) -> Iterator[StoredObject]:
        """All objects of the type, unsorted. The store must not change during the iteration."""
        return iter(self._objects_of_kind[kind].objects.values())

    def put(self, kind: ResourceKind, key: Key, body: Json) -> StoredObject:
        """Stores `body` with a new `resourceVersion`, and returns the stored object."""
        stored_objects = self._objects_of_kind[kind]
        before = stored_objects.objects.get(key)
        now = stored_objects.objects[key] = self._versioned(body)
        self._record(kind, Change(now.revision, "ADDED" if before is None else "MODIFIED", key, now, before))
        return now

    def remove(self, kind: ResourceKind, key: Key) -> StoredObject:
        """Removes the object. Returns its last state, with the version of the removal, as watches get it."""
        last = self._objects_of_kind[kind].objects.pop(key)
        now = self._versioned(last.body)
        self._record(kind, Change(now.revision, "DELETED", key, now, last))
        return now

    def _versioned(self, body: Json) -> StoredObject:
        self.revision += 1
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.revision)}}
        return StoredObject(body, msgspec.json.encode(body), self.revision)

    def _record(self, kind: ResourceKind, change: Change) -> None:
        stored_objects = self._objects_of_kind[kind]
        stored_objects.revisions.append(change.revision)
        stored_objects.history.append(change)
        if len(stored_objects.history) >= 2 * _KEPT:
            self._forget(stored_objects, _KEPT)
        stored_objects.changed.set()
        stored_objects.changed = anyio.Event()
        for notify in self.on_change:
            notify(kind, change)

    def compact(self) -> None:
        """Drops all changes of each type."""
        for stored_objects in self._objects_of_kind.values():
            self._forget(stored_objects, 0)
            stored_objects.changed.set()
            stored_objects.changed = anyio.Event()

    def _forget(self, stored_objects: _ObjectsOfType, keep: int) -> None:
        count = len(stored_objects.history) - keep
        if count > 0:
            stored_objects.compacted = stored_objects.revisions[count - 1]
            del stored_objects.history[:count], stored_objects.revisions[:count]

    def since(self, kind: ResourceKind, revision: int) -> list[Change]:
        """The changes of the type after a version. Raises `Fault` (410) if some of them were dropped."""
        stored_objects = self._objects_of_kind[kind]
        if revision < stored_objects.compacted:
            raise expired(revision, stored_objects.compacted)
        return stored_objects.history[bisect_right(stored_objects.revisions, revision) :]

    def next_change(self, kind: ResourceKind) -> anyio.Event:
        """An event that is set at the next change of the type."""
        return self._objects_of_kind[kind].changed
