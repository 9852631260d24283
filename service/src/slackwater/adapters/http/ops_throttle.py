"""Keeps requests to the ops listener from delaying scheduling: it runs them one at a time, with pauses.

    health                                       at once, always
    the dashboard's stream, explain, what-if     at once: they limit themselves
    everything else                              one at a time; the pause before the next grows with the time that the last took

The number of waiting requests and their time are limited. A request beyond that gets 503 with Retry-After. A caller without
others beside it never waits. This is an ASGI middleware.
"""

from collections.abc import Callable
from typing import Any, Final

import anyio
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

HEALTH: Final = frozenset({"/livez", "/readyz", "/healthz"})
#: While others wait, a request is followed by a pause this many times as long as the request took.
_REST: Final = 3.0
_LONGEST_REST_SECONDS: Final = 0.5
_MOST_WAITING: Final = 32
_WAIT_SECONDS: Final = 10.0
#: Dumps of the whole state at the same time, from the first byte made to the last byte sent.
_LARGE: Final = "/dumpstate"
_MOST_LARGE: Final = 2
_BOUND_THEMSELVES: Final = ("/dashboard/events", "/explain/", "/simulate/", "/drains/")


class OpsThrottle:
    """Runs one request of the ops listener at a time."""

    def __init__(self, app: ASGIApp, *, clock: Callable[[], float] = anyio.current_time) -> None:
        self._app = app
        self._clock = clock
        self._turn = anyio.Lock()
        self._large = anyio.Semaphore(_MOST_LARGE)
        self._rested_at = 0.0
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or path in HEALTH or path.startswith(_BOUND_THEMSELVES):
            await self._app(scope, receive, send)
            return
        if self._waiting >= _MOST_WAITING:
            await _busy(f"{self._waiting} requests wait already")(scope, receive, send)
            return
        if path == _LARGE:
            async with self._large:
                await self._in_turn(scope, receive, send)
        else:
            await self._in_turn(scope, receive, send)

    async def _in_turn(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._waiting += 1
        try:
            with anyio.move_on_after(_WAIT_SECONDS) as wait:
                await self._turn.acquire()
        finally:
            self._waiting -= 1
        if wait.cancelled_caught:
            await _busy(f"others were answered for {_WAIT_SECONDS:g} s")(scope, receive, send)
            return
        try:
            made = await self._made(scope, receive)
        finally:
            self._turn.release()
        for message in made:
            await send(message)

    async def _made(self, scope: Scope, receive: Receive) -> list[Any]:
        """Makes the whole answer. No other is made meanwhile."""
        await anyio.sleep(max(self._rested_at - self._clock(), 0.0))
        began = self._clock()
        made: list[Any] = []

        async def keep(message: Any) -> None:
            last = message["type"] == "http.response.body" and not message.get("more_body", False)
            made.append({**message, "more_body": True} if last else message)
            if last:  # sent when the caller has read the earlier parts
                made.append({"type": "http.response.body", "body": b"", "more_body": False})

        await self._app(scope, receive, keep)
        took = self._clock() - began
        self._rested_at = self._clock() + min(_REST * took, _LONGEST_REST_SECONDS)
        return made


def _busy(why: str) -> JSONResponse:
    return JSONResponse({"detail": f"{why}; ask again"}, status_code=503, headers={"retry-after": "1"})
