"""Tracks what an event source has emitted, and computes the events that bring its reader up to date: only the difference.

Pure. Keeps the key, UID and version of each object; the reader keeps the objects themselves.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from slackwater.adapters.kube.resource_type import Found
from slackwater.model.events import SourceEvent

K = TypeVar("K", bound=Hashable)


class KnownObjects(Generic[K]):
    """The objects that an event source has emitted so far. For a list, call `begin_list`, `listed` for each object, then
    `end_list`.
    """

    def __init__(self, gone: Callable[[K, str], SourceEvent]) -> None:
        self._gone = gone
        self._known: dict[K, tuple[str, int]] = {}  # -> (UID, version)
        #: Known objects that the current list has not contained so far, in the order of emission; empty between lists.
        self._missing: dict[K, None] = {}

    def __len__(self) -> int:
        return len(self._known)

    def begin_list(self) -> None:
        """Starts a list; starts it again if the last one broke off."""
        self._missing = dict.fromkeys(self._known)

    def listed(self, found: Found[K]) -> list[SourceEvent]:
        """Events for an object of a list. A list is authoritative, so an object is emitted even if it is older than the known
        one.

        That happens after etcd was restored from a backup. The object is then deleted first, because the reader ignores older
        versions.
        """
        self._missing.pop(found.key, None)
        known = self._known.get(found.key)
        if known is not None and known[0] == found.uid and known[1] > found.version:
            return [*self.deleted(found.key, found.uid), *self.watched(found)]
        return self.watched(found)

    def watched(self, found: Found[K]) -> list[SourceEvent]:
        """Events for an object that a watch reports as added or modified; none if the known object is the same or newer."""
        known = self._known.get(found.key)
        replaced = known is not None and known[0] != found.uid
        if known is not None and not replaced and 0 < found.version <= known[1]:
            return []
        self._known[found.key] = (found.uid, found.version)
        if known is None or not replaced:
            return [found.event]
        return [self._gone(found.key, known[0]), found.event]

    def unreadable(self, key: K) -> None:
        """Notes an object of a list that cannot be read: it exists, so its last emitted version stays valid."""
        self._missing.pop(key, None)

    def deleted(self, key: K, uid: str) -> list[SourceEvent]:
        """Events for an object that a watch reports as deleted; none if it was never emitted, or has a successor already."""
        known = self._known.get(key)
        if known is None or known[0] != uid:
            return []
        del self._known[key]
        return [self._gone(key, uid)]

    def end_list(self) -> Iterator[SourceEvent]:
        """Events for the known objects that the list did not contain: they are gone."""
        missing, self._missing = self._missing, {}
        for key in missing:
            yield from self.deleted(key, self._known[key][0])
