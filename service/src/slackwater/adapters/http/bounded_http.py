"""uvicorn's HTTP/1.1 protocol for the ops listener's ASGI application, with limits and the peer's certificate added.

There are limits for the number of connections, the size of a request's head, the time from a request's first byte to its last,
and the time for which an answer may stay unread. The route that reads a body limits the body's size; an unread body is not
taken from the socket. The common name of the client certificate is put into the request's state as `peer`, where nothing that a
caller writes can replace it.
"""

import asyncio
from typing import Any, Final, cast

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from slackwater.adapters.http.application import ConnectionSlot, Enter
from slackwater.adapters.http.callers import host_of, peer_name
from slackwater.adapters.http.http_server import UNREAD_SECONDS
from slackwater.adapters.http.request_parser import RequestParser, origin_form

MAX_CONNECTIONS: Final = 512
#: Limit of one request's path and headers.
MAX_HEAD_BYTES: Final = 64 * 1024
ARRIVE_SECONDS: Final = 30.0
#: After a refusal the connection stays open for this long, so that a caller that still sends can read the answer.
LINGER_SECONDS: Final = 2.0
_HEAD_TOO_LARGE: Final = 431, f"path and headers: more than {MAX_HEAD_BYTES} bytes"


class _Refused(Exception):
    """Raised in a callback of the parser to stop it."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection of the ops listener. `enter` takes a place for the connection in the listener's `ConnectionLimiter`."""

    _head_bytes = 0
    _unseen_bytes = 0  #: bytes given to the parser since its last callback; the parser buffers a header until its end arrives
    _refusal: tuple[int, str] | None = None
    _ended = False
    _late: asyncio.TimerHandle | None = None
    _peer: str | None = None
    _unread: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, enter: Enter, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._enter = enter
        self._place: ConnectionSlot | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        # Replaces uvicorn's parser, which has the same leniency.
        self.parser = cast("httptools.HttpRequestParser", RequestParser(self, lenient_data_after_close=True))
        entered = self._enter(host_of(transport))
        if isinstance(entered, str):
            self._end(503, entered)
            return
        self._place = entered
        self._peer = peer_name(transport)
        self._late = self.loop.call_later(ARRIVE_SECONDS, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_late()
        self._forget_unread()
        if self._place is not None:
            self._place.release()
        cast("RequestParser", self.parser).close()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget_unread()

    def _forget_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self._unseen_bytes += len(data)
        super().data_received(data)
        if self._unseen_bytes > MAX_HEAD_BYTES:
            self._end(*_HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0
        self.scope["state"]["peer"] = self._peer
        self._forget_late()
        self._late = self.loop.call_later(ARRIVE_SECONDS, self._end, 408, f"request: not complete in {ARRIVE_SECONDS:g} s")

    def on_url(self, url: bytes) -> None:
        self._bound_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._bound_head(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._unseen_bytes = 0
        self.url = origin_form(self.url)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unseen_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unseen_bytes = 0
        self._forget_late()
        super().on_message_complete()

    def _bound_head(self, more: int) -> None:
        self._unseen_bytes = 0
        self._head_bytes += more
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refusal = _HEAD_TOO_LARGE
            raise _Refused

    def _forget_late(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def send_400_response(self, msg: str) -> None:
        """Answers an unparsable request; uvicorn calls this after any error of the parser."""
        self._end(*(self._refusal or (400, msg)))

    def _end(self, status: int, text: str) -> None:
        """Writes a last answer and closes the connection; closes at once if another answer has begun, to not corrupt it."""
        if self._ended:
            return
        self._ended = True
        self._forget_late()
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request, unlike uvicorn's annotation
        if cycle is not None and not cycle.response_complete:
            self.transport.close()
            return
        body = text.encode("ascii", "replace")
        head = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + body)
        # A caller that is cut off while it still sends may lose the answer.
        self._late = self.loop.call_later(LINGER_SECONDS, self.transport.close)
