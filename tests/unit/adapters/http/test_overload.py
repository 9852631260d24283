"""Listeners under more than they can do, over real sockets: who matters more is answered first, and nothing grows without end.

What is counted is the order of answers, not milliseconds: those depend on the machine.
"""

import asyncio
import json
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from itertools import count

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from prometheus_client import CollectorRegistry

from slackwater.adapters.http import bounded_http, callers, http_server
from slackwater.adapters.http.application import Answer, BodyBudget, ConnectionLimiter, ConnectionSlot, Request, RequestTerms
from slackwater.adapters.http.http_server import DirectProtocol
from slackwater.adapters.http.status import SettingsView
from slackwater.adapters.http.uvicorn_listener import listen, serve_app, serve_direct
from slackwater.app.process import raise_limit
from slackwater.model.objects import Pod
from tests.support.bodies import bind_args, filter_args
from tests.support.builders import a_node, a_pod
from tests.support.ops import ops_app
from tests.support.service import Service, a_service
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

NODES = [f"node-{number:04}" for number in range(1500)]


def posted(path: str, body: bytes, *, declared: int | None = None) -> bytes:
    return b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (path.encode(), declared or len(body), body)


async def answer_on(stream: anyio.abc.ByteStream) -> tuple[int, bytes]:
    """Status and body of one answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += await stream.receive()
    return int(head.split()[1]), body


class Echo:
    """Answers at once: as many bytes as it had to."""

    def __init__(self, terms: RequestTerms, answer: bytes = b"ok") -> None:
        self.terms = terms
        self.refused = 0
        self._answer = answer

    def answer(self, _request: Request) -> Answer:
        return Answer(200, self._answer)

    def refusal(self, status: int, _path: str, message: str) -> Answer:
        self.refused += 1
        return Answer(status, message.encode())


@asynccontextmanager
async def listening(app: Echo, most: int = 2048) -> AsyncIterator[int]:
    with listen("extender", "127.0.0.1", 0) as sock:
        async with anyio.create_task_group() as group:
            await group.start(serve_direct, app, sock, None, most)
            yield sock.getsockname()[1]
            group.cancel_scope.cancel()


async def asked(service: Service, verb: str, body: object, done: list[str], name: str) -> int:
    port = service.http.base_url.port
    assert port is not None
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(posted(f"/scheduler/{verb}", json.dumps(body).encode()))
        status, _ = await answer_on(stream)
        done.append(name)
        return status


async def test_a_bind_in_the_middle_of_a_flood_of_filters_is_answered_long_before_its_end() -> None:
    decided = a_pod("decided", cpu="1m")
    # Each question takes half a millisecond, however fast the machine is: rounds are counted, not its speed.
    readings = count()
    async with a_service(max_body_bytes=1 << 24, stopwatch=lambda: next(readings) * 0.0005) as service:
        service.has(*(a_node(name) for name in NODES), decided)
        await service.ask("filter", filter_args(decided, NODES[0]))
        before, event_counts = service.state_machine.state.event_counts.attempts, service.state_machine.state.event_counts
        with ExitStack() as stack:
            # Everything is in the sockets before the service reads the first byte of it.
            flood = [
                stack.enter_context(sent(service, "filter", filter_args(a_pod(f"p{number}", cpu="1m"), *NODES)))
                for number in range(300)
            ]
            bind = stack.enter_context(sent(service, "bind", bind_args(decided, NODES[0])))
            loop = asyncio.get_running_loop()
            assert (await loop.sock_recv(bind, 100)).startswith(b"HTTP/1.1 200 ")
            answered = event_counts.attempts - before
            heads = [await loop.sock_recv(each, 12) for each in flood]
    assert set(heads) == {b"HTTP/1.1 200"}, "every filter was answered, too"
    assert answered < 100, "a bind waits for some rounds, not for the queue"


def sent(service: Service, verb: str, body: object) -> socket.socket:
    """A connection on which a question waits to be read."""
    port = service.http.base_url.port
    assert port is not None
    made = socket.create_connection(("127.0.0.1", port), timeout=60)
    made.sendall(posted(f"/scheduler/{verb}", json.dumps(body).encode()))
    made.setblocking(False)
    return made


async def test_too_many_filter_calls_are_refused_and_hold_nothing() -> None:
    statuses: list[int] = []
    async with a_service(max_body_bytes=1 << 24, wait_seconds=600.0) as service:
        service.has(*(a_node(name) for name in NODES))

        async def one(pod: Pod) -> None:
            statuses.append(await asked(service, "filter", filter_args(pod, *NODES), [], ""))

        async with anyio.create_task_group() as group:
            for number in range(900):
                group.start_soon(one, a_pod(f"p{number}", cpu="1m"))
        answered = statuses.count(200)
        assert set(statuses) == {200, 503}
        assert answered >= 512
        assert len(service.state_machine.state.holds) == answered, "who was turned away holds no room"


async def test_a_thousand_connections_that_send_slowly_keep_no_other_waiting_and_end() -> None:
    assert raise_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    # Where the machine stands still, slow ones are ended before the quick one has asked: then again, with more time.
    for seconds in (8.0, 32.0, 128.0):
        if await _none_has_ended_before_a_quick_one_is_answered(seconds):
            return
    raise AssertionError("a quick one is answered once slow ones have ended")


async def _none_has_ended_before_a_quick_one_is_answered(arrive_seconds: float) -> bool:
    """The slow ones are told in the end that they were too slow."""
    app = Echo(RequestTerms(max_body_bytes=1000, arrive_seconds=arrive_seconds))
    async with listening(app) as port, AsyncExitStack() as stack:
        slow = [await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port)) for _ in range(1000)]
        with suppress(anyio.BrokenResourceError):  # one that has been ended
            for stream in slow:
                await stream.send(posted("/x", b"a", declared=900))
        async with await anyio.connect_tcp("127.0.0.1", port) as quick:
            await quick.send(posted("/x", b"whole"))
            assert await answer_on(quick) == (200, b"ok")
        if app.refused:
            return False
        assert {(await answer_on(stream))[0] for stream in slow} == {408}
    return True


async def test_bodies_that_never_end_take_no_more_than_their_share_of_memory() -> None:
    bodies = BodyBudget(4000)
    app = Echo(RequestTerms(max_body_bytes=1000, bodies=bodies))
    async with listening(app) as port:
        async with AsyncExitStack() as stack:
            for _ in range(4):
                stream = await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port))
                await stream.send(posted("/x", b"a" * 950, declared=1000))
            await until(lambda: bodies.held >= 3800, seconds=60)
            async with await anyio.connect_tcp("127.0.0.1", port) as late:
                await late.send(posted("/x", b"a" * 950))
                status, text = await answer_on(late)
                assert (status, text) == (503, b"body: 4000 bytes of questions are being answered, and no more are taken")
        async with await anyio.connect_tcp("127.0.0.1", port) as after:
            await until(lambda: not bodies.held, seconds=60)
            for _ in range(3):
                await after.send(posted("/x", b"a" * 950))
                assert await answer_on(after) == (200, b"ok")
    assert bodies.held == 0


async def test_unread_answers_are_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "UNREAD_SECONDS", 0.2)
    ended, lost = anyio.Event(), DirectProtocol.connection_lost

    def notes_the_end(connection: DirectProtocol, exc: Exception | None) -> None:
        lost(connection, exc)
        ended.set()

    monkeypatch.setattr(DirectProtocol, "connection_lost", notes_the_end)
    app = Echo(RequestTerms(max_body_bytes=1000), b"x" * 50_000_000)
    async with listening(app) as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(posted("/x", b"a"))
        with anyio.fail_after(60):
            await ended.wait()
        got = 0
        with suppress(anyio.BrokenResourceError, anyio.EndOfStream), anyio.fail_after(60):
            while got < 50_000_000:
                got += len(await stream.receive())
        assert got < 50_000_000, "the rest was thrown away"


def test_a_caller_has_at_most_half_of_the_places_once_they_are_scarce() -> None:
    connection_limiter = ConnectionLimiter(8)
    places = [connection_limiter.enter("greedy") for _ in range(6)]
    assert all(isinstance(place, ConnectionSlot) for place in places)
    assert connection_limiter.enter("greedy") == "6 of 6 open connections are yours, and no more are taken from you"
    assert isinstance(connection_limiter.enter("other"), ConnectionSlot)
    assert isinstance(connection_limiter.enter("third"), ConnectionSlot)
    assert connection_limiter.enter("other") == "8 connections are open, and no more are taken"
    assert isinstance(places[0], ConnectionSlot)
    for _ in range(2):
        places[0].release()
    assert len(connection_limiter) == 7, "a place is given back once"
    assert isinstance(connection_limiter.enter("other"), ConnectionSlot)
    assert len(connection_limiter) == 8


@asynccontextmanager
async def ops_of(service: Service) -> AsyncIterator[int]:
    app = ops_app(
        state_machine=service.state_machine,
        readiness=service,
        registry=CollectorRegistry(),
        settings=SettingsView({}),
        clock=service.clock,
    )
    with listen("ops", "127.0.0.1", 0) as sock:
        async with anyio.create_task_group() as group:
            await group.start(serve_app, app, sock, None)
            yield sock.getsockname()[1]
            group.cancel_scope.cancel()


async def looks(port: int, path: str, done: list[int]) -> None:
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(b"GET %b HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n" % path.encode())
        data = b""
        while True:
            try:
                data += await stream.receive()
            except anyio.EndOfStream:
                break
        done.append(int(data.split()[1]))


def switches() -> int:
    """How often others have taken the processor from this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


