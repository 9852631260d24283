"""`POST /simulate/...`: who may, what is read, and how refusals are told."""

from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from slackwater.adapters.http.ops import ops_app
from slackwater.adapters.http.status import SettingsView
from slackwater.adapters.http.whatif import LARGEST_BODY
from slackwater.app.settings import Settings, as_file
from slackwater.controllers.policy import Policy
from slackwater.model.ids import Instant
from slackwater.ports.protocols import Question, Supposed, WhatIfRefused
from slackwater.runtime.state_machine import World
from tests.support.callers import showing

pytestmark = pytest.mark.anyio


class Ready:
    def __init__(self, *unlisted: str) -> None:
        self.unlisted = unlisted

    @property
    def ready(self) -> bool:
        return not self.unlisted


class Desk:
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
    desk: Desk,
    body: bytes = b"",
    *,
    question: Question = "scale-up",
    host: str = "127.0.0.1",
    certificate: str | None = None,
    waits_for: str = "",
    **headers: str,
) -> httpx.Response:
    app: Any = ops_app(
        world=World(Policy()),
        readiness=Ready(*filter(None, [waits_for])),
        registry=CollectorRegistry(),
        settings=SettingsView(as_file(Settings())),
        clock=lambda: Instant(0.0),
        what_if=desk,
    )
    transport = httpx.ASGITransport(app=showing(app, certificate), client=(host, 1234))
    async with httpx.AsyncClient(transport=transport, base_url="http://ops") as http:
        return await http.post(f"/simulate/{question}", content=body, headers=headers)


async def test_the_answer_is_passed_on_as_it_is() -> None:
    answer = await post(Desk(b'{"groups": []}'))
    assert (answer.status_code, answer.json()) == (200, {"groups": []})
    assert answer.headers["content-type"] == "application/json"


async def test_an_empty_body_supposes_nothing_and_a_full_one_all_of_it() -> None:
    desk = Desk()
    await post(desk)
    await post(desk, b'{"objects": [{"kind": "Pod"}], "remove": [{"kind": "Node", "name": "n"}], "accounting": true}')
    assert desk.asked == [
        ("scale-up", Supposed()),
        (
            "scale-up",
            Supposed(objects=({"kind": "Pod"},), remove=({"kind": "Node", "namespace": "", "name": "n"},), accounting=True),
        ),
    ]


async def test_only_from_this_machine_or_with_a_certificate_and_from_no_other_page() -> None:
    desk = Desk()
    assert (await post(desk, host="10.0.0.7")).status_code == 403
    assert (await post(desk, origin="http://evil.example")).status_code == 403
    assert desk.asked == []
    assert (await post(desk, host="10.0.0.7", certificate="admin")).status_code == 200


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
    desk = Desk()
    answer = await post(desk, body)
    assert answer.status_code == 400
    assert want in answer.json()["detail"]
    assert desk.asked == []


async def test_sequential_is_for_placement_alone() -> None:
    desk = Desk(b'{"pod": "shop/p", "node": null}\n')
    assert (await post(desk, b'{"sequential": true}')).status_code == 400
    answer = await post(desk, b'{"sequential": true}', question="placement")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
    assert desk.asked == [("placement", Supposed(sequential=True))]


async def test_a_refusal_is_told_with_its_reason() -> None:
    answer = await post(Desk(WhatIfRefused("objects[0].kind: got 'Job'")))
    assert (answer.status_code, answer.json()["detail"]) == (400, "objects[0].kind: got 'Job'")
    assert (await post(Desk(WhatIfRefused("busy", busy=True)))).status_code == 503


async def test_nothing_is_answered_before_everything_was_listed_once() -> None:
    desk = Desk()
    assert (await post(desk, waits_for="pods")).status_code == 503
    assert desk.asked == []


async def test_a_body_that_is_too_large_is_refused() -> None:
    desk = Desk()
    assert (await post(desk, b" " * (LARGEST_BODY + 1))).status_code == 413
    assert desk.asked == []
