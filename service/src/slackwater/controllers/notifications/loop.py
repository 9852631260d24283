"""Samples the metrics once a minute, and sends what the alerts have to say. Only the leader runs it.

A delivery that fails or takes too long delays nothing but the next message, and is tried again with it.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Literal

import anyio
import structlog

from slackwater.controllers.notifications.metric_history import Samples
from slackwater.controllers.notifications.state import Notifications
from slackwater.ports.clock import Clock

_log = structlog.get_logger(__name__)
SECONDS: Final = 60.0


class Undelivered(Exception):
    """The receiver did not take a message. The text names neither the address nor what the receiver answered."""


class NotificationLoop:
    """`read` returns the metrics; `send` delivers a message within its own deadline, or raises `Undelivered`. `leads`: whether
    this replica leads now, as the term may end while the loop still runs."""

    def __init__(
        self,
        state: Notifications,
        read: Callable[[], Samples],
        send: Callable[[str], Awaitable[None]],
        *,
        leads: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._state = state
        self._read = read
        self._send = send
        self._leads = leads
        self._clock = clock
        self.counts: dict[Literal["delivered", "undelivered"], int] = {"delivered": 0, "undelivered": 0}

    async def run(self) -> None:
        """Observes and sends until cancelled."""
        while True:
            began = self._clock()
            await self.look()
            await anyio.sleep(max(1.0, began + SECONDS - self._clock()))

    async def look(self) -> None:
        """Takes the metrics of one minute, and sends a message if one is due."""
        if not self._leads():
            return
        self._state.observe(self._read())
        if (text := self._state.message(self._clock())) is None:
            return
        try:
            await self._send(text)
        except Undelivered as error:
            self.counts["undelivered"] += 1
            self._state.undelivered(self._clock())
            _log.warning("notification not delivered", detail=str(error))
            return
        self.counts["delivered"] += 1
        self._state.delivered(self._clock())
