"""Turns objects of lists and lines of watches into events, and finds the version to continue from.

- `LineReader`: reads one resource type.
- `KnownObjects`: the objects that were emitted; with them a list becomes only the events that differ.

Pure except for the callback that reports a broken object. Invariant: a broken object never ends the stream. It becomes an event
if its type has one for it, otherwise it is skipped. A line that ends the stream loses none of the lines before it.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec

from slackwater.adapters.api_objects import ObjectDecoder
from slackwater.adapters.kube.decode import read_meta, version_number
from slackwater.adapters.kube.errors import (
    UNREADABLE,
    HistoryWentBack,
    KubeError,
    MalformedAnswer,
    StatusError,
    read_status,
    shortened,
)
from slackwater.adapters.kube.resource_type import Found, ResourceType
from slackwater.adapters.kube.structs import MetaWire, WatchWire
from slackwater.model.events import SourceEvent

K = TypeVar("K", bound=Hashable)


class KnownObjects(Generic[K]):
    """The objects that an event source has emitted so far. Computes the events that bring its reader up to date: only the
    difference.

    For a list, call `begin_list`, `listed` for each object, then `end_list`. It keeps the key, UID and version of each object;
    the reader keeps the objects themselves.
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

        A list has older objects after etcd was restored from a backup. A deletion is then emitted first, because the reader
        ignores older versions.
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


_LINE: Final = ObjectDecoder(WatchWire)


@dataclass(slots=True, kw_only=True)
class DecodedLines:
    """The result of decoding some lines of a watch: events, and the resource version to continue from.

    `ended_by` is the error with which a line ended the watch; None if no line did.
    """

    version: str = ""
    events: list[SourceEvent]
    ended_by: KubeError | None = None


class LineReader(Generic[K]):
    """Decodes listed objects and watch lines of one resource type into events, by means of `known`.

    `broken` counts the objects that could not be decoded.
    """

    def __init__(self, resource: ResourceType[K], known: KnownObjects[K]) -> None:
        self._resource = resource
        self._known = known
        self.broken = 0

    def read_items(self, items: Sequence[msgspec.Raw]) -> list[SourceEvent]:
        """Decodes objects of a list; returns the events for them."""
        events: list[SourceEvent] = []
        for raw in items:
            try:
                events += self._known.listed(self._resource.decode(raw))
            except UNREADABLE as error:
                if (meta := self._report(raw, error)) is not None:
                    self._known.unreadable(self._key(meta))
                    events += self._unreadable(raw, meta, error)
        return events

    def read_lines(self, lines: Sequence[bytes], *, since: str) -> DecodedLines:
        """Decodes lines of a watch that continues from version `since`."""
        reading = DecodedLines(version=since, events=[])
        try:
            for line in lines:
                self._read_line(line, reading)
        except KubeError as error:
            reading.ended_by = error
        return reading

    def _read_line(self, line: bytes, reading: DecodedLines) -> None:
        try:
            change = _LINE.decode(line)
        except UNREADABLE as error:
            raise MalformedAnswer(f"{self._resource.name}: a line of {len(line)} bytes is no watch event: {error}") from error
        match change.type:
            case "ADDED" | "MODIFIED":
                self._changed(change.object, reading)
            case "DELETED":
                self._deleted(change.object, reading)
            case "BOOKMARK":
                reading.version = self._bookmarked(change.object, reading.version)
            case "ERROR":
                status = read_status(bytes(change.object))
                raise StatusError(
                    f"watch {self._resource.path}",
                    code=status.code,
                    reason=status.reason,
                    message=shortened(status.message),
                    after_seconds=None,
                )
            case other:
                raise MalformedAnswer(f"{self._resource.name}: a watch event of type {other!r}")

    def _changed(self, raw: msgspec.Raw, reading: DecodedLines) -> None:
        try:
            found = self._resource.decode(raw)
        except UNREADABLE as error:
            meta = self._report(raw, error)
            if meta is not None:
                reading.events += self._unreadable(raw, meta, error)
        else:
            reading.events += self._known.watched(found)
            if found.version:
                reading.version = str(found.version)
                return
            meta = read_meta(raw)  # a version that is no number is returned unchanged
        if meta is not None:
            reading.version = meta.resource_version or reading.version

    def _unreadable(self, raw: msgspec.Raw, meta: MetaWire, error: Exception) -> list[SourceEvent]:
        """The events for an object that cannot be decoded: one, or none if this version was reported before.

        There is none either if the resource type has no such event.
        """
        report = self._resource.unreadable
        event = None if report is None or not meta.uid else report(raw, meta, shortened(str(error)))
        if event is None:
            return []
        return self._known.watched(Found(self._key(meta), meta.uid, version_number(meta.resource_version), event))

    def _deleted(self, raw: msgspec.Raw, reading: DecodedLines) -> None:
        try:
            meta = read_meta(raw)
        except UNREADABLE as error:
            self._report(raw, error)
            return
        reading.events += self._known.deleted(self._key(meta), meta.uid)
        reading.version = meta.resource_version or reading.version

    def _bookmarked(self, raw: msgspec.Raw, since: str) -> str:
        try:
            version = read_meta(raw).resource_version
        except UNREADABLE as error:
            raise MalformedAnswer(f"{self._resource.name}: a bookmark without a version: {error}") from error
        if 0 < version_number(version) < version_number(since):
            raise HistoryWentBack(f"{self._resource.name}: the server is at version {version}, and was at {since} before")
        return version or since

    def _report(self, raw: msgspec.Raw, error: Exception) -> MetaWire | None:
        """Reports an object that cannot be decoded to the type's `on_broken`; returns its metadata, None if it has no name."""
        self.broken += 1
        try:
            meta = read_meta(raw)
        except UNREADABLE:
            meta = MetaWire()
        name = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name or "(no name)"
        self._resource.on_broken(self._resource.name, name, error)
        return meta if meta.name else None

    def _key(self, meta: MetaWire) -> K:
        return self._resource.key_of(meta.namespace, meta.name)
