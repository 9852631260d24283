"""`POST /simulate/...`: who may, what is read, and how refusals are told."""

from typing import Any

import httpx
import pytest

from slackwater.adapters.http.questions import LARGEST_BODY
from slackwater.ports.protocols import Question, Supposed, WhatIfRefused
from tests.support.callers import showing
from tests.support.ops import Ready, ops_app

pytestmark = pytest.mark.anyio


class PermitService:
    """Answers with `says`; `asked` is what came."""

    def __init__(self, says: bytes | WhatIfRefused = b"{}") -> None:
        self.says = says
        self.asked: list[tuple[Question, Supposed]] = []

    async def __call__(self, question: Question, supposed: Supposed, /) -> bytes:
        self.asked.append((question, supposed))
        if isinstance(self.says, WhatIfRefused):
            raise self.says
        return self.says


async def post(
    permit_service: PermitService,
    body: bytes = b"",
    *,
    question: Question = "scale-up",
    host: str = "127.0.0.1",
    certificate: str | None = None,
    waits_for: str = "",
    **headers: str,
) -> httpx.Response:
    app: Any = ops_app(readiness=Ready(*filter(None, [waits_for])), what_if=permit_service)
    transport = httpx.ASGITransport(app=showing(app, certificate), client=(host, 1234))
    async with httpx.AsyncClient(transport=transport, base_url="http://ops") as http:
        return await http.post(f"/simulate/{question}", content=body, headers=headers)


async def test_the_answer_is_passed_on_as_it_is() -> None:
    answer = await post(PermitService(b'{"groups": []}'))
    assert (answer.status_code, answer.json()) == (200, {"groups": []})
    assert answer.headers["content-type"] == "application/json"


async def test_an_empty_body_supposes_nothing_and_a_full_one_all_of_it() -> None:
    permit_service = PermitService()
    await post(permit_service)
    await post(permit_service, b'{"objects": [{"kind": "Pod"}], "remove": [{"kind": "Node", "name": "n"}], "accounting": true}')
    assert permit_service.asked == [
        ("scale-up", Supposed()),
        (
            "scale-up",
            Supposed(objects=({"kind": "Pod"},), remove=({"kind": "Node", "namespace": "", "name": "n"},), accounting=True),
        ),
    ]


async def test_only_from_this_machine_or_with_a_certificate_and_from_no_other_page() -> None:
    permit_service = PermitService()
    assert (await post(permit_service, host="10.0.0.7")).status_code == 403
    assert (await post(permit_service, origin="http://evil.example")).status_code == 403
    assert permit_service.asked == []
    assert (await post(permit_service, host="10.0.0.7", certificate="admin")).status_code == 200


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (b"[]", "body: Input should be an object"),
        (b"{", "body: Invalid JSON"),
        (b'{"object": []}', "object: Extra inputs are not permitted"),
        (b'{"remove": [{"kind": "Node"}]}', "remove.0.name: Field required"),
        (b'{"accounting": "perhaps"}', "accounting: Input should be a valid boolean"),
    ],
    ids=["a list", "broken", "unknown key", "no name", "no boolean"],
)
async def test_a_body_that_is_none_is_refused_with_its_place(body: bytes, want: str) -> None:
    permit_service = PermitService()
    answer = await post(permit_service, body)
    assert answer.status_code == 400
    assert want in answer.json()["detail"]
    assert permit_service.asked == []


async def test_sequential_is_for_placement_alone() -> None:
    permit_service = PermitService(b'{"pod": "shop/p", "node": null}\n')
    assert (await post(permit_service, b'{"sequential": true}')).status_code == 400
    answer = await post(permit_service, b'{"sequential": true}', question="placement")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
    assert permit_service.asked == [("placement", Supposed(sequential=True))]


async def test_a_refusal_has_its_reason() -> None:
    answer = await post(PermitService(WhatIfRefused("objects[0].kind: got 'Job'")))
    assert (answer.status_code, answer.json()["detail"]) == (400, "objects[0].kind: got 'Job'")
    assert (await post(PermitService(WhatIfRefused("busy", busy=True)))).status_code == 503


async def test_nothing_is_answered_before_everything_was_listed_once() -> None:
    permit_service = PermitService()
    assert (await post(permit_service, waits_for="pods")).status_code == 503
    assert permit_service.asked == []


async def test_a_body_that_is_too_large_is_refused() -> None:
    permit_service = PermitService()
    assert (await post(permit_service, b" " * (LARGEST_BODY + 1))).status_code == 413
    assert permit_service.asked == []
