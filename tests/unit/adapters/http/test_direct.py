"""One connection of the extender's listener: whatever arrives, in whatever pieces, each request gets its own answer."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from slackwater.adapters.http import http_server, uvicorn_listener
from slackwater.adapters.http.application import Answer, Request, RequestTerms
from slackwater.adapters.http.certificates import Certificates
from slackwater.adapters.http.uvicorn_listener import listen, serve_direct
from tests.support.loops import each_loop
from tests.support.pki import Pki

pytestmark = pytest.mark.anyio
__all__ = ["each_loop"]  # a fixture


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_LINGER_SECONDS", 0.1)


@pytest.fixture
def patient(hurried: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a caller that sends on after the refusal: on a busy machine that may take it a while."""
    monkeypatch.setattr(http_server, "_LINGER_SECONDS", 1.5)


class App:
    """Answers with what it was asked; paths that begin with /later wait for `release`."""

    def __init__(self, terms: RequestTerms | None = None) -> None:
        self.terms = terms or RequestTerms(max_body_bytes=10_000)
        self.release = anyio.Event()
        self.asked: list[str] = []
        self.requests: list[Request] = []
        self.ended = anyio.Event()
        self.cancelled = False
        self.was_asked = anyio.Event()

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        method, path, body = request.method, request.path, request.body
        self.asked.append(path)
        self.requests.append(request)
        self.was_asked.set()
        answer = (
            Answer(405, b"", headers=((b"allow", b"POST"),))
            if method == "DELETE"
            else Answer(200, b"%b %b %d" % (method.encode(), path.encode(), len(body)))
        )
        return self._later(answer) if path.startswith("/later") else answer

    async def _later(self, answer: Answer) -> Answer:
        try:
            await self.release.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled = True
            raise
        finally:
            self.ended.set()
        return answer

    def refusal(self, status: int, _path: str, message: str) -> Answer:
        return Answer(status, message.encode())


class Caller:
    """The other end of the connection."""

    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self._stream = stream
        self._rest = b""

    async def sends(self, data: bytes) -> None:
        await self._stream.send(data)

    async def posts(self, path: str, body: bytes = b"", extra: str = "") -> None:
        await self.sends(f"POST {path} HTTP/1.1\r\nhost: t\r\ncontent-length: {len(body)}\r\n{extra}\r\n".encode() + body)

    async def hears(self, *, bodiless: bool = False) -> tuple[int, dict[str, str], bytes]:
        while b"\r\n\r\n" not in self._rest:
            self._rest += await self._stream.receive()
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        size = 0 if bodiless else int(headers.get("content-length", 0))
        while len(self._rest) < size:
            self._rest += await self._stream.receive()
        body, self._rest = self._rest[:size], self._rest[size:]
        return int(first.split()[1]), headers, body

    async def is_hung_up_on(self) -> bool:
        try:
            return not await self._stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return True


@asynccontextmanager
async def served(app: App, certificates: Certificates | None = None) -> AsyncIterator[int]:
    with listen("test", "127.0.0.1", 0) as sock, anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            await group.start(serve_direct, app, sock, certificates)
            yield sock.getsockname()[1]
            group.cancel_scope.cancel()


@asynccontextmanager
async def called(app: App) -> AsyncIterator[Caller]:
    async with served(app) as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
        yield Caller(stream)


async def test_requests_of_one_connection_are_answered_one_after_another() -> None:
    async with called(App()) as caller:
        for size in (0, 5, 9_999, 1):
            await caller.posts("/a?query=left-out", b"x" * size)
            assert await caller.hears() == (
                200,
                {"content-type": "application/json", "content-length": str(len(f"POST /a {size}"))},
                f"POST /a {size}".encode(),
            )


async def test_a_request_may_arrive_byte_by_byte() -> None:
    async with called(App()) as caller:
        for byte in b"POST /slow HTTP/1.1\r\nContent-Length: 3\r\nHost: t\r\n\r\nabc":
            await caller.sends(bytes([byte]))
            await anyio.lowlevel.checkpoint()
        assert (await caller.hears())[2] == b"POST /slow 3"


async def test_a_chunked_body_is_put_together() -> None:
    async with called(App()) as caller:
        await caller.sends(
            b"POST /c HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"
        )
        assert (await caller.hears())[2] == b"POST /c 7"


async def test_pipelined_requests_keep_their_order_though_the_first_takes_long() -> None:
    app = App()
    async with called(app) as caller:
        await caller.posts("/later/1")
        await caller.posts("/2")
        await caller.posts("/later/3")
        await caller.posts("/4")
        await app.was_asked.wait()
        app.release.set()
        answers = [(await caller.hears())[2] for _ in range(4)]
        assert answers == [b"POST /later/1 0", b"POST /2 0", b"POST /later/3 0", b"POST /4 0"]


