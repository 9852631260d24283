"""What the extender's own HTTP protocol saves beside uvicorn's: CPU of a server for one call, by turns.

    python -m tests.bench.listeners [--rounds 9] [--calls 10000] [--bytes 9000]

Both servers run in processes of their own on uvloop, with the same answer and one keep-alive connection, as kube-scheduler has.
The decision itself is left out, since it is the same for both.
"""

import argparse
import asyncio
import multiprocessing
import socket
import statistics
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Final

import anyio
import uvloop

from slackwater.adapters.http.application import Answer, BodyBudget, Request, RequestTerms
from slackwater.adapters.http.uvicorn_listener import listen, serve_app, serve_direct
from tests.bench.keepalive import KeepAlive, a_request
from tests.bench.procstat import cpu_seconds_finely

_MOST: Final = 16 << 20


class Fixed:
    """An application that always gives the same answer."""

    def __init__(self, body: bytes) -> None:
        self.body, self.terms = body, RequestTerms(max_body_bytes=_MOST, bodies=BodyBudget(4 * _MOST))

    def answer(self, request: Request) -> Answer:
        return Answer(200, self.body)

    def refusal(self, status: int, path: str, message: str) -> Answer:
        return Answer(status, message.encode())


def _asgi(application: Fixed) -> Callable[..., Any]:
    """The application as ASGI, within its terms: what the extender would need in front of it."""
    terms = application.terms

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(name, value) for name, value in scope["headers"] if name in terms.headers or name == b"content-length"]
        declared = next((int(value) for name, value in headers if name == b"content-length"), 0)
        if declared > terms.max_body_bytes:
            answer = application.refusal(413, scope["path"], "body")
        else:
            body, more = b"", True
            while more:
                message = await receive()
                body, more = body + message.get("body", b""), message.get("more_body", False)
                if len(body) > terms.max_body_bytes:
                    answer = application.refusal(413, scope["path"], "body")
                    break
            else:
                assert terms.bodies is not None
                terms.bodies.take(len(body))
                peer, address = scope["state"]["peer"], scope["client"][0]
                answer = application.answer(
                    Request(scope["method"], scope["path"], body, headers=headers, peer=peer, address=address)
                )
                terms.bodies.give_back(len(body))
        said = [(b"content-type", answer.media_type), (b"content-length", b"%d" % len(answer.body)), *answer.headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": said})
        await send({"type": "http.response.body", "body": answer.body})

    return app


def _serve(ports: Connection, n_bytes: int, *, own: bool) -> None:
    body = b"x" * n_bytes

    async def run() -> None:
        sock: socket.socket = listen("extender", "127.0.0.1", 0)
        ports.send(sock.getsockname()[1])
        async with anyio.create_task_group() as group:
            if own:
                await group.start(serve_direct, Fixed(body), sock, None)
            else:
                await group.start(serve_app, _asgi(Fixed(body)), sock, None)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.listeners")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--bytes", type=int, default=9_000, help="of each request and answer")
    options = parser.parse_args(arguments)
    spawn = multiprocessing.get_context("spawn")
    request = a_request("/scheduler/filter", b"x" * options.bytes)
    request = request.replace(b"\r\nHost", b"\r\nUser-Agent: Go-http-client/1.1\r\nAccept-Encoding: gzip\r\nHost", 1)
    micros: dict[str, list[float]] = {"own": [], "uvicorn": []}
    servers = {}
    for name in micros:
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=_serve, args=(theirs, options.bytes), kwargs={"own": name == "own"}, daemon=True)
        process.start()
        servers[name] = (process, ours.recv())
    for _ in range(options.rounds):
        for name, (process, port) in servers.items():
            assert process.pid is not None
            with KeepAlive(port) as connection:
                before = cpu_seconds_finely(process.pid)
                for _ in range(options.calls):
                    connection.ask(request)
                micros[name].append(1e6 * (cpu_seconds_finely(process.pid) - before) / options.calls)
    for process, _ in servers.values():
        process.kill()
    for name, found in micros.items():
        print(f"{name:8} {statistics.median(found):6.1f} us a call (from {min(found):.1f} to {max(found):.1f})")
    apart = [theirs - ours for ours, theirs in zip(micros["own"], micros["uvicorn"], strict=True)]
    print(f"the difference: median {statistics.median(apart):.1f} us, {min(apart):.1f} to {max(apart):.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
