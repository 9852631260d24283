"""HTTP client of the API server: single requests, and watches as raw lines. JSON goes in and out; no objects are decoded here.

- `KubeReader`, `open_reader`: reads of one API server. It sends GET requests without a body and nothing else.
- `KubeClient`, `open_client`: reads and writes.
- `LedApi`: a client that sends writes only while this replica leads.
- `outcome_of`: what the status of an answer says about a write.

Connections come from two pools, so that lists and long watches never take a connection from a write. The client does not ask
for compression: most API servers are near, and compressing costs the server and us more time than it saves. (An answer that a
proxy compresses nevertheless is decoded.) There are no retries. Only a request that got a 401 is sent again, once, with renewed
credentials, because it has changed nothing.
"""

import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from http import HTTPStatus
from types import SimpleNamespace
from typing import Final, Literal, TypeVar
from urllib.parse import urlencode

import aiohttp
import anyio
from yarl import URL

from slackwater.adapters.api_calls import ApiPort, Call, Params, Pool, Read, Response
from slackwater.adapters.kube.access import Access, load_access
from slackwater.adapters.kube.errors import AnswerTooLarge, MalformedAnswer, NoAnswer, NotLeading, Unreachable, refused
from slackwater.adapters.kube.tokens import REVIEWS_PATH
from slackwater.ports.protocols import Outcome
from slackwater_protocol import __version__

#: The API server stores no object above 1.5 MiB or so; JSON, with its managed fields, is a few times that.
LONGEST_LINE: Final = 32 * 2**20


class LineSplitter:
    """Splits the bytes of a watch into lines, and keeps an unfinished line until its end arrives.

    `longest` is the limit of a line in bytes. Work and memory are linear in the number of bytes, however small the chunks are.
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._begun = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Adds a chunk; returns the lines that it completes, without newlines and empty lines. Raises `MalformedAnswer`."""
        cut = chunk.rfind(b"\n")
        if cut < 0:
            self._begin(chunk)
            return []
        whole = chunk[:cut]
        if self._begun:
            whole = bytes(self._begun) + whole
            self._begun.clear()
        self._begin(chunk[cut + 1 :])
        return [line for line in whole.split(b"\n") if line]

    def _begin(self, rest: bytes) -> None:
        self._begun += rest
        if len(self._begun) > self._longest:
            raise MalformedAnswer(f"a line of {len(self._begun)} bytes and no end of it, want at most {self._longest}")


_HEADERS: Final = {
    "Accept-Encoding": "identity",
    "User-Agent": f"slackwater/{__version__}",
}
_CONNECT_SECONDS: Final = 10.0
#: A dead peer is detected after 15 + 3 x 15 seconds, also on a watch without events.
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 3))
#: One read returns at most this much of a watch; the rest waits in the kernel.
_READ_BYTES: Final = 2**20


@dataclass(slots=True)
class _Attempt:
    """One attempt of a call. `sent`: a byte may have been sent; a failure before that means that nothing happened."""

    call: Call
    timeout: aiohttp.ClientTimeout | None = None
    method: str = Read.method
    body: bytes | None = None
    sent: bool = False


