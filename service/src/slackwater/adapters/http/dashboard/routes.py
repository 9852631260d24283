"""The routes of the dashboard: its files, the stream of its data, and figures over time.

- The files come from package data, each under a fixed path; no path of a request is used to find a file. They are read once.
  Their headers allow the page to load and run only this listener's own files.
- `GET /dashboard/events` sends the frames of `update_frames` as server-sent events to at most `MOST_LISTENERS` browsers. A
  stream first sends a frame with everything (`board`), then frames with changes. It ends when the browser disconnects or does
  not read for `_SEND_SECONDS`, after `LONGEST_SECONDS` (the browser reconnects by itself), and when the service stops. Requests
  above `MOST_LISTENERS` get 503.
- `GET /series`: the overview's figures of the last hour and day. `GET /dashboard/story/...`: what happened to one object.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from html import escape
from importlib import resources
from typing import Annotated, Any, Final, Literal

import anyio
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from msgspec import Meta, convert
from starlette.types import Receive, Scope, Send

from slackwater.adapters.http.answers import JSON, described, encoded
from slackwater.adapters.http.dashboard.update_frames import PERIOD_SECONDS, Frames
from slackwater.model.json_answer import JsonAnswer
from slackwater.runtime.dashboard.observer import DashboardObserver
from slackwater.runtime.dashboard.series import SeriesAnswer

PAGE_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    # After an upgrade the browser must load the new page, since page and stream of one version belong together.
    "cache-control": "no-cache",
}
_MEDIA: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


#: Where the page has the notices that concern all its views.
_NOTICES: Final = "<!-- notices -->"


def notices_html(notices: Iterable[str]) -> str:
    """The notices at the top of each page, without empty ones."""
    return "".join(f'<p class="notice">{escape(notice)}</p>' for notice in notices if notice)


def add_pages(app: FastAPI, notices: Iterable[str]) -> None:
    """Adds the page at `/` and its other files under `/dashboard/`. `notices` are shown above every view."""
    source = resources.files(__package__).joinpath("static", "index.html").read_text("utf-8")
    page = source.replace(_NOTICES, notices_html(notices))

    @app.get("/", response_class=HTMLResponse, summary="The dashboard")
    async def dashboard() -> HTMLResponse:
        return HTMLResponse(page, headers=PAGE_HEADERS)

    for entry in sorted(resources.files(__package__).joinpath("static").iterdir(), key=lambda entry: entry.name):
        media = _MEDIA.get(entry.name.rpartition(".")[2])
        if media is not None:
            _add_file(app, entry.name, media, entry.read_bytes())


def _add_file(app: FastAPI, name: str, media: str, content: bytes) -> None:
    async def file(_request: Request) -> Response:
        return Response(content, media_type=media, headers=PAGE_HEADERS)

    app.add_route(f"/dashboard/{name}", file, methods=["GET"])


MOST_LISTENERS: Final = 16
#: Interval of comments on a stream without events: only sending shows that a connection is lost.
HEARTBEAT_SECONDS: Final = 15.0
#: A stream ends if the browser does not read an event within this time.
_SEND_SECONDS: Final = 20.0
LONGEST_SECONDS: Final = 1800.0
_HEADERS: Final = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-accel-buffering": "no",  # otherwise nginx would buffer the events
}
_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Events `board` (everything), then `change` (what differs from the frame before); the data is JSON.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    },
    503: {
        "description": f"Not everything was listed once, {MOST_LISTENERS} listeners are there already, or the service stops.",
        "content": {
            "application/json": {
                "schema": {"type": "object", "required": ["detail"], "properties": {"detail": {"type": "string"}}}
            }
        },
    },
}


class OpenStreams:
    """The open streams, at most `most`. `close` ends all of them and refuses new ones."""

    def __init__(self, most: int = MOST_LISTENERS) -> None:
        self._most = most
        self.scopes: set[anyio.CancelScope] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self.scopes)

    @property
    def full(self) -> bool:
        return self._closed or len(self.scopes) >= self._most

    def close(self) -> None:
        self._closed = True
        for scope in self.scopes:
            scope.cancel()


class _Stream(Response):
    """The response with the events of one stream. The module's docstring lists what ends a stream."""

    media_type = "text/event-stream"

    def __init__(self, frames: Frames, listeners: OpenStreams) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._frames = frames
        self._listeners = listeners

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._listeners.full:
            await _refused(f"{len(self._listeners)} listeners are there already, or the service stops")(scope, receive, send)
            return
        with anyio.move_on_after(LONGEST_SECONDS) as whole:
            self._listeners.scopes.add(whole)
            try:
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                async with anyio.create_task_group() as group:
                    group.start_soon(_until_gone, receive, group.cancel_scope)
                    await self._send_frames(send)
                    group.cancel_scope.cancel()
            finally:
                self._listeners.scopes.discard(whole)
        # Ends the response properly. The browser may have disconnected already.
        with anyio.move_on_after(1, shield=True), suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_frames(self, send: Send) -> None:
        seen, silent_since = 0, anyio.current_time()
        while True:
            events = await self._frames.after(seen)
            body = b"".join(b"event: %s\ndata: %s\n\n" % (event.encode(), data) for _, event, data in events)
            if not body and anyio.current_time() - silent_since >= HEARTBEAT_SECONDS:
                body = b": still here\n\n"
            if body:
                with anyio.move_on_after(_SEND_SECONDS) as sending:
                    await send({"type": "http.response.body", "body": body, "more_body": True})
                if sending.cancelled_caught:
                    return
                silent_since = anyio.current_time()
            seen = events[-1][0] if events else seen
            await anyio.sleep(PERIOD_SECONDS)


