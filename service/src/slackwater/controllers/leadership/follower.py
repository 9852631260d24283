"""The lease follower: leads exactly while the Lease of the kube-scheduler in our own Pod, or on our host, names us.

So the kube-scheduler that leads asks the Slackwater that leads, over loopback, and one hand-over serves both. Deliberately
absent: any write; the Lease is kube-scheduler's.
"""

from collections.abc import Collection
from random import Random
from typing import Final

import structlog

from slackwater.controllers.leadership.lease import LeaseObservation, LeaseStore, LeaseUnreachable, LeaseWatcher, holder_name
from slackwater.controllers.leadership.state import Leadership
from slackwater.ports.clock import Clock

_log = structlog.get_logger(__name__)

#: The timeout of one read. The Lease is taken as of the read's beginning, however late the answer is.
_LOOK_SECONDS: Final = 3.0


class LeaseFollower:
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
        self._store = store
        self._leadership = leadership
        self._names = frozenset(names)
        self._clock = clock
        self._observation = LeaseObservation()
        self._blind = False
        self._lease_watcher = LeaseWatcher(store, self._read_lease, retry_seconds=retry_seconds, spread=0.0, rng=rng)
        leadership.on_doubt = self._lease_watcher.read_soon

    async def run(self) -> None:
        """Follows the Lease until cancelled."""
        await self._lease_watcher.run()

    async def release(self) -> None:
        """Does nothing: kube-scheduler releases its Lease itself."""

    async def _read_lease(self) -> None:
        asked_at = self._clock()
        try:
            lease = await self._store.read(timeout_seconds=_LOOK_SECONDS)
        except LeaseUnreachable as error:
            if not self._blind:
                _log.warning("the scheduler's lease cannot be read", problem=str(error), leads=self._leadership.leads())
            self._blind = True
            return
        self._blind = False
        self._observation.note_read(lease, asked_at=asked_at, answered_at=self._clock())
        holder = "" if lease is None else lease.holder
        self._leadership.held_by(holder)
        if holder and holder_name(holder) in self._names:
            self._leadership.extend(self._observation.holds_until)
        else:
            self._leadership.end()