async def test_a_flood_of_state_and_metrics_comes_between_two_filters_a_few_times_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(callers, "_WAIT_SECONDS", 600.0)  # nobody waits in vain because the machine is slow
    done: list[int] = []
    between = []
    async with a_service() as service:
        service.has(*(a_node(name) for name in NODES))
        async with ops_of(service) as port, anyio.create_task_group() as group:
            for number in range(120):
                group.start_soon(looks, port, ("/metrics", "/dumpstate", "/statusz")[number % 3], done)
            while not done:
                await anyio.lowlevel.checkpoint()
            for number in range(30):
                before, switched = done.count(200), switches()
                await service.ask("filter", filter_args(a_pod(f"p{number}", cpu="1m"), *NODES))
                # While others have the processor the pause after an answer ends.
                between.append(done.count(200) - before - (switches() - switched))
            probe: list[int] = []
            await looks(port, "/readyz", probe)
            assert probe == [200], "health is never turned away"
    assert max(between) <= 2
    assert set(done) == {200, 503}, "and those that would have waited too long were told so"
    assert done.count(200) >= 32


async def test_the_ops_listener_bounds_its_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_http, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(bounded_http, "LINGER_SECONDS", 0.1)
    monkeypatch.setattr(bounded_http, "ARRIVE_SECONDS", 600.0)
    async with a_service() as service, ops_of(service) as port, AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port))
        async with await anyio.connect_tcp("127.0.0.1", port) as third:
            with anyio.fail_after(60):
                assert (await third.receive()).startswith(b"HTTP/1.1 503 ")


async def test_the_ops_listener_bounds_how_long_a_connection_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_http, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(bounded_http, "ARRIVE_SECONDS", 0.5)
    async with a_service() as service, ops_of(service) as port, AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port)) for _ in range(2)]
        for stream in silent:
            with pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)), anyio.fail_after(60):
                await stream.receive()
        monkeypatch.setattr(bounded_http, "ARRIVE_SECONDS", 60.0)
        done: list[int] = []
        await looks(port, "/livez", done)
        assert done == [200]
