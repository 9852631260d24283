"""The agents' listener over time: waiting for room, bounds, faults."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import anyio.abc
import anyio.lowlevel
import httpx
import pytest
from structlog.testing import capture_logs

from slackwater.model.permits import Caller, PermitAnswer, PermitAsk, PermitRefusal
from tests.support.agents import PATIENT, AgentService, a_request, an_agent_service
from tests.support.permitservice import GIB, amounts

pytestmark = pytest.mark.anyio


async def test_with_prefer_wait_denied_growth_is_answered_as_soon_as_there_is_room() -> None:
    async with an_agent_service() as service:
        other = service.permit_service.has_pod("other", on="n", reserved=amounts(9000, 4 * GIB))
        answers: list[httpx.Response] = []

        async def ask() -> None:
            answers.append(await service.post(a_request(cpu=4), prefer="wait=20"))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await service.permit_service.is_waited_for()
                assert answers == []
                service.permit_service.drop_pod(other)
        assert answers[0].json()["permit"]["vCPUs"] == 4
        assert answers[0].headers["preference-applied"] == "wait=20"


async def test_the_end_of_the_wait_brings_what_there_is() -> None:
    async with an_agent_service(limits=replace(PATIENT, max_wait_seconds=0.05)) as service:
        service.permit_service.has_pod("other", on="n", reserved=amounts(8000, 4 * GIB))
        answer = await service.post(a_request(cpu=4), prefer="respond-async, wait=600")
        assert answer.json()["permit"]["vCPUs"] == 2
        assert service.permit_service.waits == [0.05]


@pytest.mark.parametrize(
    ("prefer", "want"),
    [
        ("wait=7", 7),
        ("Wait = 7", 7),
        ('wait="7"', 7),
        ("respond-async,wait=7; q=1", 7),
        ("wait=7, wait=9", 7),
        ("await=7", 0),
        ("wait", 0),
        ("wait=-7", 0),
        ("wait=0", 0),
        ("wait=x", 0),
        ("other; wait=7", 0),
        ("wait=99999999999", 0),
    ],
)
async def test_only_the_wait_of_the_rfc_is_one(prefer: str, want: int) -> None:
    async with an_agent_service() as service:
        await service.post(a_request(), prefer=prefer)
        assert service.permit_service.waits == [want]


@pytest.mark.parametrize("prefer", ["wait=20", "wait=0"])
async def test_an_agent_that_hangs_up_ends_its_wait(prefer: str) -> None:
    """Whether it waits for room, or for the permit service to write."""
    permit_service = _Stuck()
    async with an_agent_service(permit_service=permit_service) as service, anyio.create_task_group() as group:
        with anyio.fail_after(60):
            group.start_soon(lambda: service.post(a_request(cpu=4), prefer=prefer))
            await permit_service.was_asked(1)
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await permit_service.given_up.wait()
        assert service.counted("slackwater_agent_requests_total", code="499", version="v5.0") == 1


class _Stuck:
    """A permit service that never decides, or that breaks."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.given_up = anyio.Event()
        self._asked = anyio.Semaphore(0)

    async def was_asked(self, times: int) -> None:
        for _ in range(times):
            await self._asked.acquire()

    async def ask(self, ask: PermitAsk, *, wait_seconds: float = 0.0, caller: Caller | None) -> PermitAnswer | PermitRefusal:
        self._asked.release()
        if self.fault is not None:
            raise self.fault
        try:
            await anyio.sleep_forever()
        finally:
            self.given_up.set()
        raise AssertionError


class _Broken:
    """A permit service that fails before there is anything to wait for."""

    def ask(self, ask: PermitAsk, *, wait_seconds: float = 0.0, caller: Caller | None) -> PermitAnswer:
        raise RuntimeError("broken")


async def test_an_answer_that_does_not_come_in_time_is_503() -> None:
    async with an_agent_service(permit_service=_Stuck(), limits=replace(PATIENT, answer_seconds=0.02)) as service:
        answer = await service.post(a_request())
        assert (answer.status_code, answer.text) == (503, "pod default/vm: no decision within 0.02 s")


async def test_a_fault_is_500_and_the_next_request_is_answered() -> None:
    permit_service = _Stuck(RuntimeError("broken"))
    async with an_agent_service(permit_service=permit_service, limits=replace(PATIENT, answer_seconds=0.02)) as service:
        with capture_logs():
            answer = await service.post(a_request())
        assert (answer.status_code, answer.text) == (500, "request handler panicked")
        permit_service.fault = None
        assert (await service.post(a_request())).status_code == 503


