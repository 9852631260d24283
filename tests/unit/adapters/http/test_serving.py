"""Servers on one listening socket, one after the other, as the lives of a process have them."""

from contextlib import closing

import aiohttp
import anyio
import pytest

from slackwater.adapters.http.application import Answer, Request, RequestTerms
from slackwater.adapters.http.uvicorn_listener import listen, serve_direct

pytestmark = pytest.mark.anyio


class Named:
    """Answers with its name."""

    terms = RequestTerms(max_body_bytes=1024)

    def __init__(self, name: str) -> None:
        self._name = name

    def answer(self, _request: Request) -> Answer:
        return Answer(200, self._name.encode())

    def refusal(self, status: int, _path: str, message: str) -> Answer:
        return Answer(status, message.encode())


async def ask(port: int, reported: list[str]) -> None:
    async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}/") as answer:
        reported.append(await answer.text())


async def test_a_call_between_two_servers_waits_for_the_next() -> None:
    reported: list[str] = []
    with closing(listen("agents", "127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        async with anyio.create_task_group() as life:
            await life.start(serve_direct, Named("first"), sock, None)
            await ask(port, reported)
            life.cancel_scope.cancel()
        async with anyio.create_task_group() as life:
            async with anyio.create_task_group() as callers:
                callers.start_soon(ask, port, reported)
                await anyio.sleep(0.2)
                assert reported == ["first"]
                await life.start(serve_direct, Named("second"), sock, None)
            life.cancel_scope.cancel()
    assert reported == ["first", "second"]


async def test_no_caller_is_kept_waiting_once_the_socket_is_closed() -> None:
    sock = listen("agents", "127.0.0.1", 0)
    port = sock.getsockname()[1]
    async with anyio.create_task_group() as life:
        await life.start(serve_direct, Named("last"), sock, None)
        sock.close()
        reported: list[str] = []
        await ask(port, reported)
        assert reported == ["last"]
        life.cancel_scope.cancel()
    with pytest.raises(aiohttp.ClientConnectorError):
        await ask(port, reported)
