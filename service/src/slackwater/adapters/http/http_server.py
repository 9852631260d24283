"""HTTP/1.1 for one connection of a listener that answers whole questions: no ASGI between the socket and the verb.

uvicorn accepts, speaks TLS and stops the listener; httptools parses; here a request's body goes to the application as soon as
it is whole, and its answer leaves in one write, head and body together. Scheduling waits for every call, and ASGI with its
task, its messages and uvicorn's second write cost a call more than the decision does (docs/adr/0020).

Requests of one connection are answered in their order, one at a time. Bounded, on the application's `Terms`: the body, and the
time in which a request must have arrived; besides, the time a connection may be idle, and the connections.
"""

import asyncio
import http
from collections import deque
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, cast

import httptools
import uvicorn
from uvicorn.server import ServerState

from slackwater.adapters.http.connection_limiter import BodyBudget, Enter, Place
from slackwater.adapters.http.peer import host_of, peer_name
from slackwater.adapters.http.requestparser import RequestParser, origin_form

#: How often a connection is looked at for being idle, at most.
_LOOK_SECONDS: Final = 30.0
#: Of the head of one request: path and headers.
_MAX_HEAD_BYTES: Final = 64 * 1024
#: For a caller that is sending what nobody reads, to find its answer.
_LINGER_SECONDS: Final = 2.0
#: For a caller to take the answers that wait for it; then they are thrown away, and the connection with them.
UNREAD_SECONDS: Final = 30.0
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_REASONS: Final = {status.value: status.phrase.encode() for status in http.HTTPStatus}
_JSON: Final = b"application/json"
_OK: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"

#: (name, value) each; names in lower case.
Headers = Sequence[tuple[bytes, bytes]]


class Request(NamedTuple):
    """One request, read. `whole`: not so if its body is longer than is ever read (`Terms.read_body_bytes`)."""

    method: str
    path: str
    body: bytes
    keep_alive: bool = True
    headers: Headers = ()  #: those of `Terms.headers`
    peer: str | None = None  #: the name of the caller's certificate; None where it presented none
    whole: bool = True


