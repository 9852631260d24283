"""`GET /report`: the log of both sides in parts, the bound on its readers, and why there is none."""

from collections.abc import AsyncGenerator
from typing import Any

import anyio
import httpx
import pytest

from slackwater.ports.protocols import NothingThere
from tests.support.ops import Ready, ops_app

pytestmark = pytest.mark.anyio
PARTS = [b'{"line":"began"}\n', b'{"line":"sample"}\n']


class Log:
    """A log whose second part comes when `go_on` is set. `begun` is released each time that somebody reads."""

    def __init__(self) -> None:
        self.asked: list[float | None] = []
        self.go_on = anyio.Event()
        self.begun = anyio.Semaphore(0)
        self.open = 0

    async def __call__(self, since_seconds: float | None, /) -> AsyncGenerator[bytes, None]:
        self.asked.append(since_seconds)
        self.open += 1
        self.begun.release()
        try:
            yield PARTS[0]
            await self.go_on.wait()
            yield PARTS[1]
        finally:
            self.open -= 1


async def none_is_written(_since: float | None, /) -> AsyncGenerator[bytes, None]:
    raise NothingThere("the disk is full")
    yield b""


def client(log: Any) -> httpx.AsyncClient:
    """Of a service that has not listed everything yet."""
    app: Any = ops_app(readiness=Ready("pods"), report_log=log)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://ops")


async def test_the_log_comes_from_the_time_asked_for() -> None:
    log = Log()
    log.go_on.set()
    async with client(log) as http:
        answers = [await http.get("/report"), await http.get("/report?since=24h")]
    assert [(answer.status_code, answer.content) for answer in answers] == [(200, b"".join(PARTS))] * 2
    assert answers[0].headers["content-type"] == "application/x-ndjson"
    assert (log.asked, log.open) == ([None, 86_400.0], 0)


@pytest.mark.parametrize(
    ("log", "path", "status", "want"),
    [
        (None, "/report", 404, "no log is written: this service keeps none of nodes, money and decisions"),
        (none_is_written, "/report", 404, "no log is written: the disk is full"),
        (None, "/report?since=yesterday", 400, "since: duration 'yesterday'"),
    ],
)
async def test_without_a_log_the_reason_is_said(log: Any, path: str, status: int, want: str) -> None:
    async with client(log) as http:
        answer = await http.get(path)
    assert answer.status_code == status
    assert want in answer.json()["detail"]


async def test_a_third_reader_is_refused_and_may_come_again() -> None:
    log, others = Log(), []
    async with client(log) as http, anyio.create_task_group() as group:

        async def read() -> None:
            others.append((await http.get("/report")).status_code)

        group.start_soon(read)
        group.start_soon(read)
        await log.begun.acquire()
        await log.begun.acquire()
        refused = await http.get("/report")
        log.go_on.set()
    assert (refused.status_code, "2 others read the log" in refused.json()["detail"]) == (503, True)
    assert others == [200, 200]
    async with client(log) as http:
        assert (await http.get("/report")).status_code == 200


async def test_the_log_does_not_wait_for_other_answers() -> None:
    """While it is read, the status is answered."""
    log = Log()
    async with client(log) as http, anyio.create_task_group() as group:
        group.start_soon(http.get, "/report")
        await log.begun.acquire()
        assert (await http.get("/statusz")).status_code == 200
        log.go_on.set()
