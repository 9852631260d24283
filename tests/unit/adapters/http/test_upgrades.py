"""Requests that offer another protocol, ask for a tunnel, or take a listener for a proxy: each is answered as HTTP/1.1.

On both kinds of listener: `direct` (extender, agents) and `bounded` (ops).
"""

import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from shutil import which
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread
import pytest

from slackwater.adapters.http import bounded_http, http_server
from slackwater.adapters.http.application import Answer, Request, RequestTerms
from slackwater.adapters.http.request_parser import origin_form
from slackwater.adapters.http.uvicorn_listener import listen, serve_app, serve_direct
from tests.support.loops import each_loop

pytestmark = pytest.mark.anyio
__all__ = ["each_loop"]  # a fixture

#: What curl and Java's HttpClient send with their first request over plain TCP.
OFFER = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"


class Echo:
    """Answers with what it was asked."""

    terms = RequestTerms(max_body_bytes=1 << 20)

    def answer(self, request: Request) -> Answer:
        return Answer(200, b"%b %b %b" % (request.method.encode(), request.path.encode(), request.body))

    def refusal(self, status: int, _path: str, message: str) -> Answer:
        return Answer(status, message.encode())


async def echo(
    scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[dict[str, Any]], Awaitable[None]]
) -> None:
    """The same as an ASGI application."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    text = f"{scope['method']} {scope['path']} ".encode() + body
    headers = [(b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})


@asynccontextmanager
async def _served(serve: Any, app: Any) -> AsyncIterator[int]:
    with listen("test", "127.0.0.1", 0) as sock, anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            await group.start(serve, app, sock, None)
            yield sock.getsockname()[1]
            group.cancel_scope.cancel()


Listener = Callable[[], AbstractAsyncContextManager[int]]


@pytest.fixture(params=["direct", "bounded"])
def listener(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Listener:
    monkeypatch.setattr(http_server, "_LINGER_SECONDS", 0.1)
    monkeypatch.setattr(bounded_http, "LINGER_SECONDS", 0.1)
    return (lambda: _served(serve_direct, Echo())) if request.param == "direct" else (lambda: _served(serve_app, echo))


async def exchanged(port: int, *parts: bytes, until: bytes) -> bytes:
    """All that came until `until` was in it."""
    got = b""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        for part in parts:
            await stream.send(part)
        with anyio.fail_after(60):
            while until not in got:
                got += await stream.receive()
    return got


async def heard_to_the_end(stream: anyio.abc.ByteStream) -> bytes:
    """All that came until the listener closed the connection."""
    got = b""
    with anyio.fail_after(60), suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            got += await stream.receive()
    return got


NEXT = b"POST /next HTTP/1.1\r\nhost: t\r\ncontent-length: 3\r\n\r\ntwo"
OFFERS = {
    "no body": (b"GET /one HTTP/1.1\r\nhost: t\r\n" + OFFER + b"\r\n", b"GET /one "),
    "a body": (b"POST /one HTTP/1.1\r\nhost: t\r\n" + OFFER + b"content-length: 5\r\n\r\nfirst", b"POST /one first"),
    "a chunked body": (
        b"POST /one HTTP/1.1\r\nhost: t\r\n" + OFFER + b"Transfer-Encoding: chunked\r\n\r\n3\r\nfir\r\n2\r\nst\r\n0\r\n\r\n",
        b"POST /one first",
    ),
    "websocket": (b"GET /one HTTP/1.1\r\nhost: t\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", b"GET /one "),
}


@pytest.mark.parametrize(("offer", "want"), OFFERS.values(), ids=OFFERS)
@pytest.mark.parametrize("pieces", ["at once", "byte by byte"])
async def test_a_request_that_offers_an_upgrade_is_answered_and_so_is_the_next(
    listener: Listener, offer: bytes, want: bytes, pieces: str
) -> None:
    whole = offer + offer + NEXT
    parts = [whole] if pieces == "at once" else [whole[at : at + 1] for at in range(len(whole))]
    async with listener() as port:
        got = await exchanged(port, *parts, until=b"two")
    assert got.count(b"HTTP/1.1 200 ") == 3
    assert got.count(b"\r\n\r\n" + want) == 2
    assert got.endswith(b"POST /next two")


async def test_an_offer_that_ends_the_connection_ends_it(listener: Listener) -> None:
    lines = b"POST /one HTTP/1.1\r\nhost: t\r\nconnection: close, upgrade\r\nupgrade: h2c\r\ncontent-length: 5\r\n\r\nfirst"
    async with listener() as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(lines)
        got = await heard_to_the_end(stream)
    assert got.endswith(b"POST /one first")
    assert b"connection: close" in got.lower()


async def test_after_connect_the_connection_is_closed(listener: Listener) -> None:
    async with listener() as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(b"CONNECT elsewhere:80 HTTP/1.1\r\nhost: t\r\n\r\n" + NEXT)
        got = await heard_to_the_end(stream)
    assert got.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in got.lower()
    assert b"/next" not in got


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"http://t/scheduler/filter", b"/scheduler/filter"),
        (b"http://t:80/scheduler/filter?a=http://b/c", b"/scheduler/filter"),
        (b"https://t", b"/"),
        (b"http://t?a=/b", b"/"),
        (b"//t/a", b"//t/a"),
        (b"/a?b=http://c/d", b"/a"),
    ],
)
async def test_a_target_that_names_the_host_is_its_path(listener: Listener, target: bytes, path: bytes) -> None:
    async with listener() as port:
        got = await exchanged(port, b"GET %b HTTP/1.1\r\nhost: t\r\n\r\n" % target, until=b"GET ")
    assert b"\r\n\r\nGET " + path in got
    assert origin_form(target).partition(b"?")[0] == path


def _curl_speaks_http2() -> bool:
    if (curl := which("curl")) is None:
        return False
    return "HTTP2" in subprocess.run([curl, "--version"], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(not _curl_speaks_http2(), reason="there is no curl that speaks HTTP/2")
async def test_curl_that_offers_http2_is_answered_twice_on_one_connection(listener: Listener) -> None:
    async with listener() as port:
        urls = [f"http://127.0.0.1:{port}/{name}" for name in ("one", "two")]
        command = ["curl", "-sS", "-m", "60", "--noproxy", "*", "--http2", "-d", "body", *urls, "-w", " %{num_connects}\n"]
        got = await anyio.to_thread.run_sync(lambda: subprocess.run(command, capture_output=True, text=True, check=False))
    assert (got.stdout, got.returncode) == ("POST /one body 1\nPOST /two body 0\n", 0)
