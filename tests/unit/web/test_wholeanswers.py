"""Answers leave whole, and nothing of an answer stays behind."""

from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from slackwater.edge.web.serving import listen, serve_app

pytestmark = pytest.mark.anyio


async def app(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    """/whole: head and body; /pieces: three chunks; /empty: nothing but a head; /late: the head at once, the body later."""
    path = scope["path"]
    headers = [(b"content-type", b"text/plain")]
    if path == "/whole":
        headers.append((b"content-length", b"5"))
    if path == "/empty":
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        return
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if path == "/whole":
        await send({"type": "http.response.body", "body": b"whole"})
        return
    for chunk in (b"one", b"HTTP/1.1 two", b"three"):
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await anyio.lowlevel.checkpoint()
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def connected() -> AsyncIterator[anyio.abc.SocketStream]:
    sock = listen("test", "127.0.0.1", 0)
    port = sock.getsockname()[1]
    async with anyio.create_task_group() as group:
        await group.start(serve_app, app, sock, None)
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            with anyio.fail_after(10):
                yield stream
        group.cancel_scope.cancel()


async def ask(stream: anyio.abc.SocketStream, line: str, extra: str = "") -> None:
    await stream.send(f"{line} HTTP/1.1\r\nhost: test\r\n{extra}\r\n".encode())


async def read_until(stream: anyio.abc.SocketStream, end: bytes) -> bytes:
    found = b""
    while not found.endswith(end):
        found += await stream.receive()
    return found


async def test_head_and_body_arrive_together_on_every_request_of_a_connection() -> None:
    async with connected() as stream:
        for _ in range(3):
            await ask(stream, "GET /whole")
            answer = await stream.receive()
            assert answer.startswith(b"HTTP/1.1 200")
            assert answer.endswith(b"\r\n\r\nwhole")


async def test_an_answer_in_pieces_is_complete_and_in_order() -> None:
    async with connected() as stream:
        await ask(stream, "GET /pieces")
        answer = await read_until(stream, b"\r\n0\r\n\r\n")
        assert answer.partition(b"\r\n\r\n")[2] == b"3\r\none\r\nc\r\nHTTP/1.1 two\r\n5\r\nthree\r\n0\r\n\r\n"


@pytest.mark.parametrize("line", ["HEAD /whole", "GET /empty"])
async def test_an_answer_without_a_body_is_not_held_back(line: str) -> None:
    async with connected() as stream:
        await ask(stream, line)
        assert (await read_until(stream, b"\r\n\r\n")).startswith(b"HTTP/1.1 20")


async def test_the_last_answer_of_a_connection_is_sent_before_it_is_closed() -> None:
    async with connected() as stream:
        await ask(stream, "HEAD /whole", "connection: close\r\n")
        assert (await read_until(stream, b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()


async def test_what_is_no_http_gets_an_answer_too() -> None:
    async with connected() as stream:
        await stream.send(b"\x16\x03\x01 not http at all\r\n\r\n")
        assert (await stream.receive()).startswith(b"HTTP/1.1 400")
