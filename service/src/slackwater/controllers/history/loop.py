"""The history loop: makes entries of what happens to pods and nodes, and writes them to the store in batches at a bounded rate.

In: ends of API calls (`noting`), Events and drain reports on their way out, and pods that changed. Out: chunks, through the
port `HistoryStore`. The loop delays no request: a changed pod costs one entry in a set until the loop looks at it, and each
look does a bounded amount of work.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

import anyio
import anyio.lowlevel
import structlog

from slackwater.cluster.pods import Disruption, PodTable
from slackwater.controllers.history import new_entries
from slackwater.controllers.history.policy import HistoryPolicy
from slackwater.controllers.history.state import Chunk, History
from slackwater.model.effects import (
    Announce,
    ApiEffect,
    CreateMigration,
    DeleteMigration,
    DeleteVictim,
    DrainEnd,
    Effect,
    Evict,
)
from slackwater.model.events import EvictionEnded, PodGone
from slackwater.model.history import HistoryEntry
from slackwater.model.ids import PodKey, PodUid
from slackwater.model.vertical import VirtualMachineMigration
from slackwater.ports.protocols import Outcome, Writer

_log = structlog.get_logger(__name__)

#: The time to write the rest at the end of the process.
_LAST_SECONDS: Final = 3.0
#: The pause after the store could not be read or written.
_RETRY_SECONDS: Final = 5.0


class HistoryStore(Protocol):
    """Where chunks are persisted. Neither method raises an error because of an answer of the API server."""

    async def read(self) -> list[Chunk] | None:
        """All stored chunks; None if the store cannot be read now."""
        ...

    async def write(self, chunk: Chunk) -> int | None:
        """Replaces the content of the chunk's slot. Returns the number of bytes written; None if the write failed."""
        ...


