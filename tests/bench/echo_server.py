"""Answers every request with as many bytes as its path says, reading the body and looking at none of it.

What is left of a call's time when nobody decides or parses anything: sockets, uvicorn, httptools. Raw ASGI, and the
same server settings as the service's listeners.
"""

import argparse
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio
import uvicorn

Message = MutableMapping[str, Any]

_answers: dict[str, bytes] = {}


async def echo(scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]) -> None:
    while (await receive()).get("more_body"):
        pass
    path: str = scope["path"]
    answer = _answers.get(path)
    if answer is None:
        answer = _answers[path] = b" " * (int(path[1:]) if path[1:].isdigit() else 2)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


async def _serve(port: int) -> None:
    config = uvicorn.Config(
        echo,
        host="127.0.0.1",
        port=port,
        http="httptools",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=600,
    )
    await uvicorn.Server(config).serve()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    anyio.run(_serve, parser.parse_args().port, backend_options={"use_uvloop": True})
    return 0


if __name__ == "__main__":
    sys.exit(main())
