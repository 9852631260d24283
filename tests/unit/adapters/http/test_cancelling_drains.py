"""`POST /drains/{node}/cancel`: who may, and what the answer says."""

from typing import Any

import httpx
import pytest

from slackwater.adapters.http.ops import CancelResult
from slackwater.model.ids import NodeName
from tests.support.callers import showing
from tests.support.ops import ops_app

pytestmark = pytest.mark.anyio


async def post(
    answer: CancelResult, *, host: str = "127.0.0.1", certificate: str | None = None, **headers: str
) -> tuple[httpx.Response, list[NodeName]]:
    asked: list[NodeName] = []

    def cancel(node: NodeName) -> CancelResult:
        asked.append(node)
        return answer

    app: Any = ops_app(cancel_drain=cancel)
    transport = httpx.ASGITransport(app=showing(app, certificate), client=(host, 1234))
    async with httpx.AsyncClient(transport=transport, base_url="http://ops") as http:
        return await http.post("/drains/n1/cancel", headers=headers), asked


async def test_a_drain_is_cancelled_from_this_machine() -> None:
    for host in ("127.0.0.1", "::1"):
        answer, asked = await post("cancelled", host=host)
        assert (answer.status_code, answer.json(), asked) == (200, {"node": "n1", "answer": "cancelled"}, ["n1"])


async def test_from_elsewhere_only_with_a_certificate() -> None:
    answer, asked = await post("cancelled", host="10.0.0.7")
    assert (answer.status_code, asked) == (403, [])
    assert "10.0.0.7" in answer.json()["detail"]
    assert (await post("cancelled", host="10.0.0.7", certificate="admin"))[0].status_code == 200


async def test_a_page_of_another_origin_may_not() -> None:
    answer, asked = await post("cancelled", origin="http://evil.example")
    assert (answer.status_code, asked) == (403, [])
    assert (await post("cancelled", origin="http://ops"))[0].status_code == 200


async def test_what_is_not_there_or_too_late_is_answered() -> None:
    assert (await post("none"))[0].status_code == 404
    answer, _ = await post("too-late")
    assert (answer.status_code, answer.json()["detail"]) == (409, "node n1: too late, its provider was asked to delete it")
