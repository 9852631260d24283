"""The agents' listener over time: waiting for room, bounds, faults."""

import json
from collections.abc import Awaitable, MutableMapping
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from structlog.testing import capture_logs

from slackwater.edge.web.agents import AgentLimits
from slackwater.model.permits import Caller, PermitAnswer, PermitAsk, PermitRefusal
from tests.support.agents import a_request, an_agent_service
from tests.support.desk import GIB, amounts

pytestmark = pytest.mark.anyio


async def test_with_prefer_wait_denied_growth_is_answered_as_soon_as_there_is_room() -> None:
    async with an_agent_service() as service:
        other = service.desk.has_pod("other", on="n", reserved=amounts(9000, 4 * GIB))
        answers: list[httpx.Response] = []

        async def ask() -> None:
            answers.append(await service.post(a_request(cpu=4), prefer="wait=20"))

        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await anyio.wait_all_tasks_blocked()
                assert answers == []
                service.desk.drop_pod(other)
        assert answers[0].json()["permit"]["vCPUs"] == 4
        assert answers[0].headers["preference-applied"] == "wait=20"


async def test_the_end_of_the_wait_brings_what_there_is() -> None:
    async with an_agent_service(limits=AgentLimits(max_wait_seconds=0.05)) as service:
        service.desk.has_pod("other", on="n", reserved=amounts(8000, 4 * GIB))
        answer = await service.post(a_request(cpu=4), prefer="respond-async, wait=600")
        assert answer.json()["permit"]["vCPUs"] == 2
        assert service.desk.waits == [0.05]


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
        assert service.desk.waits == [want]


async def test_an_agent_that_hangs_up_ends_its_wait() -> None:
    async with an_agent_service() as service:
        service.desk.has_pod("other", on="n", reserved=amounts(9000, 4 * GIB))
        sent: list[Any] = []
        messages: list[MutableMapping[str, Any]] = [
            {"type": "http.request", "body": json.dumps(a_request(cpu=4)).encode()},
            {"type": "http.disconnect"},
        ]

        async def receive() -> MutableMapping[str, Any]:
            return messages.pop(0)

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        with anyio.fail_after(5):
            scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"prefer", b"wait=20")]}
            await service.app(scope, receive, send)
        assert sent == []
        assert service.counted("slackwater_agent_requests_total", code="499", version="v5.0") == 1


class _Stuck:
    """A desk that never decides, or that breaks."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault

    async def ask(self, ask: PermitAsk, *, wait_seconds: float = 0.0, caller: Caller | None) -> PermitAnswer | PermitRefusal:
        if self.fault is not None:
            raise self.fault
        await anyio.sleep_forever()
        raise AssertionError


async def test_an_answer_that_does_not_come_in_time_is_503() -> None:
    async with an_agent_service(desk=_Stuck(), limits=AgentLimits(answer_seconds=0.02)) as service:
        answer = await service.post(a_request())
        assert (answer.status_code, answer.text) == (503, "pod default/vm: no decision within 0.02 s")


async def test_a_fault_is_500_and_the_next_request_is_answered() -> None:
    desk = _Stuck(RuntimeError("broken"))
    async with an_agent_service(desk=desk, limits=AgentLimits(answer_seconds=0.02)) as service:
        with capture_logs():
            answer = await service.post(a_request())
        assert (answer.status_code, answer.text) == (500, "request handler panicked")
        desk.fault = None
        assert (await service.post(a_request())).status_code == 503


async def test_more_requests_than_allowed_are_told_to_come_again() -> None:
    few = AgentLimits(max_requests=2)
    async with an_agent_service(desk=_Stuck(), limits=few) as service, anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(service.post, a_request())
        await anyio.wait_all_tasks_blocked()
        answer = await service.post(a_request())
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        group.cancel_scope.cancel()


async def test_before_everything_is_listed_a_good_request_waits_its_turn() -> None:
    async with an_agent_service() as service:
        service.readiness.unlisted = ["pods"]
        answer = await service.post(a_request())
        assert (answer.status_code, answer.text) == (503, "not ready: waiting for the first list of pods")
        assert service.desk.asked == []


async def _raw(service: Any, *messages: MutableMapping[str, Any]) -> list[MutableMapping[str, Any]]:
    waiting, sent = list(messages), []

    async def receive() -> MutableMapping[str, Any]:
        if not waiting:
            await anyio.sleep_forever()
        return waiting.pop(0)

    def send(message: MutableMapping[str, Any]) -> Awaitable[None]:
        sent.append(message)
        return anyio.lowlevel.checkpoint()

    with anyio.fail_after(5):
        await service.app({"type": "http", "method": "POST", "path": "/", "headers": []}, receive, send)
    return sent


async def test_a_body_that_never_ends_is_given_up() -> None:
    async with an_agent_service(limits=AgentLimits(body_seconds=0.02)) as service:
        start, body = await _raw(service, {"type": "http.request", "body": b"{", "more_body": True})
        assert (start["status"], body["body"]) == (408, b"body: not complete within 0.02 s")
        assert (b"connection", b"close") in start["headers"]


async def test_a_body_in_pieces_is_put_together() -> None:
    text = json.dumps(a_request()).encode()
    pieces = [{"type": "http.request", "body": text[i : i + 7], "more_body": i + 7 < len(text)} for i in range(0, len(text), 7)]
    async with an_agent_service() as service:
        start, _ = await _raw(service, *pieces)
        assert start["status"] == 200


async def test_a_huge_body_is_answered_by_its_beginning_and_the_connection_closed() -> None:
    text = json.dumps(a_request()).encode()
    pieces = [{"type": "http.request", "body": text + b" " * 70_000, "more_body": True}]
    async with an_agent_service() as service:
        start, _ = await _raw(service, *pieces)
        assert start["status"] == 200
        assert (b"connection", b"close") in start["headers"]