class KubeReader:
    """Reads from one API server, over pooled connections; implements `ApiReader`. `open_reader` makes and closes it. It has no
    method that writes: `KubeClient` alone passes on a method other than GET, or a body."""

    def __init__(self, access: Access, *, calls: aiohttp.ClientSession, event_sources: aiohttp.ClientSession) -> None:
        self._access = access
        self._sessions: Final[dict[Pool, aiohttp.ClientSession]] = {"calls": calls, "event_sources": event_sources}

    @property
    def url(self) -> str:
        return self._access.endpoint.url

    async def send(self, call: Read) -> Response:
        """Sends one read and reads the whole answer, which is returned even if its status is an error.

        Raises `Unreachable`, `NoAnswer`, `KubeConfigError`, `AnswerTooLarge`, and `TypeError` for anything but a read.
        """
        if not isinstance(call, Read):
            raise TypeError(f"{call}: this client only reads")
        return await self._exchanged(_Attempt(call))

    async def _exchanged(self, attempt: _Attempt) -> Response:
        call = attempt.call
        try:
            with nullcontext() if call.timeout_seconds is None else anyio.fail_after(call.timeout_seconds):
                async with await self._answer(attempt) as answer:
                    return Response(answer.status, await _body(answer, call), answer.headers)
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise self._failure(attempt, error) from error

    async def stream(self, path: str, *, params: Params, silence_seconds: float) -> AsyncGenerator[list[bytes], None]:
        """Yields the lines of a watch, grouped by read; first an empty list, once the server has accepted the watch.

        Ends when the server ends the watch. A server that sends nothing for `silence_seconds` is considered lost. Iterate it
        within `contextlib.aclosing`. Raises `StatusError`, `Unreachable`, `NoAnswer`, `MalformedAnswer`, `KubeConfigError`.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=silence_seconds)
        attempt = _Attempt(Read(path, timeout_seconds=None, params=params, pool="event_sources"), timeout)
        splitter = LineSplitter()
        try:
            async with await self._answer(attempt) as answer:
                if answer.status != HTTPStatus.OK:
                    raise refused(f"watch {path}", Response(answer.status, await answer.read(), answer.headers))
                yield []
                async for chunk in answer.content.iter_any():
                    if lines := splitter.feed(chunk):
                        yield lines
        except (aiohttp.ClientError, OSError) as error:
            raise self._failure(attempt, error) from error

    async def _answer(self, attempt: _Attempt) -> aiohttp.ClientResponse:
        """Sends the request and reads the head of the answer. After a 401 it tries once more if other credentials are
        available.
        """
        endpoint, call = self._access.endpoint, attempt.call
        url = URL(f"{endpoint.url}{call.path}{'?' if call.params else ''}{urlencode(call.params)}", encoded=True)
        while True:
            token = await self._access.authorization()
            answer = await self._sessions[call.pool].request(
                attempt.method,
                url,
                data=attempt.body,
                headers=_headers(call, token, attempt.body),
                allow_redirects=False,
                proxy=endpoint.proxy,
                server_hostname=endpoint.server_name,
                timeout=attempt.timeout,
                trace_request_ctx=attempt,
            )
            if answer.status != HTTPStatus.UNAUTHORIZED or not await self._renewed(answer, token):
                return answer

    async def _renewed(self, answer: aiohttp.ClientResponse, token: str | None) -> bool:
        try:
            renewed = await self._access.renew(token)
        except BaseException:
            answer.close()
            raise
        if renewed:
            answer.release()
        return renewed

    def _failure(self, attempt: _Attempt, error: Exception) -> Unreachable | NoAnswer:
        timed_out = isinstance(error, TimeoutError)
        seen = "no answer in time" if timed_out else str(error) or type(error).__name__
        if attempt.sent:
            return NoAnswer(f"{attempt.call}: {self.url}: {seen}", timed_out=timed_out)
        return Unreachable(f"{attempt.call}: {self.url} cannot be reached: {seen}")


class KubeClient(KubeReader):
    """Reads from and writes to one API server. `open_client` makes and closes it."""

    async def send(self, call: Call) -> Response:
        """Sends one request and reads the whole answer, as `KubeReader` does for reads."""
        return await self._exchanged(_Attempt(call, method=call.method, body=call.body))

    @asynccontextmanager
    async def websocket(self, path: str, *, params: Params, protocol: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Opens a WebSocket with the subprotocol `protocol`, for subresources that stream both ways.

        Raises `StatusError`, `Unreachable`, `KubeConfigError` if it cannot be opened. Use of the open socket raises aiohttp's
        own errors.
        """
        endpoint, what = self._access.endpoint, f"connect {path}"
        try:
            socket = await self._sessions["event_sources"].ws_connect(
                URL(f"{endpoint.url}{path}?{urlencode(params)}", encoded=True),
                protocols=(protocol,),
                headers=_headers(Read(path, timeout_seconds=None, accept="*/*"), await self._access.authorization()),
                proxy=endpoint.proxy,
                server_hostname=endpoint.server_name,
            )
        except aiohttp.WSServerHandshakeError as error:
            raise refused(what, Response(error.status, b"want 101, a WebSocket", error.headers or {})) from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"{what}: {self.url} cannot be reached: {str(error) or type(error).__name__}") from error
        async with socket:
            yield socket


async def _body(answer: aiohttp.ClientResponse, call: Call) -> bytes:
    if call.most_bytes is None:
        return await answer.read()
    chunks, n_bytes = [], 0
    async for chunk in answer.content.iter_any():
        chunks.append(chunk)
        n_bytes += len(chunk)
        if n_bytes > call.most_bytes:
            answer.close()
            raise AnswerTooLarge(f"{call}: more than {call.most_bytes} bytes")
    return b"".join(chunks)


def _headers(call: Call, token: str | None, body: bytes | None = None) -> dict[str, str]:
    headers = {"Accept": call.accept} | ({} if token is None else {"Authorization": token})
    if body is not None:
        headers["Content-Type"] = call.content_type
    return headers


