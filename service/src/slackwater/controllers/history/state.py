"""The history in memory: two rings of chunks, an index by pod and node, and which chunks have to be written; and the answers to
"what happened?" (`past_of`, `newest`).

A ring keeps its newest chunks. Entries are added to the newest chunk; when it is full, the next begins, and the oldest is
forgotten. So the number of entries is bounded, and so is the size of each write. Pure: time comes with the entries.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from slackwater.controllers.history.policy import SLOTS, HistoryPolicy
from slackwater.model.history import HistoryAction, HistoryEntry, HistoryLine, PastOfObject, Remembered, Ring, time_text
from slackwater.model.ids import PodKey, UnixTime

_REMOVAL: Final = frozenset({HistoryAction.DRAIN_BEGAN, HistoryAction.DRAIN_ENDED})
_encode: Final = msgspec.json.Encoder().encode


@dataclass(slots=True, kw_only=True)
class Chunk:
    """Entries that are persisted together, the oldest first. `number`: the chunk's sequence number in its ring."""

    ring: Ring
    number: int
    entries: list[HistoryEntry] = field(default_factory=list)
    bytes: int = 0
    #: The time of the first entry that has not been written; None if all have been written.
    unwritten_since_ms: int | None = None

    @property
    def slot(self) -> int:
        """The chunk's place in the ring, and the number in its ConfigMap's name."""
        return self.number % SLOTS[self.ring]


class History:
    """All entries of the history. `restored`: whether the entries that earlier processes stored have been read."""

    def __init__(self, policy: HistoryPolicy) -> None:
        self._policy = policy
        self.restored = False
        self._rings: dict[Ring, list[Chunk]] = {}
        self._index: dict[str, list[HistoryEntry]] = {}
        #: The last entry about the removal of each node.
        self._removals: dict[str, HistoryEntry] = {}
        self._begin(())

    def _begin(self, stored: Iterable[Chunk]) -> None:
        """Replaces all entries by those of the stored chunks."""
        self._rings, self._index, self._removals = {ring: [] for ring in SLOTS}, {}, {}
        for chunk in sorted(stored, key=lambda each: each.number):
            self._rings[chunk.ring].append(chunk)
        for ring, chunks in self._rings.items():
            newest = chunks[-1].number if chunks else 0
            self._rings[ring] = [each for each in chunks if each.number > newest - SLOTS[ring]] or [Chunk(ring=ring, number=0)]
        for entry in self:
            self._enter(entry)

    def restore(self, stored: Iterable[Chunk]) -> None:
        """Adds the chunks that earlier processes stored. The entries that this process has added come after them."""
        added = list(self)
        self._begin(stored)
        self.restored = True
        for entry in added:
            self.add(entry)

    def add(self, entry: HistoryEntry) -> None:
        """Adds an entry, and forgets the oldest chunk of its ring if there is no more room."""
        chunks = self._rings[entry.ring]
        size = _size(entry)
        if chunks[-1].entries and chunks[-1].bytes + size > self._policy.chunk_bytes:
            chunks.append(Chunk(ring=entry.ring, number=chunks[-1].number + 1))
            if len(chunks) > SLOTS[entry.ring]:
                for old in chunks.pop(0).entries:
                    self._leave(old)
        newest = chunks[-1]
        newest.entries.append(entry)
        newest.bytes += size
        if newest.unwritten_since_ms is None:
            newest.unwritten_since_ms = entry.at_ms
        self._enter(entry)

    def _enter(self, entry: HistoryEntry) -> None:
        for name in _names(entry):
            self._index.setdefault(name, []).append(entry)
        if entry.action in _REMOVAL:
            self._removals[entry.node] = entry

    def _leave(self, entry: HistoryEntry) -> None:
        for name in _names(entry):
            left = self._index[name]
            left.remove(entry)  # it is among the first
            if not left:
                del self._index[name]
        if self._removals.get(entry.node) is entry:
            del self._removals[entry.node]

    # --- what is to be written ------------------------------------------------------------------------------------------------

    def due(self, now_ms: int) -> Chunk | None:
        """The chunk to write now: the longest overdue one; None if no chunk is due."""
        waiting = [chunk for chunks in self._rings.values() for chunk in chunks if self._is_due(chunk, now_ms)]
        return min(waiting, key=lambda chunk: chunk.unwritten_since_ms or 0, default=None)

    def unwritten(self) -> list[Chunk]:
        """All chunks with entries that have not been written."""
        return [chunk for chunks in self._rings.values() for chunk in chunks if chunk.unwritten_since_ms is not None]

    def _is_due(self, chunk: Chunk, now_ms: int) -> bool:
        since = chunk.unwritten_since_ms
        return since is not None and now_ms - since >= self._policy.delay_seconds[chunk.ring] * 1000

    # --- what happened --------------------------------------------------------------------------------------------------------

    def of(self, what: Literal["pod", "node"], name: str) -> list[HistoryEntry]:
        """What happened to pods of this name, `namespace/name`, and what was done for them; or what happened to the node and
        on it. The oldest first."""
        return sorted(self._index.get(f"{what} {name}", ()), key=lambda entry: entry.at_ms)

    def removal_begun(self, node: str) -> HistoryEntry | None:
        """The entry about the beginning of the node's removal; None if the node is not being removed."""
        last = self._removals.get(node)
        return last if last is not None and last.action is HistoryAction.DRAIN_BEGAN else None

    def known_pod(self, key: str) -> bool:
        """Is there any entry about a pod of this name?"""
        return f"pod {key}" in self._index

    def reaches(self, ring: Ring) -> int | None:
        """The time of the ring's oldest entry, in Unix milliseconds, if older ones may have been forgotten; else None."""
        first = self._rings[ring][0]
        return first.entries[0].at_ms if first.number > 0 and first.entries else None

    def counts(self) -> dict[Ring, int]:
        """The number of entries by ring."""
        return {ring: sum(len(chunk.entries) for chunk in chunks) for ring, chunks in self._rings.items()}

    def __iter__(self) -> Iterator[HistoryEntry]:
        return (entry for chunks in self._rings.values() for chunk in chunks for entry in chunk.entries)

    def __len__(self) -> int:
        return sum(self.counts().values())