async def test_a_request_with_a_known_head_waits_for_the_answer_before_it() -> None:
    app = App()
    async with called(app) as caller:
        await caller.posts("/a", b"x")
        assert (await caller.hears())[2] == b"POST /a 1"
        app.was_asked = anyio.Event()
        await caller.posts("/later")
        await app.was_asked.wait()
        await caller.posts("/a", b"yy")
        await anyio.sleep(0.05)
        app.release.set()
        assert [(await caller.hears())[2] for _ in range(2)] == [b"POST /later 0", b"POST /a 2"]


async def test_a_caller_that_expects_100_continue_gets_it() -> None:
    async with called(App()) as caller:
        await caller.sends(b"POST /e HTTP/1.1\r\nhost: t\r\ncontent-length: 3\r\nexpect: 100-continue\r\n\r\n")
        assert (await caller.hears())[0] == 100
        await caller.sends(b"abc")
        assert (await caller.hears())[2] == b"POST /e 3"


@pytest.mark.parametrize("extra", ["", "expect: 100-continue\r\n"])
async def test_a_body_that_is_said_to_be_too_large_is_refused_before_it_comes(extra: str) -> None:
    app = App()
    async with called(app) as caller:
        await caller.sends(f"POST /big HTTP/1.1\r\nhost: t\r\ncontent-length: 10001\r\n{extra}\r\n".encode())
        status, headers, body = await caller.hears()
        assert (status, headers["connection"], body) == (413, "close", b"body: more than 10000 bytes")
        assert await caller.is_hung_up_on()
    assert app.asked == []


