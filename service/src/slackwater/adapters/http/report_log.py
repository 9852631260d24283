"""The log of which `slackwater report` makes its report, on the ops listener: `GET /report`.

The log is streamed, so it takes the room of one part. The number of readers and the time of each are bounded.
"""

from contextlib import aclosing
from typing import Annotated, Any, Final

import anyio
from fastapi import FastAPI, Response
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from slackwater.adapters.http.answers import JSON_LINES, Refused, described
from slackwater.adapters.http.questions import BAD, NOT_FOUND, NOT_NOW, SINCE, seconds_of
from slackwater.ports.protocols import NothingThere, ReportLog

_MOST_READERS: Final = 2
_LONGEST_SECONDS: Final = 600.0
_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "A line of JSON for each thing that happened.",
        "content": {JSON_LINES: {"schema": {"type": "string"}}},
    },
    BAD: described(Refused, "`since` is no duration."),
    NOT_FOUND: described(Refused, "No log is written; `detail` says why."),
    NOT_NOW: described(Refused, "Others read the log."),
}


def add_report(app: FastAPI, log: ReportLog | None) -> None:
    """Adds the route. `log`: None if the service writes none."""
    readers = anyio.Semaphore(_MOST_READERS)

    @app.get(
        "/report",
        summary="The log of nodes, money and decisions, of which `slackwater report` makes its report",
        response_class=Response,
        responses=_ANSWERS,
    )
    async def report(since: Annotated[str | None, SINCE] = None) -> Response:
        back = seconds_of(since)
        if log is None:
            return _refused(NOT_FOUND, "no log is written: this service keeps none of nodes, money and decisions")
        return _Stream(log, back, readers)


def _refused(status: int, why: str) -> Response:
    return JSONResponse({"detail": why}, status)


class _Stream(Response):
    """Sends the log. Its end is missing if a reader takes too long, so that the reader notices."""

    media_type = JSON_LINES

    def __init__(self, log: ReportLog, back: float | None, readers: anyio.Semaphore) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._log = log
        self._back = back
        self._readers = readers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._readers.value:
            await _refused(NOT_NOW, f"{_MOST_READERS} others read the log; ask again")(scope, receive, send)
            return
        with anyio.move_on_after(_LONGEST_SECONDS):
            async with self._readers, aclosing(self._log(self._back)) as parts:
                try:
                    first = await anext(parts, b"")
                except NothingThere as missing:
                    await _refused(NOT_FOUND, f"no log is written: {missing}")(scope, receive, send)
                    return
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await send({"type": "http.response.body", "body": first, "more_body": True})
                async for part in parts:
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
