"""Answers every request with as many bytes as its path says, reading the body and looking at none of it.

What is left of a call's time when nobody decides or parses anything: sockets, httptools, and the protocol of the service's own
listeners.
"""

import argparse
import sys

import anyio

from slackwater.adapters.http.application import Answer, Request, RequestTerms
from slackwater.adapters.http.uvicorn_listener import listen, serve_direct


class Echo:
    """The application."""

    terms = RequestTerms(max_body_bytes=64 << 20)

    def __init__(self) -> None:
        self._answers: dict[str, Answer] = {}

    def answer(self, request: Request) -> Answer:
        path = request.path
        answer = self._answers.get(path)
        if answer is None:
            answer = self._answers[path] = Answer(200, b" " * (int(path[1:]) if path[1:].isdigit() else 2))
        return answer

    def refusal(self, status: int, _path: str, message: str) -> Answer:
        return Answer(status, message.encode())


async def _serve(port: int) -> None:
    with listen("echo", "127.0.0.1", port) as sock:
        await serve_direct(Echo(), sock, None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    anyio.run(_serve, parser.parse_args().port, backend_options={"use_uvloop": True})
    return 0


if __name__ == "__main__":
    sys.exit(main())
