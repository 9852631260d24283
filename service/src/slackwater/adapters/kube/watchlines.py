"""Turns objects of lists and lines of watches into events, given the objects that are known, and finds the version to continue
from.

Pure except for the callback that reports a broken object. Such an object never ends the stream: it becomes an event if its type
has one for it, otherwise it is skipped. A line that ends the stream loses none of the lines before it.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec

from slackwater.adapters.kube.decode import read_meta, version_number
from slackwater.adapters.kube.errors import UNREADABLE, Garbled, KubeError, Refused, WentBack, read_status, shortened
from slackwater.adapters.kube.known_objects import KnownObjects
from slackwater.adapters.kube.resource_type import Found, ResourceType
from slackwater.adapters.kube.wire import MetaWire, WatchWire
from slackwater.model.events import SourceEvent

K = TypeVar("K", bound=Hashable)

_LINE: Final = msgspec.json.Decoder(WatchWire)


@dataclass(slots=True, kw_only=True)
class Reading:
    """The result of some objects or lines: events, and the version of the last one. `ended_by` is the line that ended the
    watch."""

    version: str = ""
    events: list[SourceEvent]
    ended_by: KubeError | None = None


class LineReader(Generic[K]):
    """Reads one resource type into one `KnownObjects`. `broken` counts the objects that could not be read."""

    def __init__(self, resource: ResourceType[K], known: KnownObjects[K]) -> None:
        self._resource = resource
        self._known = known
        self.broken = 0

    def read_items(self, items: Sequence[msgspec.Raw]) -> list[SourceEvent]:
        """Reads objects of a list."""
        events: list[SourceEvent] = []
        for raw in items:
            try:
                events += self._known.listed(self._resource.decode(raw))
            except UNREADABLE as error:
                if (meta := self._report(raw, error)) is not None:
                    self._known.unreadable(self._key(meta))
                    events += self._unreadable(raw, meta, error)
        return events

    def read_lines(self, lines: Sequence[bytes], *, since: str) -> Reading:
        """Reads lines of a watch that continues from version `since`."""
        reading = Reading(version=since, events=[])
        try:
            for line in lines:
                self._read_line(line, reading)
        except KubeError as error:
            reading.ended_by = error
        return reading

    def _read_line(self, line: bytes, reading: Reading) -> None:
        try:
            change = _LINE.decode(line)
        except UNREADABLE as error:
            raise Garbled(f"{self._resource.name}: a line of {len(line)} bytes is no watch event: {error}") from error
        match change.type:
            case "ADDED" | "MODIFIED":
                self._changed(change.object, reading)
            case "DELETED":
                self._deleted(change.object, reading)
            case "BOOKMARK":
                reading.version = self._bookmarked(change.object, reading.version)
            case "ERROR":
                status = read_status(bytes(change.object))
                raise Refused(
                    f"watch {self._resource.path}",
                    code=status.code,
                    reason=status.reason,
                    message=shortened(status.message),
                    after_seconds=None,
                )
            case other:
                raise Garbled(f"{self._resource.name}: a watch event of type {other!r}")

    def _changed(self, raw: msgspec.Raw, reading: Reading) -> None:
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
        """The event for an object that cannot be read, once for each version as for any object."""
        tell = self._resource.unreadable
        event = None if tell is None or not meta.uid else tell(raw, meta, shortened(str(error)))
        if event is None:
            return []
        return self._known.watched(Found(self._key(meta), meta.uid, version_number(meta.resource_version), event))

    def _deleted(self, raw: msgspec.Raw, reading: Reading) -> None:
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
            raise Garbled(f"{self._resource.name}: a bookmark without a version: {error}") from error
        if 0 < version_number(version) < version_number(since):
            raise WentBack(f"{self._resource.name}: the server is at version {version}, and was at {since} before")
        return version or since

    def _report(self, raw: msgspec.Raw, error: Exception) -> MetaWire | None:
        """Reports a broken object. Returns its identity, as far as it has one."""
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