async def test_a_fault_at_once_is_500_too() -> None:
    async with an_agent_service(permit_service=_Broken()) as service:
        with capture_logs() as logs:
            answer = await service.post(a_request())
        assert (answer.status_code, answer.text) == (500, "request handler panicked")
        assert [log["event"] for log in logs] == ["agent request failed"]


async def test_more_requests_than_allowed_get_a_retry_after() -> None:
    few, permit_service = replace(PATIENT, max_requests=2), _Stuck()
    async with an_agent_service(permit_service=permit_service, limits=few) as service, anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(service.post, a_request())
        await permit_service.was_asked(2)
        answer = await service.post(a_request())
        assert (answer.status_code, answer.text) == (503, "3 requests in flight, want at most 2")
        assert answer.headers["retry-after"] == "1"
        group.cancel_scope.cancel()


async def test_before_everything_is_listed_a_good_request_waits_its_turn() -> None:
    async with an_agent_service() as service:
        service.readiness.unlisted = ["pods"]
        answer = await service.post(a_request())
        assert (answer.status_code, answer.text) == (503, "not ready: waiting for the first list of pods")
        assert service.permit_service.asked == []


@asynccontextmanager
async def connected(service: AgentService) -> AsyncIterator[anyio.abc.SocketStream]:
    url = httpx.URL(service.url)
    with anyio.fail_after(60):
        async with await anyio.connect_tcp(url.host, url.port or 0) as stream:
            yield stream


async def read_until(stream: anyio.abc.SocketStream, end: bytes) -> bytes:
    found = b""
    while not found.endswith(end):
        found += await stream.receive()
    return found


def head(length: int, more: str = "") -> bytes:
    return f"POST / HTTP/1.1\r\nhost: agents\r\ncontent-length: {length}\r\n{more}\r\n".encode()


ANSWER = b'{"permit":{"vCPUs":1,"mem":"4Gi"}}'


async def test_a_body_that_never_ends_is_given_up() -> None:
    async with an_agent_service(limits=replace(PATIENT, body_seconds=0.02)) as service, connected(service) as stream:
        await stream.send(head(100) + b"{")
        answer = await read_until(stream, b"body: not complete within 0.02 s")
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"content-type: text/plain\r\n" in answer
        assert b"connection: close\r\n" in answer
        assert service.counted("slackwater_agent_requests_total", code="408", version="other") == 1


async def test_a_body_in_pieces_is_put_together() -> None:
    text = json.dumps(a_request()).encode()
    async with an_agent_service() as service, connected(service) as stream:
        await stream.send(head(len(text)))
        for i in range(0, len(text), 7):
            await stream.send(text[i : i + 7])
            await anyio.lowlevel.checkpoint()
        assert (await read_until(stream, ANSWER)).startswith(b"HTTP/1.1 200 ")


async def test_a_huge_body_is_answered_by_its_beginning_and_the_connection_closed() -> None:
    text = json.dumps(a_request()).encode()
    async with an_agent_service() as service, connected(service) as stream:
        await stream.send(head(1_000_000) + text + b" " * 70_000)
        answer = await read_until(stream, ANSWER)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close\r\n" in answer
        assert len(service.permit_service.asked) == 1


async def test_a_body_within_what_is_skipped_leaves_the_connection_for_the_next() -> None:
    text = json.dumps(a_request()).encode()
    async with an_agent_service() as service, connected(service) as stream:
        for _ in range(2):
            await stream.send(head(65_536) + text.ljust(65_536))
            assert b"connection: close" not in await read_until(stream, ANSWER)


async def test_a_question_that_comes_while_another_waits_has_its_turn() -> None:
    async with an_agent_service() as service, connected(service) as stream:
        other = service.permit_service.has_pod("other", on="n", reserved=amounts(9000, 4 * GIB))
        for cpu, more in ((4, "prefer: wait=20\r\n"), (1, "")):
            text = json.dumps(a_request(cpu=cpu)).encode()
            await stream.send(head(len(text), more) + text)
            await service.permit_service.is_waited_for()
        service.permit_service.drop_pod(other)
        answers = await read_until(stream, ANSWER)
        assert answers.index(b'"vCPUs":4') < answers.index(b'"vCPUs":1')


async def test_what_is_no_http_is_refused_in_plain_text() -> None:
    async with an_agent_service() as service, connected(service) as stream:
        await stream.send(b"\x16\x03\x01 not http at all\r\n\r\n")
        answer = await stream.receive()
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"content-type: text/plain\r\n" in answer
