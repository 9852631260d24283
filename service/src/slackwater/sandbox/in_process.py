"""The sandbox in the place of the world outside: as the API server of `adapters.kube`, and as the scheduler that asks
`adapters.http`.

The only place where they meet. What it does not do to a request, such as losing it, is done by whoever wraps it.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

import anyio.lowlevel

from slackwater.adapters.http.http_server import Answer, Application, Request
from slackwater.adapters.kube.client import Call, Params, Response
from slackwater.adapters.kube.errors import refused
from slackwater.sandbox.embedded.extending import Ask
from slackwater.sandbox.embedded.faults import Fault
from slackwater.sandbox.embedded.server import ApiServer

_EXTENDER: Final = "/scheduler/"


class EmbeddedApi:
    """Implements `adapters.kube.client.ApiPort`."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def send(self, call: Call) -> Response:
        await anyio.lowlevel.checkpoint()
        return answered_by(self._server, call)

    async def stream(self, path: str, *, params: Params, silence_seconds: float) -> AsyncGenerator[list[bytes], None]:
        try:
            async with aclosing(self._server.watch(path, params=params)) as arriving:
                async for lines in arriving:
                    yield lines
        except Fault as fault:
            answer = fault.answer()
            raise refused(f"watch {path}", answer.status, answer.body, answer.headers) from fault


def answered_by(server: ApiServer, call: Call) -> Response:
    """At once."""
    answer = server.request(call.method, call.path, params=call.params, body=call.body, content_type=call.content_type)
    return Response(answer.status, answer.body, answer.headers)


async def answered(application: Application, request: Request) -> Answer:
    """One request to a listener's application, without a listener."""
    found = application.answer(request)
    return await found if isinstance(found, Awaitable) else found


def asking(extender: Callable[[], Application]) -> Ask:
    """How the sandbox' scheduler asks an extender, whichever is in place at the moment."""

    async def ask(verb: str, body: bytes) -> tuple[int, bytes]:
        answer = await answered(extender(), Request("POST", _EXTENDER + verb, body))
        return answer.status, answer.body

    return ask
