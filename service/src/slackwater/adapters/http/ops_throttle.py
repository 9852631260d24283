"""An ASGI middleware that limits the ops listener's share of the event loop, which also answers kube-scheduler and agents.

    health                                                  answered at once, always
    dashboard stream, explanations, what-if, drains         answered at once; most of them have limits of their own
    everything else                                         one request at a time, with a pause between two requests

The pause grows with the time that the previous request took. Number and time of waiting requests are bounded; above a bound a
request gets 503 with Retry-After.
"""

from collections.abc import Callable
from typing import Any, Final

import anyio
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

HEALTH: Final = frozenset({"/livez", "/readyz", "/healthz"})
#: The pause after a request, as a multiple of the time it took, up to `_LONGEST_REST_SECONDS`.
_REST: Final = 3.0
_LONGEST_REST_SECONDS: Final = 0.5
_MOST_WAITING: Final = 32
_WAIT_SECONDS: Final = 10.0
#: The path of the largest answer, the whole state. At most `_MOST_LARGE` of these answers are in memory at once, each until its
#: last byte is sent.
_LARGE: Final = "/dumpstate"
_MOST_LARGE: Final = 2
_BOUND_THEMSELVES: Final = ("/dashboard/events", "/explain/", "/simulate/", "/drains/")


class OpsThrottle:
    """Runs one throttled request of the ops listener at a time. `clock` counts seconds."""

    def __init__(self, app: ASGIApp, *, clock: Callable[[], float] = anyio.current_time) -> None:
        self._app = app
        self._clock = clock
        self._turn = anyio.Lock()
        self._large = anyio.Semaphore(_MOST_LARGE)
        self._rest_until = 0.0
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
        """Waits for the end of the pause, then runs the application and returns its whole answer as ASGI messages."""
        await anyio.sleep(max(self._rest_until - self._clock(), 0.0))
        began = self._clock()
        made: list[Any] = []

        async def keep(message: Any) -> None:
            last = message["type"] == "http.response.body" and not message.get("more_body", False)
            made.append({**message, "more_body": True} if last else message)
            if last:  # the end is a message of its own, so that it is sent only after the caller has taken the body
                made.append({"type": "http.response.body", "body": b"", "more_body": False})

        await self._app(scope, receive, keep)
        took = self._clock() - began
        self._rest_until = self._clock() + min(_REST * took, _LONGEST_REST_SECONDS)
        return made


def _busy(why: str) -> JSONResponse:
    return JSONResponse({"detail": f"{why}; ask again"}, status_code=503, headers={"retry-after": "1"})
