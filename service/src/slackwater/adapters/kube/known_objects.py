"""What an event source has given out so far, and which events bring its reader up to date: the difference, never the whole.

Pure. Small for each object: its key, UID and version; the objects themselves are the reader's.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from slackwater.adapters.kube.resource_type import Found
from slackwater.model.events import SourceEvent

K = TypeVar("K", bound=Hashable)


class KnownObjects(Generic[K]):
    """The reader's state, seen from the event source. A list is `begin_list`, `listed` for each object, `end_list`."""

    def __init__(self, gone: Callable[[K, str], SourceEvent]) -> None:
        self._gone = gone
        self._known: dict[K, tuple[str, int]] = {}  # -> (UID, version)
        #: Known objects that the list under way has not brought, in the order given out; empty between lists.
        self._missing: dict[K, None] = {}

    def __len__(self) -> int:
        return len(self._known)

    def begin_list(self) -> None:
        """Also begins it again, where the last one broke off."""
        self._missing = dict.fromkeys(self._known)

    def listed(self, found: Found[K]) -> list[SourceEvent]:
        """For an object of a list. A list is the truth: what it shows is given out even where it is older than what is known.

        That happens when etcd was restored from a backup; the reader then has to forget first, as it ignores what is older.
        """
        self._missing.pop(found.key, None)
        known = self._known.get(found.key)
        if known is not None and known[0] == found.uid and known[1] > found.version:
            return [*self.deleted(found.key, found.uid), *self.watched(found)]
        return self.watched(found)

    def watched(self, found: Found[K]) -> list[SourceEvent]:
        """For an object that a watch shows added or modified: nothing where it is known, or newer than that."""
        known = self._known.get(found.key)
        replaced = known is not None and known[0] != found.uid
        if known is not None and not replaced and 0 < found.version <= known[1]:
            return []
        self._known[found.key] = (found.uid, found.version)
        if known is None or not replaced:
            return [found.event]
        return [self._gone(found.key, known[0]), found.event]

    def unreadable(self, key: K) -> None:
        """For an object of a list that cannot be read: it is there, so what was last given out of it stands."""
        self._missing.pop(key, None)

    def deleted(self, key: K, uid: str) -> list[SourceEvent]:
        """For an object that a watch shows deleted: nothing where it was never given out, or has a successor already."""
        known = self._known.get(key)
        if known is None or known[0] != uid:
            return []
        del self._known[key]
        return [self._gone(key, uid)]

    def end_list(self) -> Iterator[SourceEvent]:
        """The end of each object that the list did not bring."""
        missing, self._missing = self._missing, {}
        for key in missing:
            yield from self.deleted(key, self._known[key][0])
