"""The HTTP/1.1 server of the extender's and the agents' listeners: passes whole requests to an `Application`, without ASGI.

uvicorn accepts connections and stops the listener; httptools parses. `DirectProtocol` passes a request to the application when
its body is complete, and writes head and body of the answer at once. kube-scheduler waits for every call, and ASGI's task,
its messages and uvicorn's second write cost more than the decision itself (docs/adr/0020).

Requests of one connection are answered one at a time, in the order of arrival. The application's `RequestTerms` bound the size
of a body and the time in which a request must arrive; the server bounds idle time, heads and connections.
"""

import asyncio
import http
from collections import deque
from collections.abc import Awaitable
from typing import Any, Final, cast

import httptools
import uvicorn
from uvicorn.server import ServerState

from slackwater.adapters.http.application import JSON, Answer, Application, ConnectionSlot, Enter, Request
from slackwater.adapters.http.callers import host_of, peer_name
from slackwater.adapters.http.request_parser import RepeatedHeads, RequestParser, origin_form

#: Upper bound of the interval at which a connection is checked for being idle.
_LOOK_SECONDS: Final = 30.0
#: Limit of one request's head: path and headers.
_MAX_HEAD_BYTES: Final = 64 * 1024
#: After a refusal the connection stays open for this long, so that a caller that still sends can read the answer.
_LINGER_SECONDS: Final = 2.0
#: A caller must read answers that wait in the socket within this time; otherwise the connection is aborted.
UNREAD_SECONDS: Final = 30.0
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_REASONS: Final = {status.value: status.phrase.encode() for status in http.HTTPStatus}
_OK: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