@asynccontextmanager
async def open_client(
    *, kubeconfig: str | None, context: str | None = None, max_calls: int = 32, max_event_sources: int = 48
) -> AsyncIterator[KubeClient]:
    """A client for the kubeconfig's cluster, or for the cluster we run in if `kubeconfig` is None.

    `max_calls` and `max_event_sources` bound the connections of each pool. Raises `KubeConfigError`; does not connect yet.
    """
    async with _opened(KubeClient, kubeconfig, context, max_calls, max_event_sources) as client:
        yield client


@asynccontextmanager
async def open_reader(*, kubeconfig: str | None) -> AsyncIterator[KubeReader]:
    """A client that only reads, otherwise as `open_client`."""
    async with _opened(KubeReader, kubeconfig, None, 32, 48) as reader:
        yield reader


R = TypeVar("R", bound=KubeReader)


@asynccontextmanager
async def _opened(
    kind: type[R], kubeconfig: str | None, context: str | None, max_calls: int, max_event_sources: int
) -> AsyncIterator[R]:
    access = await load_access(kubeconfig=kubeconfig, context=context)
    async with AsyncExitStack() as stack:
        calls = await stack.enter_async_context(_session(access, max_calls))
        event_sources = await stack.enter_async_context(_session(access, max_event_sources))
        yield kind(access, calls=calls, event_sources=event_sources)


def _session(access: Access, connections: int) -> aiohttp.ClientSession:
    traces = aiohttp.TraceConfig()
    traces.on_request_headers_sent.append(_note_sent)
    ssl_context = access.endpoint.ssl_context
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=connections, ssl=True if ssl_context is None else ssl_context, socket_factory=_keepalive_socket
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=_HEADERS,
        read_bufsize=_READ_BYTES,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
        trace_configs=[traces],
    )


async def _note_sent(
    _session: aiohttp.ClientSession, context: SimpleNamespace, _params: aiohttp.TraceRequestHeadersSentParams
) -> None:
    """Marks the request's attempt as sent. aiohttp calls this just before it writes the first byte.

    A WebSocket has no attempt to mark.
    """
    if context.trace_request_ctx is not None:
        context.trace_request_ctx.sent = True


def _keepalive_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):  # not on every system
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


Verdict = Literal["done", "refused", "again", "unknown"]

_TOO_MANY: Final = 429
#: The statuses of a write whose condition does not hold: the object is another one, or others wrote it.
CONDITION_FAILED: Final = frozenset({HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY})
#: How long to wait after a 429 without Retry-After.
_RETRY_AFTER_SECONDS: Final = 1.0
#: Statuses that mean that nothing happened and a retry may succeed: the server read the request too slowly (408), is overloaded
#: (429), or is starting or stopping (503).
_LATER: Final = frozenset({408, 429, 503})


def outcome_of(answer: Response) -> Outcome:
    """The `Outcome` of a write that may be repeated, from the HTTP status alone. Its detail quotes the server's message.

    A 5xx status other than 503 is "unknown": some are time-outs of etcd, after which the write may have happened.
    """
    if 200 <= answer.status < 300:
        return Outcome("done", answer.status)
    verdict: Verdict = "again" if answer.status in _LATER else "unknown" if answer.status >= 500 else "refused"
    error = refused("answer", answer)
    wait_seconds = _RETRY_AFTER_SECONDS if error.after_seconds is None and answer.status == _TOO_MANY else error.after_seconds
    return Outcome(verdict, answer.status, error.words, (wait_seconds or 0.0) if verdict == "again" else 0.0)


def words_of(answer: Response) -> str:
    return refused("answer", answer).words


class LedApi:
    """An API client that sends writes only while this replica leads: the last check before a request is sent.

    It wraps another `ApiPort`. It raises that port's errors, and `NotLeading` for a write that it did not send. All writes pass
    through here: effects, Events, status objects, and the node group providers. The check cannot stop a request that has
    already been sent; each write's precondition covers that case. Reads and token reviews, which change nothing, always pass.
    """

    def __init__(self, client: ApiPort, leads: Callable[[], bool]) -> None:
        self._client = client
        self._leads = leads

    async def send(self, call: Call) -> Response:
        if call.method != "GET" and call.path != REVIEWS_PATH and not self._leads():
            raise NotLeading(f"{call}: not sent: this replica does not lead")
        return await self._client.send(call)

    def stream(self, path: str, *, params: Params, silence_seconds: float) -> AsyncGenerator[list[bytes], None]:
        return self._client.stream(path, params=params, silence_seconds=silence_seconds)
