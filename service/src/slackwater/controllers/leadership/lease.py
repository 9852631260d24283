"""A Lease of coordination.k8s.io, and what one replica knows about it by its own clock.

- `Lease` and `LeaseStore`: the Lease as a value, and the interface through which it is read and written.
- `LeaseObservation`: what this replica has seen of the Lease, and until when that is valid.
- `LeaseWatcher`: reads the Lease repeatedly; the base of those that come to lead by it (`elector`).

In: reads of the Lease and watch events. Out: who holds the Lease, and until when. Invariant: the holder stops leading before
another replica begins, even if either of them learns late of a renewal.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from random import Random
from typing import Final, Protocol

import anyio
import structlog

from slackwater.controllers.leadership.state import Leadership
from slackwater.model.ids import Instant
from slackwater.ports.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A Lease as a value. `holder`: the holder's identity; "" if nobody holds it. `seconds`: how long a renewal is valid.

    `renewed` and `acquired` are times by the clock of the replica that wrote them. They are only checked for equality with
    those of another read, never compared with a clock. `version`: the resource version, the condition of the next write.
    """

    holder: str
    seconds: int
    renewed: str
    acquired: str = ""
    transitions: int = 0
    version: str = ""


class LeaseUnreachable(Exception):
    """The Lease could not be read or written. The message names the Lease and says what was received."""


class LeaseStore(Protocol):
    """The store of one Lease. Every call ends within `timeout_seconds`, and raises `LeaseUnreachable` only."""

    async def read(self, *, timeout_seconds: float) -> Lease | None:
        """Reads the Lease as it was at some moment during the call, not from a cache; None if the Lease does not exist."""
        ...

    async def write(self, lease: Lease, *, timeout_seconds: float) -> Lease | None:
        """Writes the Lease if the stored version still is `lease.version` ("": the Lease does not exist yet). Returns the Lease
        as written. None: the version differs, and nothing was written."""
        ...

    def changes(self) -> AsyncGenerator[None, None]:
        """Yields soon after each change of the Lease, and sometimes without a change; the caller then reads the Lease. Ends
        with the connection. Raises `LeaseUnreachable` if it cannot connect. Iterate it within `contextlib.aclosing`."""
        ...


def holder_name(identity: str) -> str:
    """The host's name in an identity `<hostname>_<uuid>`, as kube-scheduler makes it; usually a Pod's name."""
    name, _, _ = identity.rpartition("_")
    return name or identity


#: Share of the Lease's duration for which the holder leads. The rest allows for clocks that run at different speeds.
_COUNTS_FOR: Final = 0.8
_NEVER: Final = Instant(-math.inf)


class LeaseObservation:
    """What one replica has seen of the Lease. `lease`: the latest state; None if the Lease does not exist or was not read yet.

    The clocks of two machines may differ, so no time in the Lease is compared with a clock. Only the order of events on this
    replica is certain. If a read shows a renewal that the read before did not show, the renewal was written after that earlier
    read began, and before this read was answered. The holder counts its time from the first of these two instants, a waiting
    replica from the second. So the holder always stops first. A replica that was suspended (for example by a signal) finds its
    time over when it continues. The rule for waiting replicas is client-go's.
    """

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self._written_after = _NEVER
        self._seen_at = _NEVER
        self._looked_at = _NEVER

    def note_read(self, lease: Lease | None, *, asked_at: Instant, answered_at: Instant) -> None:
        """Notes what a read returned (None: the Lease does not exist), when the read began, and when it was answered."""
        # Writes that renew nothing change only the version of the object.
        if lease is None or self.lease is None or replace(lease, version=self.lease.version) != self.lease:
            self._written_after, self._seen_at = self._looked_at, answered_at
        self.lease, self._looked_at = lease, asked_at

    @property
    def holds_until(self) -> Instant:
        """Until when the holder certainly holds the Lease."""
        return _NEVER if self.lease is None else Instant(self._written_after + self.lease.seconds * _COUNTS_FOR)

    @property
    def free_at(self) -> Instant:
        """From when on the Lease may be taken, because no replica can hold it any more."""
        if self.lease is None or not self.lease.holder:
            return _NEVER
        return Instant(self._seen_at + self.lease.seconds)


_log = structlog.get_logger(__name__)

#: The least pause between two reads.
_PAUSE_SECONDS: Final = 0.02
#: Pause before a broken watch is opened again.
_WATCH_AGAIN_SECONDS: Final = 1.0


class LeaseWatcher(ABC):
    """Reads one Lease: soon after each change, and at least every `retry_seconds`. Subclasses decide by it who leads.

    Each pause is longer by a random share, at most `spread`. A watch event only starts a read. Its content is never used,
    because a process that was suspended reads old events when it continues. `call_seconds` is the timeout of one call.
    """

    def __init__(
        self,
        store: LeaseStore,
        leadership: Leadership,
        *,
        call_seconds: float,
        retry_seconds: float,
        spread: float,
        clock: Clock,
        rng: Random,
    ) -> None:
        self._store = store
        self._leadership = leadership
        self._call_seconds = call_seconds
        self._retry_seconds = retry_seconds
        self._spread = spread
        self._clock = clock
        self._rng = rng
        self._observation = LeaseObservation()
        self._woken = anyio.Event()
        self._read_failing = self._watch_failing = False
        leadership.on_doubt = self._read_soon

    def _read_soon(self) -> None:
        self._woken.set()

    @abstractmethod
    async def _look(self) -> None:
        """Reads the Lease if need be, and does what follows. May raise `LeaseUnreachable`."""

    async def _read(self) -> str:
        """Reads the Lease, and returns the identity that it names; "" if it names nobody."""
        asked_at = self._clock()
        found = await self._store.read(timeout_seconds=self._call_seconds)
        self._observation.note_read(found, asked_at=asked_at, answered_at=self._clock())
        holder = "" if found is None else found.holder
        self._leadership.held_by(holder)
        return holder

    async def run(self) -> None:
        """Watches the Lease, and leads while the Lease says so, until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen, name="watch of the lease")
            while True:
                self._woken = anyio.Event()
                try:
                    await self._look()
                except LeaseUnreachable as error:
                    if not self._read_failing:
                        _log.warning("the lease cannot be reached", problem=str(error), leads=self._leadership.leads())
                    self._read_failing = True
                else:
                    self._read_failing = False
                await anyio.sleep(_PAUSE_SECONDS)
                with anyio.move_on_after(self._retry_seconds * (1 + self._spread * self._rng.random())):
                    await self._woken.wait()

    async def _listen(self) -> None:
        while True:
            try:
                async with aclosing(self._store.changes()) as changes:
                    async for _ in changes:
                        self._watch_failing = False
                        self._woken.set()
            except LeaseUnreachable as error:
                if not self._watch_failing:
                    _log.warning("the lease cannot be watched, it is looked at instead", problem=str(error))
                self._watch_failing = True
            await anyio.sleep(_WATCH_AGAIN_SECONDS)