@pytest.mark.usefixtures("patient")
async def test_a_body_that_turns_out_too_large_is_refused_and_the_caller_can_still_read_it() -> None:
    app = App()
    async with called(app) as caller:
        await caller.sends(b"POST /big HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(20):
            await caller.sends(b"400\r\n" + b"x" * 1024 + b"\r\n")
        assert (await caller.hears())[0] == 413
    assert app.asked == []


async def test_endless_headers_are_refused() -> None:
    async with called(App()) as caller:
        await caller.sends(b"POST /h HTTP/1.1\r\n" + b"".join(b"x-%d: %b\r\n" % (i, b"y" * 1000) for i in range(70)))
        assert (await caller.hears())[0] == 431


@pytest.mark.parametrize(
    "junk", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GARBAGE\r\n\r\n", b"POST / HTTP/9.9\r\n\r\n"]
)
async def test_what_is_no_http_is_refused(junk: bytes) -> None:
    async with called(App()) as caller:
        await caller.sends(junk)
        status, _, body = await caller.hears()
        assert (status, body.startswith(b"this is no HTTP/1.1 request: ")) == (400, True)
        assert await caller.is_hung_up_on()


@pytest.mark.parametrize("line", ["POST /x HTTP/1.0\r\n", "POST /x HTTP/1.1\r\nconnection: close\r\n"])
async def test_a_caller_that_wants_no_more_is_answered_and_let_go(line: str) -> None:
    async with called(App()) as caller:
        await caller.sends(f"{line}content-length: 0\r\n\r\n".encode())
        status, headers, _ = await caller.hears()
        assert (status, headers["connection"]) == (200, "close")
        assert await caller.is_hung_up_on()


async def test_an_answer_to_head_has_no_body() -> None:
    async with called(App()) as caller:
        await caller.sends(b"HEAD /x HTTP/1.1\r\nhost: t\r\n\r\n")
        assert (await caller.hears(bodiless=True))[1]["content-length"] == "9"
        await caller.posts("/y")
        assert (await caller.hears())[2] == b"POST /y 0"


async def test_the_answer_to_a_wrong_method_names_the_right_one() -> None:
    async with called(App()) as caller:
        await caller.sends(b"DELETE /x HTTP/1.1\r\nhost: t\r\n\r\n")
        status, headers, _ = await caller.hears()
        assert (status, headers["allow"]) == (405, "POST")


async def test_a_request_that_does_not_arrive_ends_its_connection() -> None:
    async with called(App(RequestTerms(max_body_bytes=10_000, arrive_seconds=0.05))) as caller:
        await caller.sends(b"POST /x HTTP/1.1\r\ncontent-length: 100\r\n")
        assert await caller.is_hung_up_on()


async def test_half_a_body_is_answered_as_late() -> None:
    async with called(App(RequestTerms(max_body_bytes=10_000, arrive_seconds=0.05))) as caller:
        await caller.sends(b"POST /x HTTP/1.1\r\ncontent-length: 100\r\n\r\nhalf")
        status, headers, body = await caller.hears()
        assert (status, headers["connection"], body) == (408, "close", b"body: not complete within 0.05 s")
        assert await caller.is_hung_up_on()


async def test_the_next_request_has_its_own_time_to_arrive() -> None:
    app = App(RequestTerms(max_body_bytes=10_000, arrive_seconds=600.0))
    async with called(app) as caller:
        for _ in range(2):
            await caller.sends(b"POST /x HTTP/1.1\r\ncontent-length: 1\r\n\r\n")
            await anyio.lowlevel.checkpoint()
            await caller.sends(b"x")
            assert (await caller.hears())[0] == 200
        app.terms = replace(app.terms, arrive_seconds=0.05)
        await caller.sends(b"POST /x HTTP/1.1\r\n")
        assert await caller.is_hung_up_on()
    assert app.asked == ["/x", "/x"]


async def test_only_the_headers_that_are_wanted_are_given_on() -> None:
    app = App(RequestTerms(max_body_bytes=10_000, headers=frozenset({b"prefer"})))
    async with called(app) as caller:
        await caller.posts("/x", extra="Prefer: a\r\nX-Other: b\r\nPREFER: c\r\n")
        await caller.hears()
        await caller.posts("/x")
        await caller.hears()
    assert [list(request.headers) for request in app.requests] == [[(b"prefer", b"a"), (b"prefer", b"c")], []]


@pytest.mark.usefixtures("patient")
async def test_where_only_the_beginning_of_a_body_is_read_the_rest_is_skipped() -> None:
    app = App(RequestTerms(max_body_bytes=10_000, read_body_bytes=10))
    async with called(app) as caller:
        for size in (9, 10, 11, 10_000):
            await caller.posts("/x", b"x" * size)
            assert (await caller.hears())[2] == b"POST /x %d" % min(size, 10)
        await caller.sends(b"POST /x HTTP/1.1\r\ncontent-length: 20000\r\n\r\n" + b"x" * 10_001)
        status, headers, body = await caller.hears()
        assert (status, headers["connection"], body) == (200, "close", b"POST /x 10")
        await caller.sends(b"x" * 9_999 + b"POST /never HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
        assert await caller.is_hung_up_on()
    assert [request.whole for request in app.requests] == [True] * 4 + [False]


@pytest.mark.parametrize("ends", [True, False])
async def test_what_is_awaited_ends_with_the_caller_only_where_that_is_wanted(ends: bool) -> None:
    app = App(RequestTerms(max_body_bytes=10_000, ends_with_caller=ends))
    async with served(app) as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as gone:
            await Caller(gone).posts("/later/gone")
            await app.was_asked.wait()
        if not ends:
            app.release.set()
        await app.ended.wait()
    assert app.cancelled is ends


async def test_a_caller_that_goes_away_disturbs_no_other() -> None:
    app = App()
    async with served(app) as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as gone:
            await Caller(gone).posts("/later/gone")
            await app.was_asked.wait()
        app.release.set()
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            caller = Caller(stream)
            await caller.posts("/here")
            assert (await caller.hears())[2] == b"POST /here 0"


async def test_when_the_listener_stops_what_is_being_answered_is_still_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn_listener, "_GRACE_SECONDS", 60)  # else a machine that stands still ends what is answered
    app = App()
    with listen("test", "127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        async with anyio.create_task_group() as group, await anyio.connect_tcp("127.0.0.1", port) as idle:
            await group.start(serve_direct, app, sock, None)
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                caller = Caller(stream)
                await caller.posts("/later")
                await app.was_asked.wait()
                group.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    assert await Caller(idle).is_hung_up_on()
                    app.release.set()
                    status, headers, body = await caller.hears()
                    assert (status, headers["connection"], body) == (200, "close", b"POST /later 0")


async def test_over_tls_with_a_client_certificate(tmp_path: Path) -> None:
    pki = Pki(tmp_path)
    pki.write()
    certificates = Certificates("test", pki.tls(), unix_seconds=lambda: 0.0)
    context = pki.context(pki.client("kube-scheduler"))
    async with served(App(), certificates) as port:
        stream = await anyio.connect_tcp("127.0.0.1", port, tls=True, ssl_context=context, tls_standard_compatible=False)
        async with stream:
            caller = Caller(stream)
            for _ in range(2):
                await caller.posts("/tls", b"x" * 9_000)
                assert (await caller.hears())[2] == b"POST /tls 9000"


@pytest.mark.parametrize(
    "parts",
    [
        (b"POST / HTTP/1.1\r\nHost: h\r\na: ", *[b"x" * 65_536] * 8),
        (b"POST / HTTP/1.1\r\nHost: h\r\n", *[b"x" * 65_536] * 8),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\na: ", *[b"x" * 65_536] * 8),
    ],
    ids=["a value", "a name", "a trailer"],
)
@pytest.mark.usefixtures("patient")
async def test_a_header_without_end_is_not_kept_until_it_ends(parts: tuple[bytes, ...]) -> None:
    async with called(App()) as caller:
        for part in parts:
            await caller.sends(part)
        assert (await caller.hears())[0] == 431
        assert await caller.is_hung_up_on()
