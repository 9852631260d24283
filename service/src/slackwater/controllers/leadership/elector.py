"""How a replica comes to lead.

- `LeaderElector`: leads while it holds our own Lease. It takes the Lease when it is free, renews it, and releases it at exit.
- `LeaseFollower`: leads exactly while the Lease of the kube-scheduler in our own Pod, or on our host, names us. So the
  kube-scheduler that leads asks the Slackwater that leads, over loopback, and one hand-over serves both. It writes nothing.

Invariant: two replicas never lead at the same time. Every write names the version that was read, so only one of several
replicas takes the Lease. A leader leads until `renew_seconds` after the *beginning* of its last successful renewal; others wait
for the Lease's whole duration after they have *seen* that renewal, which is later and longer. A renewal without an answer
counts as failed; the next read shows whether it was written.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Final

import structlog

from slackwater.controllers.leadership.lease import Lease, LeaseStore, LeaseUnreachable, LeaseWatcher, holder_name
from slackwater.controllers.leadership.state import Leadership
from slackwater.model.ids import Instant
from slackwater.ports.clock import Clock

_log = structlog.get_logger(__name__)

#: A waiting replica lengthens each pause by up to this share, so that replicas do not all try at once.
_SPREAD: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElectorConfig:
    """Settings of the election, in seconds. Required: `lease_seconds` > `renew_seconds` > `retry_seconds`, each with a
    margin."""

    lease_seconds: int = 15
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0


class LeaderElector(LeaseWatcher):
    """Elects the leader through our own Lease.

    `identity` is `<our Pod's name>_<a unique suffix>`. `wall` returns Unix seconds, only for the times that people read in the
    Lease.
    """

    def __init__(
        self,
        store: LeaseStore,
        leadership: Leadership,
        *,
        identity: str,
        config: LeaderElectorConfig,
        clock: Clock,
        wall: Callable[[], float],
        rng: Random,
    ) -> None:
        # Several calls may fail before the Lease's time is over.
        call_seconds, retry_seconds = config.renew_seconds / 3, config.retry_seconds
        super().__init__(
            store, leadership, call_seconds=call_seconds, retry_seconds=retry_seconds, spread=_SPREAD, clock=clock, rng=rng
        )
        self.identity = identity
        self._config = config
        self._wall = wall
        self._released = False
        #: When the next renewal is due: watch events do not cause earlier ones.
        self._renew_at = Instant(0.0)

    async def release(self) -> None:
        """Ends leadership at once, and releases the Lease if it is ours."""
        self._released = True
        self._leadership.end()
        held = self._observation.lease
        if held is None or held.holder != self.identity:
            return
        # As client-go writes it: no holder, and a short duration for clients that judge by the duration alone.
        gone = Lease(
            holder="", seconds=1, renewed=self._stamp(), acquired="", transitions=held.transitions, version=held.version
        )
        try:
            written = await self._store.write(gone, timeout_seconds=self._call_seconds)
        except LeaseUnreachable as error:
            _log.warning("the lease is not given back, it runs out", problem=str(error))
            return
        _log.info("the lease is given back" if written is not None else "the lease was another's already")

    async def _look(self) -> None:
        """Reads the Lease, and takes or renews it if possible."""
        if self._released or (self._leadership.leads() and self._clock() < self._renew_at):
            return
        if not self._ours():
            await self._read()
        if self._ours() or self._observation.free_at <= self._clock():
            await self._take()

    def _ours(self) -> bool:
        return self._observation.lease is not None and self._observation.lease.holder == self.identity

    async def _read(self) -> str:
        holder = await super()._read()
        if holder != self.identity:
            self._leadership.end()
        return holder

    async def _take(self) -> None:
        """Takes the Lease, or renews it if it is ours."""
        began_at = self._clock()
        wanted = self._wanted()
        written = await self._store.write(wanted, timeout_seconds=self._call_seconds)
        if self._released:
            return
        if written is None:  # another replica wrote the Lease; the read shows which
            await self._read()
            return
        self._observation.note_read(written, asked_at=began_at, answered_at=self._clock())
        self._leadership.held_by(self.identity)
        self._leadership.extend(Instant(began_at + self._config.renew_seconds))
        self._renew_at = Instant(began_at + self._config.retry_seconds * (1 - _SPREAD))

    def _wanted(self) -> Lease:
        before, now = self._observation.lease, self._stamp()
        ours = before is not None and before.holder == self.identity
        return Lease(
            holder=self.identity,
            seconds=self._config.lease_seconds,
            renewed=now,
            acquired=before.acquired if ours and before is not None else now,
            transitions=(0 if before is None else before.transitions) + (before is not None and not ours),
            version="" if before is None else before.version,
        )

    def _stamp(self) -> str:
        return datetime.fromtimestamp(self._wall(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


#: The timeout of one read. The Lease is taken as of the read's beginning, however late the answer is.
_LOOK_SECONDS: Final = 3.0


class LeaseFollower(LeaseWatcher):
    """Leads while kube-scheduler's Lease names us. `names`: the host names that kube-scheduler may use in its identity: our
    Pod's name, and our host's.
    """

    def __init__(
        self,
        store: LeaseStore,
        leadership: Leadership,
        *,
        names: Collection[str],
        retry_seconds: float,
        clock: Clock,
        rng: Random,
    ) -> None:
        super().__init__(
            store, leadership, call_seconds=_LOOK_SECONDS, retry_seconds=retry_seconds, spread=0.0, clock=clock, rng=rng
        )
        self._names = frozenset(names)

    async def release(self) -> None:
        """Does nothing: kube-scheduler releases its Lease itself."""

    async def _look(self) -> None:
        holder = await self._read()
        if holder and holder_name(holder) in self._names:
            self._leadership.extend(self._observation.holds_until)
        else:
            self._leadership.end()