def _refused(why: str) -> Response:
    return JSONResponse({"detail": why}, status_code=503, headers={"retry-after": "5"})


async def _until_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def add_stream(app: FastAPI, frames: Frames, listeners: OpenStreams, *, ready: Callable[[], bool]) -> None:
    """Adds the route of the stream. It answers 503 until `ready`."""

    @app.get("/dashboard/events", summary="What the dashboard draws", response_class=Response, responses=_ANSWERS)
    async def events() -> Response:
        if not ready():
            return _refused("the cluster state is not complete yet, see /readyz")
        return _Stream(frames, listeners)


#: The most decisions of a story.
_MOST_STEPS: Final = 200


class Step(JsonAnswer, frozen=True, kw_only=True):
    """One decision, or something seen, that concerns the object."""

    at: Annotated[float, Meta(description="Unix time.")]
    kind: str
    about: str
    name: str
    text: str
    verdict: str
    instead: Annotated[str, Meta(description="What else was considered.")]
    times: Annotated[int, Meta(description="How often it was decided; one that is not carried out is decided again.")]
    until: Annotated[float, Meta(description="Unix time of the last of several times; 0 for once.")]


class Story(JsonAnswer, frozen=True, kw_only=True):
    """What happened to one object since the service started, oldest first. Only the newest decisions of each kind are kept."""

    steps: list[Step]


def add_series(app: FastAPI, observer: DashboardObserver) -> None:
    @app.get(
        "/series", summary="Figures of the last hour and day", response_class=Response, responses={200: described(SeriesAnswer)}
    )
    async def series() -> Response:
        return Response(observer.series.encoded(), media_type=JSON)

    def story_of(kind: str, name: str) -> Response:
        steps = observer.decision_log.story(kind, name, _MOST_STEPS)
        return encoded(Story(steps=convert(steps, tuple[Step, ...], from_attributes=True)))

    @app.get(
        "/dashboard/story/pods/{namespace}/{name}",
        summary="What happened to a pod",
        response_class=Response,
        responses={200: described(Story)},
    )
    async def story_of_pod(namespace: str, name: str) -> Response:
        return story_of("pods", f"{namespace}/{name}")

    @app.get(
        "/dashboard/story/{kind}/{name}",
        summary="What happened to a node or node group",
        response_class=Response,
        responses={200: described(Story)},
    )
    async def story(kind: Literal["nodes", "groups"], name: str) -> Response:
        return story_of(kind, name)