class HistoryLoop:
    """Keeps the history of this replica while it leads. `preemptor_of` returns the pod for which kube-scheduler proposed this
    victim to our preempt verb; None if it is not known. `wall_ms` returns the time as Unix milliseconds. Without a `store` the
    history is in memory alone."""

    def __init__(
        self,
        history: History,
        pods: PodTable,
        *,
        migrations: Mapping[PodKey, VirtualMachineMigration],
        preemptor_of: Callable[[PodUid], PodKey | None],
        store: HistoryStore | None,
        policy: HistoryPolicy,
        wall_ms: Callable[[], int],
    ) -> None:
        self._history = history
        self._pods = pods
        self._migrations = migrations
        self._preemptor_of = preemptor_of
        self._store = store
        self._policy = policy
        self._now_ms = wall_ms
        #: Pods that changed since the last look; and pods that the present look has not come to yet (at the start: all pods).
        self._changed: set[PodUid] = set()
        self._waiting: list[PodUid] = []
        #: New disruptions; and disruptions that wait for the answer to our own call: when each was seen (Unix milliseconds),
        #: the disruption, and the preemptor's key or "".
        self._disruptions: set[Disruption] = set()
        self._disrupted: deque[tuple[int, Disruption, str]] = deque()
        self._next_call_ms = 0
        #: Writes of chunks by outcome.
        self.writes = {"done": 0, "failed": 0}

    # --- what other parts report ----------------------------------------------------------------------------------------------

    def noting(self, writer: Writer) -> Writer:
        """Wraps the writer, so that each call that the API server accepts becomes an entry."""
        return _HistoryWriter(writer, self._begun, self._ended)

    def _begun(self, effect: ApiEffect) -> None:
        """Adds the entry about a finished migration whose object is about to be deleted, and may be gone at the next look."""
        migration = self._migrations.get(effect.key) if isinstance(effect, DeleteMigration) else None
        if migration is not None and migration.finished:
            self._look_at_migration(migration, self._now_ms())

    def _ended(self, effect: ApiEffect, outcome: Outcome) -> None:
        if outcome.verdict != "done" or not isinstance(effect, Evict | DeleteVictim | CreateMigration):
            return
        if isinstance(outcome.event, PodGone) or (
            isinstance(outcome.event, EvictionEnded) and outcome.event.outcome != "accepted"
        ):
            return
        pod = self._pods.get(effect.uid)
        known = "" if pod is None or pod.node is None else pod.node
        node = effect.node if isinstance(effect, Evict) else known
        self._history.add(new_entries.of_call(effect, node, self._history.removal_begun(node), self._now_ms()))

    def announced(self, effects: Iterable[Effect]) -> None:
        """Adds an entry for each decision of the autoscaler that an Event among the effects announces."""
        for effect in effects:
            if isinstance(effect, Announce):
                self._add(new_entries.of_announcement(effect, self._now_ms()))

    def drained(self, end: DrainEnd) -> None:
        """Adds the entry about the end of a node's removal."""
        self._add(new_entries.of_drain(end, self._now_ms()))

    def _add(self, entry: HistoryEntry | None) -> None:
        if entry is not None:
            self._history.add(entry)

    # --- the loop -------------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Reads what earlier processes stored, then adds and writes entries until cancelled. When cancelled, writes the rest
        for up to `_LAST_SECONDS`."""
        self._waiting = [pod.uid for pod in self._pods]
        for pod in self._pods:
            if pod.disruption is not None:
                self._disruptions.add(Disruption(pod.uid, pod.key, pod.node, pod.disruption))
        self._pods.journal.add_reader(self._changed)
        self._pods.disruptions.add_reader(self._disruptions)
        try:
            while True:
                try:
                    if self._store is not None and self._now_ms() >= self._next_call_ms:
                        await self._persist(self._store)
                    await self._note_changes()
                except Exception:  # nothing depends on the history, so a bug in it must not end the service
                    _log.exception("history not continued")
                await anyio.sleep(self._policy.look_seconds)
        finally:
            self._pods.journal.remove_reader(self._changed)
            self._pods.disruptions.remove_reader(self._disruptions)
            if self._store is not None and self._history.restored:
                with anyio.move_on_after(_LAST_SECONDS, shield=True):
                    for chunk in self._history.unwritten():
                        await self._put(self._store, chunk)

    async def _persist(self, store: HistoryStore) -> None:
        """Reads the store if that has not succeeded yet; else writes a chunk that is due. Writes nothing before the store has
        been read, since that would overwrite the entries of earlier processes."""
        seconds = 0.0
        if not self._history.restored:
            stored = await store.read()
            if stored is None:
                seconds = _RETRY_SECONDS
            else:
                self._history.restore(stored)
                _log.info("history read", entries=len(self._history), chunks=len(stored))
        elif (chunk := self._history.due(self._now_ms())) is not None:
            written = await self._put(store, chunk)
            rate = self._policy.bytes_per_second
            seconds = _RETRY_SECONDS if written is None else max(self._policy.min_seconds, written / rate)
        self._next_call_ms = self._now_ms() + round(seconds * 1000)

    async def _note_changes(self) -> None:
        """Looks at some of the pods that changed, at disruptions, and at migrations that have ended."""
        now = self._now_ms()
        for _ in range(self._policy.slices):
            left = self._policy.looks
            while left > 0 and (self._waiting or self._changed):
                if not self._waiting:
                    self._waiting = sorted(self._changed, reverse=True)
                    self._changed.clear()
                left -= self._look_at(self._waiting.pop(), now)
            if left > 0:
                break
            await anyio.lowlevel.checkpoint()  # requests have their turn
        self._look_at_disruptions(now)
        for migration in self._migrations.values():
            if migration.finished:
                self._look_at_migration(migration, now)

    def _look_at(self, uid: PodUid, now: int) -> int:
        """Adds the entry that follows from the pod's present state, if any. Returns the cost, as in `HistoryPolicy.looks`."""
        pod = self._pods.get(uid)
        if pod is None or not new_entries.is_notable(pod, known=self._history.known_pod(str(pod.key))):
            return 1
        self._add(new_entries.of_pod(pod, self._history.of("pod", str(pod.key)), now))
        return self._policy.record_cost

    def _look_at_disruptions(self, now: int) -> None:
        """Adds entries about disruptions that were seen `answer_seconds` ago. A disruption that a call of ours has caused has
        an entry by then, since the answer to the call has come."""
        for disruption in sorted(self._disruptions):
            if len(self._disrupted) < self._policy.most_disrupted:
                found = self._preemptor_of(disruption.uid)
                self._disrupted.append((now, disruption, "" if found is None else str(found)))
        self._disruptions.clear()
        while self._disrupted and self._disrupted[0][0] + self._policy.answer_seconds * 1000 <= now:
            at, seen, preemptor = self._disrupted.popleft()
            before, removal = self._history.of("pod", str(seen.key)), self._history.removal_begun(seen.node or "")
            self._add(new_entries.of_disruption(seen, preemptor, before, removal, at))

    def _look_at_migration(self, migration: VirtualMachineMigration, now: int) -> None:
        namespace = migration.key.namespace
        before = self._history.of("pod", f"{namespace}/{migration.source_pod}")
        target = self._pods.by_key(PodKey(namespace, migration.target_pod))
        self._add(new_entries.of_migration(migration, before, (target.node if target else None) or "", now))

    async def _put(self, store: HistoryStore, chunk: Chunk) -> int | None:
        """Writes the chunk as it is now; entries that are added meanwhile count as unwritten. Returns the number of bytes
        written; None if the write failed."""
        since, chunk.unwritten_since_ms = chunk.unwritten_since_ms, None
        written: int | None = None
        try:
            written = await store.write(chunk)
        finally:
            if written is None:  # failed, or cancelled
                chunk.unwritten_since_ms = since
            self.writes["failed" if written is None else "done"] += 1
        return written


class _HistoryWriter:
    """A writer that passes each effect to another writer. Calls `begun` with the effect before the call, and `ended` with
    effect and outcome after it."""

    def __init__(self, writer: Writer, begun: Callable[[ApiEffect], None], ended: Callable[[ApiEffect, Outcome], None]) -> None:
        self._writer = writer
        self._begun = begun
        self._ended = ended

    async def perform(self, effect: ApiEffect, *, timeout_seconds: float | None) -> Outcome:
        _safely(self._begun, effect)
        outcome = await self._writer.perform(effect, timeout_seconds=timeout_seconds)
        _safely(self._ended, effect, outcome)
        return outcome


def _safely(note: Callable[..., None], *arguments: object) -> None:
    """Calls `note` and logs its errors, since a bug of the history must not fail the call that it notes."""
    try:
        note(*arguments)
    except Exception:
        _log.exception("history not continued")
