"""Which connections a listener counts, for how long, and which it ends by itself: both kinds of listener, on both loops."""

import gc
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.abc
import pytest
from anyio.streams.tls import TLSStream
from httptools import HttpRequestParser

from slackwater.adapters.http import bounded_http, http_server, uvicorn_listener
from slackwater.adapters.http import uvicorn_listener as tls_door
from slackwater.adapters.http.bounded_http import BoundedProtocol
from slackwater.adapters.http.certificates import Certificates, TlsFiles
from slackwater.adapters.http.http_server import DirectProtocol
from slackwater.adapters.http.request_parser import RequestParser
from slackwater.adapters.http.uvicorn_listener import listen, serve_app, serve_direct
from tests.support.garbage import no_collecting
from tests.support.loops import each_loop
from tests.support.pki import Pki
from tests.support.waiting import until
from tests.unit.adapters.http.test_upgrades import Echo, echo

pytestmark = pytest.mark.anyio
__all__ = ["each_loop"]  # a fixture

MOST = 8
ASK = b"GET /x HTTP/1.1\r\nhost: t\r\n\r\n"


Listener = Callable[[Certificates | None], AbstractAsyncContextManager[int]]


@pytest.fixture(params=["direct", "bounded"])
def listener(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Listener:
    """A listener that takes `MOST` connections."""
    monkeypatch.setattr(http_server, "_LINGER_SECONDS", 0.1)
    monkeypatch.setattr(bounded_http, "LINGER_SECONDS", 0.1)
    monkeypatch.setattr(bounded_http, "MAX_CONNECTIONS", MOST)

    @asynccontextmanager
    async def opened(certificates: Certificates | None) -> AsyncIterator[int]:
        with listen("test", "127.0.0.1", 0) as sock, anyio.fail_after(240):
            async with anyio.create_task_group() as group:
                if request.param == "direct":
                    await group.start(serve_direct, Echo(), sock, certificates, MOST)
                else:
                    await group.start(serve_app, echo, sock, certificates)
                yield sock.getsockname()[1]
                group.cancel_scope.cancel()

    return opened


async def is_ended(stream: anyio.abc.ByteReceiveStream) -> bool:
    """Whether the other side ended the connection, whatever it said before."""
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            await stream.receive()
    return True


async def status_of(port: int, tls: ssl.SSLContext | None = None) -> bytes:
    """The status of one request on a connection of its own; empty where the connection is closed instead."""
    try:
        async with await anyio.connect_tcp("127.0.0.1", port) as plain:
            stream: anyio.abc.ByteStream = plain
            if tls is not None:
                stream = await TLSStream.wrap(plain, ssl_context=tls, standard_compatible=False, hostname="127.0.0.1")
            await stream.send(ASK)
            return (await stream.receive())[9:12]
    except (anyio.EndOfStream, anyio.BrokenResourceError, ssl.SSLError, OSError):
        return b""


async def test_a_connection_that_ends_gives_its_place_to_another(listener: Listener) -> None:
    async with listener(None) as port:
        for _ in range(3):
            async with AsyncExitStack() as stack:
                for _ in range(6):
                    stream = await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port))
                    await stream.send(ASK)
                    assert (await stream.receive()).startswith(b"HTTP/1.1 200")
                assert await status_of(port) == b"503"
            async with anyio.create_task_group() as group:
                group.start_soon(_until_answered, port)


async def test_a_connection_that_ended_goes_without_a_collection_of_garbage(listener: Listener) -> None:
    """Probes open one every few seconds, and hours may pass without such a collection."""
    kinds = {DirectProtocol, BoundedProtocol, RequestParser, HttpRequestParser}

    def kept() -> int:
        return sum(type(each) in kinds for each in gc.get_objects())

    with no_collecting():
        async with listener(None) as port:
            before = kept()
            for _ in range(3):
                assert await status_of(port) == b"200"
            await until(lambda: kept() == before)


async def _until_answered(port: int, tls: ssl.SSLContext | None = None) -> None:
    """The listener notices a little later that a connection has ended."""
    with anyio.fail_after(60):
        while await status_of(port, tls) != b"200":  # noqa: ASYNC110  # what is waited for is in the listener
            await anyio.sleep(0.02)