class DirectProtocol(asyncio.Protocol):
    """One HTTP connection. uvicorn creates this object, and calls `shutdown` when the listener stops.

    `enter` takes a place for the connection in the listener's `ConnectionLimiter`.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: Any,
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        enter: Enter,
    ) -> None:
        self._enter = enter
        self._place: ConnectionSlot | None = None
        self._held = 0  # bytes that this connection has taken from `RequestTerms.bodies`
        self._app = cast("Application", config.app)
        self._peer: str | None = None
        self._address = ""
        self._idle_seconds = config.timeout_keep_alive
        self._state = server_state
        self._connections: set[Any] = server_state.connections  # uvicorn calls `shutdown` of each
        self._loop = _loop or asyncio.get_running_loop()
        self._parser = RequestParser(self)
        self._transport: asyncio.Transport
        self._waiting: deque[Request] = deque()
        self._heads = RepeatedHeads()
        self._latest: Request | None = None  # the last one that ended within the data that is being read
        self._task: asyncio.Task[None] | None = None
        self._done = False  # input is discarded, and the connection ends after the pending answer
        self._deaf = False  # input is discarded, but all requests received so far are answered
        self._crowded = False
        self._receiving = False
        self._unseen_bytes = 0  # given to the parser since its last callback; the parser buffers a header until its end arrives
        self._since = self._loop.time()
        self._check: asyncio.TimerHandle | None = None
        self._late: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._begin()

    # --- the connection -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports are not subclasses
        self._address = host_of(transport)
        entered = self._enter(self._address)
        if isinstance(entered, str):
            self._refuse(503, entered)
            return
        self._place = entered
        self._connections.add(self)
        self._peer = peer_name(transport)
        self._check = self._loop.call_later(_LOOK_SECONDS, self._check_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self._done = True
        self._parser.close()
        self._waiting.clear()
        self._connections.discard(self)
        if self._place is not None:
            self._place.release()
        self._give_back(self._held)
        for timer in (self._check, self._late, self._unread):
            if timer is not None:
                timer.cancel()
        if self._task is not None and self._terms.ends_with_caller:
            self._task.cancel()

    def shutdown(self) -> None:
        """Accepts no more requests; a pending answer is still written."""
        self._done = True
        if self._task is None:
            self._transport.close()

    def pause_writing(self) -> None:
        """Stops reading requests while the caller does not read its answers; aborts after `UNREAD_SECONDS`."""
        self._crowded = True
        self._transport.pause_reading()
        self._unread = self._loop.call_later(UNREAD_SECONDS, self._transport.abort)

    def resume_writing(self) -> None:
        self._crowded = False
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        self._read_on()

    def _read_on(self) -> None:
        if self._task is None and not self._crowded and not self._transport.is_closing():
            self._transport.resume_reading()

    def _check_idle(self) -> None:
        """Closes the connection if it has been idle for longer than uvicorn's `timeout_keep_alive`."""
        left = self._since + self._idle_seconds - self._loop.time()
        if self._task is None and not self._receiving and left <= 0:
            self._transport.close()
        else:
            self._check = self._loop.call_later(min(max(left, 1.0), _LOOK_SECONDS), self._check_idle)

    def _check_arrival(self) -> None:
        """Refuses a request that has not arrived in time.

        While an earlier request is being answered nothing is read, so the check is repeated later.
        """
        self._late = None
        if self._task is not None:
            self._late = self._loop.call_later(self._terms.arrive_seconds, self._check_arrival)
        elif self._headed:
            self._refuse(408, f"body: not complete within {self._terms.arrive_seconds:g} s")
        else:
            self._transport.close()

    # --- requests -----------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._done or self._deaf:
            return
        begins = self._task is None and not self._receiving
        if begins and (request := self._heads.request_in(data)) is not None and self._takes(request):
            return
        if self._task is not None:
            self._transport.pause_reading()  # not before data comes: while reading is paused, a hang-up is not noticed
        self._unseen_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._refuse(400, f"this is no HTTP/1.1 request: {error}")
        if self._unseen_bytes > _MAX_HEAD_BYTES:
            self._refuse_head()
        if self._receiving and self._late is None and not self._done:
            self._late = self._loop.call_later(self._terms.arrive_seconds, self._check_arrival)
        if begins and self._latest is not None and self._terms.read_body_bytes is None:
            self._heads.learn(data, self._latest)
        self._latest = None

    def _takes(self, request: Request) -> bool:
        """Answers a request that was recognized. False if its body exceeds a limit: the parser then reads and refuses it."""
        if len(request.body) > self._terms.max_body_bytes or not self._kept(len(request.body)):
            return False
        self._waiting.append(request)
        self._answer_waiting()
        return True

    def _begin(self) -> None:
        self._terms = self._app.terms
        self._path = b""
        self._chunks: list[bytes] = []
        self._head_bytes = self._body_bytes = 0
        self._declared = 0
        self._expects = self._headed = False
        self._headers: list[tuple[bytes, bytes]] = []

    def on_message_begin(self) -> None:
        if self._deaf:
            return
        self._begin()
        self._receiving = True
        self._since = self._loop.time()

    def on_url(self, url: bytes) -> None:
        self._path += url
        self._unseen_bytes = 0
        self._bound_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._unseen_bytes = 0
        self._bound_head(len(name) + len(value))
        match name.lower():
            case b"content-length" if value.isdigit():
                self._declared = int(value)
            case b"expect":
                self._expects = value.lower() == b"100-continue"
            case wanted if wanted in self._terms.headers:
                self._headers.append((wanted, value))
            case _:
                pass

    def on_headers_complete(self) -> None:
        self._headed = True
        self._unseen_bytes = 0
        if self._declared > self._terms.max_body_bytes and self._terms.read_body_bytes is None:
            self._refuse_body()
        elif self._expects and not self._done and not self._deaf:
            self._transport.write(_CONTINUE)

    def on_body(self, chunk: bytes) -> None:
        self._unseen_bytes = 0
        if self._done or self._deaf:
            return
        before, terms = self._body_bytes, self._terms
        self._body_bytes += len(chunk)
        if terms.read_body_bytes is not None:
            if before < terms.read_body_bytes:
                self._chunks.append(chunk[: terms.read_body_bytes - before])
            if self._body_bytes > terms.max_body_bytes:
                self._arrived(whole=False)
        elif self._body_bytes > terms.max_body_bytes:
            self._refuse_body()
        elif self._kept(len(chunk)):
            self._chunks.append(chunk)
        elif terms.bodies is not None:
            self._refuse(503, f"body: {terms.bodies.most_bytes} bytes of questions are being answered, and no more are taken")

    def on_message_complete(self) -> None:
        self._unseen_bytes = 0
        if not (self._done or self._deaf):
            self._arrived(whole=True)
        self._receiving = False

    def _arrived(self, *, whole: bool) -> None:
        self._receiving, self._deaf = False, not whole
        if self._late is not None:
            self._late.cancel()
            self._late = None
        body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        method, keep_alive = self._parser.get_method().decode("latin-1"), self._parser.should_keep_alive()
        request = Request(
            method, self._plain_path(), body, keep_alive and whole, self._headers, self._peer, whole, self._address
        )
        self._latest = request
        self._waiting.append(request)
        if self._task is None:
            self._answer_waiting()

    def _plain_path(self) -> str:
        return origin_form(self._path).partition(b"?")[0].decode("latin-1")

    def _bound_head(self, more: int) -> None:
        self._head_bytes += more
        if self._head_bytes > _MAX_HEAD_BYTES:
            self._refuse_head()

    def _refuse_head(self) -> None:
        self._refuse(431, f"path and headers: more than {_MAX_HEAD_BYTES} bytes")

    # --- answers ------------------------------------------------------------------------------------------------------

    def _answer_waiting(self) -> None:
        while self._waiting:
            request = self._waiting.popleft()
            answer = self._app.answer(request)
            if not isinstance(answer, Answer):
                self._task = self._loop.create_task(self._answer_later(request, answer))
                self._state.tasks.add(self._task)
                self._task.add_done_callback(self._state.tasks.discard)
                return
            self._write(request, answer)

    async def _answer_later(self, request: Request, pending: Awaitable[Answer]) -> None:
        try:
            self._write(request, await pending)
        except BaseException:  # cancelled, or a bug in the application: without an answer the connection must end
            self._transport.close()
            raise
        finally:
            self._task = None
        self._answer_waiting()
        self._read_on()

    def _write(self, request: Request, answer: Answer) -> None:
        self._since = self._loop.time()
        self._give_back(min(len(request.body), self._held))
        if self._transport.is_closing():
            return
        keep_alive = request.keep_alive and not self._done
        usual = keep_alive and answer.status == 200 and not answer.headers and answer.media_type is JSON
        head = _OK % len(answer.body) if usual else _head(answer, keep_alive=keep_alive)
        self._transport.write(head if request.method == "HEAD" else head + answer.body)
        if not request.whole:
            self._done = True
            self._linger()
        elif not keep_alive:
            self._done = True
            self._transport.close()

    def _kept(self, n_bytes: int) -> bool:
        """Takes `n_bytes` from the budget for bodies, if there is one. False if they exceed it."""
        bodies = self._terms.bodies
        if bodies is None:
            return True
        if not bodies.take(n_bytes):
            return False
        self._held += n_bytes
        return True

    def _give_back(self, n_bytes: int) -> None:
        """Gives `n_bytes` that this connection has taken for bodies back to the budget."""
        if self._terms.bodies is not None:
            self._terms.bodies.give_back(n_bytes)
            self._held -= n_bytes

    def _linger(self) -> None:
        """Closes the connection after `_LINGER_SECONDS`: a caller that is cut off while it still sends may lose the answer."""
        if self._check is not None:
            self._check.cancel()
        self._check = self._loop.call_later(_LINGER_SECONDS, self._transport.close)

    def _refuse_body(self) -> None:
        self._refuse(413, f"body: more than {self._terms.max_body_bytes} bytes")

    def _refuse(self, status: int, message: str) -> None:
        """Answers a request that is not read to its end, and closes the connection.

        The connection cannot be used further: the next bytes may still belong to the unread request.
        """
        if self._done or self._deaf or self._transport.is_closing():
            return
        self._done = True
        if self._task is not None:
            return  # the pending answer to an earlier request becomes the last one
        answer = self._app.refusal(status, self._plain_path(), message)
        self._transport.write(_head(answer, keep_alive=False) + answer.body)
        self._linger()


def _head(answer: Answer, *, keep_alive: bool) -> bytes:
    lines = [
        b"HTTP/1.1 %d %b" % (answer.status, _REASONS[answer.status]),
        b"content-type: %b" % answer.media_type,
        b"content-length: %d" % len(answer.body),
        *(b"%b: %b" % header for header in answer.headers),
    ]
    if not keep_alive:
        lines.append(b"connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n"
