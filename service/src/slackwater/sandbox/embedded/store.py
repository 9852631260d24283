"""What etcd and the watch cache are to an API server: objects with versions, one history, and those who wait for it.

Objects that are stored are never changed; a change stores another. Deliberately absent: what may be written, and by whom.
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

#: Changes of one type that are kept for watches; etcd's watch cache keeps about as many.
_KEPT: Final = 5_000
_FIRST_REVISION: Final = 100


class Stored(NamedTuple):
    """One version of an object. `raw` is its JSON."""

    body: Json
    raw: bytes
    revision: int


class Change(NamedTuple):
    """One entry of the history. `before` is what was there, None for an addition."""

    revision: int
    type: ChangeType
    key: Key
    now: Stored
    before: Stored | None


@dataclass(slots=True)
class _Shelf:
    """Everything of one type. Versions up to `compacted` cannot be watched from any more."""

    objects: dict[Key, Stored] = field(default_factory=dict)
    revisions: list[int] = field(default_factory=list)
    history: list[Change] = field(default_factory=list)
    compacted: int = 0
    changed: anyio.Event = field(default_factory=anyio.Event)


class Store:
    """`on_change` are called after each change, at once."""

    def __init__(self) -> None:
        self.revision = _FIRST_REVISION
        self.on_change: list[Callable[[ResourceKind, Change], None]] = []
        self._shelves = {kind: _Shelf() for kind in KINDS}

    def find(self, kind: ResourceKind, key: Key) -> Stored | None:
        return self._shelves[kind].objects.get(key)

    def get(self, kind: ResourceKind, key: Key) -> Stored:
        """Raises `Fault` (404)."""
        found = self._shelves[kind].objects.get(key)
        if found is None:
            raise not_found(kind.full_name, key[1])
        return found

    def all(self, kind: ResourceKind, namespace: str = "") -> list[Stored]:
        """In the order of their keys, as etcd has them."""
        objects = self._shelves[kind].objects
        return [objects[key] for key in sorted(objects) if not namespace or key[0] == namespace]

    def each(self, kind: ResourceKind) -> Iterator[Stored]:
        """In no order, and without a copy."""
        return iter(self._shelves[kind].objects.values())

    def put(self, kind: ResourceKind, key: Key, body: Json) -> Stored:
        """Stores another version, which becomes `body`'s."""
        shelf = self._shelves[kind]
        before = shelf.objects.get(key)
        now = shelf.objects[key] = self._versioned(body)
        self._record(kind, Change(now.revision, "ADDED" if before is None else "MODIFIED", key, now, before))
        return now

    def remove(self, kind: ResourceKind, key: Key) -> Stored:
        """What watches learn of it: the last state with the version of its end."""
        last = self._shelves[kind].objects.pop(key)
        now = self._versioned(last.body)
        self._record(kind, Change(now.revision, "DELETED", key, now, last))
        return now

    def _versioned(self, body: Json) -> Stored:
        self.revision += 1
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.revision)}}
        return Stored(body, msgspec.json.encode(body), self.revision)

    def _record(self, kind: ResourceKind, change: Change) -> None:
        shelf = self._shelves[kind]
        shelf.revisions.append(change.revision)
        shelf.history.append(change)
        if len(shelf.history) >= 2 * _KEPT:
            self._forget(shelf, _KEPT)
        shelf.changed.set()
        shelf.changed = anyio.Event()
        for told in self.on_change:
            told(kind, change)

    def compact(self, keep: int = 0) -> None:
        """Forgets all but the newest `keep` changes of each type."""
        for shelf in self._shelves.values():
            self._forget(shelf, keep)
            shelf.changed.set()
            shelf.changed = anyio.Event()

    def _forget(self, shelf: _Shelf, keep: int) -> None:
        count = len(shelf.history) - keep
        if count > 0:
            shelf.compacted = shelf.revisions[count - 1]
            del shelf.history[:count], shelf.revisions[:count]

    def since(self, kind: ResourceKind, revision: int) -> list[Change]:
        """What came after it. Raises `Fault` (410) where that is forgotten."""
        shelf = self._shelves[kind]
        if revision < shelf.compacted:
            raise expired(revision, shelf.compacted)
        return shelf.history[bisect_right(shelf.revisions, revision) :]

    def next_change(self, kind: ResourceKind) -> anyio.Event:
        """Set when the type changes next."""
        return self._shelves[kind].changed