class Answer(NamedTuple):
    """What is written: `headers` besides content-type, content-length and connection."""

    status: int
    body: bytes
    media_type: bytes = _JSON
    headers: Headers = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On which terms an application takes requests."""

    max_body_bytes: int  #: a longer one is refused with 413, but see `read_body_bytes`
    #: Only so much of a body is given on. Then one that is too long is no fault: what was read is answered, and the connection
    #: closed.
    read_body_bytes: int | None = None
    arrive_seconds: float = 30.0  #: from a request's first byte to its last; else 408, or nothing to half a head
    headers: frozenset[bytes] = frozenset()  #: names, in lower case, of the headers that it wants to see
    bodies: BodyBudget | None = None  #: what all bodies together may take, where each is kept whole
    ends_with_caller: bool = False  #: what is awaited for an answer is cancelled when the caller hangs up


class Application(Protocol):
    """What answers. Never raises."""

    @property
    def terms(self) -> Terms: ...

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        """The answer to a request, or what will give it."""

    def refusal(self, status: int, path: str, message: str) -> Answer:
        """The answer to one that is not read to its end, or is no HTTP."""


class DirectProtocol(asyncio.Protocol):
    """One connection. uvicorn makes it, and asks it to `shutdown`."""

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
        self._place: Place | None = None
        self._held = 0  # bytes of bodies, as `Terms.bodies` counts them
        self._app = cast("Application", config.app)
        self._peer: str | None = None
        self._idle_seconds = config.timeout_keep_alive
        self._state = server_state
        self._connections: set[Any] = server_state.connections  # whatever can be shut down
        self._loop = _loop or asyncio.get_running_loop()
        self._parser = RequestParser(self)
        self._transport: asyncio.Transport
        self._waiting: deque[Request] = deque()
        self._task: asyncio.Task[None] | None = None
        self._done = False  # what comes is thrown away, and the connection ends with the answer that is under way
        self._deaf = False  # what comes is thrown away, and what has come is answered
        self._crowded = False
        self._receiving = False
        self._unseen_bytes = 0  # given to the parser since it last told us of something: it keeps a header until it is whole
        self._since = self._loop.time()
        self._check: asyncio.TimerHandle | None = None
        self._late: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._begin()

    # --- the connection -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are no subclass
        entered = self._enter(host_of(transport))
        if isinstance(entered, str):
            self._refuse(503, entered)
            return
        self._place = entered
        self._connections.add(self)
        self._peer = peer_name(transport)
        self._check = self._loop.call_later(_LOOK_SECONDS, self._check_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self._done = True
        self._waiting.clear()
        self._connections.discard(self)
        if self._place is not None:
            self._place.leave()
        self._give_back(self._held)
        for timer in (self._check, self._late, self._unread):
            if timer is not None:
                timer.cancel()
        if self._task is not None and self._terms.ends_with_caller:
            self._task.cancel()

    def shutdown(self) -> None:
        """No more requests; the one that is being answered still gets its answer."""
        self._done = True
        if self._task is None:
            self._transport.close()

    def pause_writing(self) -> None:
        """Who does not take its answers asks no more."""
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
        """Ends a connection on which nothing happens for too long."""
        left = self._since + self._idle_seconds - self._loop.time()
        if self._task is None and not self._receiving and left <= 0:
            self._transport.close()
        else:
            self._check = self._loop.call_later(min(max(left, 1.0), _LOOK_SECONDS), self._check_idle)

    def _check_arrival(self) -> None:
        """Ends a connection on which a request does not arrive; but nothing is read while an earlier one is answered."""
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
        if self._task is not None:
            self._transport.pause_reading()  # not before something comes: who hangs up is noticed only while we read
        self._unseen_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._refuse(400, f"this is no HTTP/1.1 request: {error}")
        if self._unseen_bytes > _MAX_HEAD_BYTES:
            self._refuse_head()
        if self._receiving and self._late is None and not self._done:
            self._late = self._loop.call_later(self._terms.arrive_seconds, self._check_arrival)

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
        elif terms.bodies is not None and not terms.bodies.take(len(chunk)):
            self._refuse(503, f"body: {terms.bodies.most_bytes} bytes of questions are being answered, and no more are taken")
        else:
            self._held += len(chunk) if terms.bodies is not None else 0
            self._chunks.append(chunk)

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
        request = Request(method, self._plain_path(), body, keep_alive and whole, self._headers, self._peer, whole)
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
        except BaseException:  # cancelled, or a fault of the application
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
        usual = keep_alive and answer.status == 200 and not answer.headers and answer.media_type is _JSON
        head = _OK % len(answer.body) if usual else _head(answer, keep_alive=keep_alive)
        self._transport.write(head if request.method == "HEAD" else head + answer.body)
        if not request.whole:
            self._done = True
            self._linger()
        elif not keep_alive:
            self._done = True
            self._transport.close()

    def _give_back(self, n_bytes: int) -> None:
        """So much of its bodies is kept no longer."""
        if self._terms.bodies is not None:
            self._terms.bodies.give_back(n_bytes)
            self._held -= n_bytes

    def _linger(self) -> None:
        """Closes when the caller has had time to read the answer: were it cut off while it still sends, it might lose that."""
        if self._check is not None:
            self._check.cancel()
        self._check = self._loop.call_later(_LINGER_SECONDS, self._transport.close)

    def _refuse_body(self) -> None:
        self._refuse(413, f"body: more than {self._terms.max_body_bytes} bytes")

    def _refuse(self, status: int, message: str) -> None:
        """For what is not read to its end: what comes after it on this connection cannot be distinguished."""
        if self._done or self._deaf or self._transport.is_closing():
            return
        self._done = True
        if self._task is not None:
            return  # its own answer is the last one then
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
