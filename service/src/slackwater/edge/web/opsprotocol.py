"""One connection of the ops listener: uvicorn's own, with bounds that it lacks.

Bounded besides: how many connections there are, by when the first request on one must have begun, and for how long answers
may stay unread. Deliberately absent: how requests are read and answered.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from slackwater.edge.web.crowd import Crowd
from slackwater.edge.web.direct import UNREAD_SECONDS
from slackwater.edge.web.peer import host_of

#: From the connection to the end of its first request's head, and the time that a connection may then stay silent.
_ARRIVE_SECONDS: Final = 30.0


class OpsProtocol(HttpToolsProtocol):
    """See the module."""

    def __init__(self, *args: Any, crowd: Crowd, **more: Any) -> None:
        super().__init__(*args, **more)
        self._crowd = crowd
        self._host: str | None = None
        self._late: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        host = host_of(transport)
        if self._crowd.enter(host) is not None:
            transport.abort()
            return
        self._host = host
        self._late = self.loop.call_later(_ARRIVE_SECONDS, self._check_arrival)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._host is not None:
            self._crowd.leave(self._host)
        for timer in (self._late, self._unread):
            if timer is not None:
                timer.cancel()

    def _check_arrival(self) -> None:
        if self.cycle is None:
            self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
