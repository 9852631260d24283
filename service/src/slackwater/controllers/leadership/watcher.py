"""The lease watcher: has a Lease read again and again, soon after each change, and at least every `retry_seconds`.

A watch event is never used by itself: it may be old when it is read (a suspended process reads what arrived meanwhile). It only
starts a read.
"""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from random import Random
from typing import Final

import anyio
import structlog

from slackwater.controllers.leadership.lease import LeaseStore, LeaseUnreachable

_log = structlog.get_logger(__name__)

#: The least pause between two reads.
_PAUSE_SECONDS: Final = 0.02
#: Pause before a broken watch is opened again.
_WATCH_AGAIN_SECONDS: Final = 1.0


class LeaseWatcher:
    """Calls `look`, which reads once and never raises; `spread` lengthens each pause by up to that share of it."""

    def __init__(
        self, store: LeaseStore, look: Callable[[], Awaitable[None]], *, retry_seconds: float, spread: float, rng: Random
    ) -> None:
        self._store = store
        self._look = look
        self._retry_seconds = retry_seconds
        self._spread = spread
        self._rng = rng
        self._woken = anyio.Event()
        self._deaf = False

    def look_soon(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen, name="watch of the lease")
            while True:
                self._woken = anyio.Event()
                await self._look()
                await anyio.sleep(_PAUSE_SECONDS)
                with anyio.move_on_after(self._retry_seconds * (1 + self._spread * self._rng.random())):
                    await self._woken.wait()

    async def _listen(self) -> None:
        while True:
            try:
                async with aclosing(self._store.changes()) as changes:
                    async for _ in changes:
                        self._deaf = False
                        self._woken.set()
            except LeaseUnreachable as error:
                if not self._deaf:
                    _log.warning("the lease cannot be watched, it is looked at instead", problem=str(error))
                self._deaf = True
            await anyio.sleep(_WATCH_AGAIN_SECONDS)