def evictions(history: Iterable[HistoryEntry]) -> dict[PodKey, UnixTime]:
    """The pods that were evicted when their nodes were removed, and when first."""
    found: dict[PodKey, UnixTime] = {}
    for entry in history:
        if entry.action is HistoryAction.EVICTED:
            namespace, _, name = entry.pod.partition("/")
            key, at = PodKey(namespace, name), UnixTime(entry.at_ms / 1000)
            found[key] = min(at, found.get(key, at))
    return found


def chunk_of(ring: Ring, number: int, entries: Iterable[HistoryEntry]) -> Chunk:
    """Makes a chunk of stored entries. Leaves out entries of another ring, which no process of ours wrote there."""
    kept = [entry for entry in entries if entry.ring == ring]
    return Chunk(ring=ring, number=number, entries=kept, bytes=sum(map(_size, kept)))


def _size(entry: HistoryEntry) -> int:
    """Bytes of the entry as JSON, as it is persisted, with the comma after it."""
    return len(_encode(entry)) + 1


def _names(entry: HistoryEntry) -> set[str]:
    pods = {f"pod {key}" for key in (entry.pod, entry.other) if key}
    return pods | {f"node {name}" for name in (entry.node, entry.target) if name}


#: How many entries `explain` shows.
_MOST_IN_EXPLAIN: Final = 5


def past_of(
    history: History, what: Remembered, name: str, *, since_ms: int | None, notes: tuple[str, ...] = ()
) -> PastOfObject:
    """The answer about one object, or about the whole cluster (whose name is empty): the entries since `since_ms` (None: all),
    the oldest first, and for each ring the time since when the ring is complete (None: nothing has been forgotten)."""
    entries = sorted(history, key=lambda entry: entry.at_ms) if what == "cluster" else history.of(what, name)
    found = [entry for entry in entries if since_ms is None or entry.at_ms >= since_ms]
    reaches = {ring: None if (at := history.reaches(ring)) is None else time_text(at) for ring in SLOTS}
    title = "the cluster" if what == "cluster" else f"{what} {name}"
    return PastOfObject(object=title, entries=tuple(map(HistoryLine.of, found)), reaches=reaches, notes=notes)


def newest(history: History, what: Literal["pod", "node"], name: str) -> tuple[HistoryLine, ...]:
    """The newest entries about the object, for its explanation; the oldest first."""
    return tuple(map(HistoryLine.of, history.of(what, name)[-_MOST_IN_EXPLAIN:]))