async def _stays_open(port: int, *, seconds: float) -> bool | None:
    """Is a connection kept that asks again and again, for two and a half times as long as an idle one is? None: it was idle
    itself for so long, since the machine stood still."""
    # For the listener it is idle from some moment after it asked until its next question has arrived.
    before = asked_at = anyio.current_time()
    longest = 0.0
    async with await anyio.connect_tcp("127.0.0.1", port) as busy:
        try:
            for _ in range(10):
                before, asked_at = asked_at, anyio.current_time()
                await busy.send(ASK)
                assert (await busy.receive()).startswith(b"HTTP/1.1 200")
                longest = max(longest, anyio.current_time() - before)
                await anyio.sleep(seconds / 4)
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return None if max(longest, anyio.current_time() - before) >= seconds else False
    return True


async def test_an_idle_connection_is_closed_and_a_busy_one_is_not(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_LOOK_SECONDS", 0.1)
    monkeypatch.setattr(uvicorn_listener, "_KEEP_ALIVE_SECONDS", 1)
    monkeypatch.setattr(uvicorn_listener, "_APP_KEEP_ALIVE_SECONDS", 1)
    async with listener(None) as port, await anyio.connect_tcp("127.0.0.1", port) as idle:
        await idle.send(ASK)
        assert (await idle.receive()).startswith(b"HTTP/1.1 200")
        while (kept := await _stays_open(port, seconds=1)) is None:
            pass
        assert kept
        with anyio.fail_after(60):
            assert await is_ended(idle)


def tls_of(folder: Path) -> tuple[Certificates, ssl.SSLContext]:
    pki = Pki(folder)
    pki.write()
    tls = TlsFiles(cert_file=pki.tls().cert_file, key_file=pki.tls().key_file, client_ca_file=None)
    return Certificates("test", tls, unix_seconds=lambda: 0.0), pki.context()


@asynccontextmanager
async def silent_ones(port: int, count: int) -> AsyncIterator[list[int]]:
    """Connections that never begin their handshake. The list has the numbers of those that the listener has ended so far."""
    ended: list[int] = []

    async def watched(number: int, stream: anyio.abc.ByteReceiveStream) -> None:
        await is_ended(stream)
        ended.append(number)

    async with AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port)) for _ in range(count)]
        async with anyio.create_task_group() as group:
            for number, stream in enumerate(silent):
                group.start_soon(watched, number, stream)
            yield ended
            group.cancel_scope.cancel()


async def test_handshakes_that_never_end_are_counted(
    listener: Listener, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tls_door, "HANDSHAKE_SECONDS", 600.0)
    certificates, client = tls_of(tmp_path)
    async with listener(certificates) as port, silent_ones(port, 60) as ended:
        await until(lambda: len(ended) >= 54)
        assert await status_of(port, client) == b""
        assert sorted(ended) == list(range(6, 60)), "of one caller as many are open as it has places"


async def test_handshakes_that_never_end_are_ended(listener: Listener, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tls_door, "HANDSHAKE_SECONDS", 0.5)
    certificates, client = tls_of(tmp_path)
    async with listener(certificates) as port:
        async with silent_ones(port, 6) as ended:
            await until(lambda: len(ended) == 6)
        monkeypatch.setattr(tls_door, "HANDSHAKE_SECONDS", 60.0)
        await _until_answered(port, client)


async def test_handshakes_that_fail_give_their_places_back(listener: Listener, tmp_path: Path) -> None:
    certificates, client = tls_of(tmp_path)
    async with listener(certificates) as port:
        for sent in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01", b""):
            for _ in range(2 * MOST):
                async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                    await stream.send(sent)
            await _until_answered(port, client)


async def test_over_tls_a_connection_that_ends_gives_its_place_to_another(listener: Listener, tmp_path: Path) -> None:
    certificates, client = tls_of(tmp_path)
    async with listener(certificates) as port:
        for _ in range(4 * MOST):
            assert await status_of(port, client) == b"200"


async def test_a_listener_that_ends_ends_the_handshakes_under_way(listener: Listener, tmp_path: Path) -> None:
    certificates, _ = tls_of(tmp_path)
    async with AsyncExitStack() as stack:
        async with listener(certificates) as port:
            stream = await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port))
            await stream.send(b"\x16\x03\x01")
            await anyio.sleep(0.1)
        with anyio.fail_after(60):
            assert await is_ended(stream)
