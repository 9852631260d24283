"""openapi/agent.yaml says what the agents' listener does: its exchanges happen, its texts are answered, and whatever is sent
gets an answer that is described."""

import json
from pathlib import Path
from typing import Any

import anyio
import httpx
import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deploy.documents.agents_openapi import EXCHANGES, REFUSALS, agent_document
from slackwater.model.ids import PodKey
from slackwater_protocol.agent import AgentRequest, PluginResponse
from tests.support.agents import AgentService, an_agent_service
from tests.support.permitservice import GIB, amounts
from tests.support.seeds import examples

EXAMPLES = Path("openapi/examples")
AGENT = agent_document(EXAMPLES)
POST = AGENT["paths"]["/"]["post"]
VM = PodKey("default", "vm-a-xyz")
NAMES = [exchange.name for exchange in EXCHANGES]


def body_of(name: str) -> Any:
    return json.loads((EXAMPLES / f"agent-{name}.json").read_text())


def validator(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({**schema, "components": AGENT["components"]})


REQUEST = validator(POST["requestBody"]["content"]["application/json"]["schema"])


def check_described(answer: httpx.Response) -> None:
    described = POST["responses"][str(answer.status_code)]["content"]
    media_type = answer.headers["content-type"].partition(";")[0]
    body = answer.json() if media_type == "application/json" else answer.text
    validator(described[media_type]["schema"]).validate(body)


def test_every_recorded_exchange_is_an_example() -> None:
    recorded = {path.name for path in EXAMPLES.glob("agent-*.json")}
    assert recorded == {f"agent-{name}.{part}.json" for name in NAMES for part in ("request", "200")}


def with_the_vm(service: AgentService, name: str) -> None:
    service.permit_service.drop_pod(PodKey("default", "vm"))
    service.permit_service.has_pod(VM.name, on="n", reserved=amounts(1000, 4 * GIB))
    if name == "denied":
        service.permit_service.has_pod("other", on="n", reserved=amounts(4250, 16 * GIB))
    if name == "migrating":
        service.permit_service.to_migrate.add(VM)


@pytest.mark.anyio
@pytest.mark.parametrize("name", NAMES)
async def test_each_exchange_validates_and_happens(name: str) -> None:
    request, want = body_of(f"{name}.request"), body_of(f"{name}.200")
    REQUEST.validate(request)
    assert AgentRequest.model_validate(request).problem() is None
    assert PluginResponse.model_validate(want).permit.memory > 0
    async with an_agent_service() as service:
        with_the_vm(service, name)
        answer = await service.post(request, prefer="wait=0")
    assert (answer.status_code, answer.json()) == (200, want)
    check_described(answer)


ANSWERED: dict[str, tuple[str, bytes]] = {
    "must be POST": ("GET", b""),
    "bad JSON": ("POST", b"{"),
    "Invalid protocol version <invalid: zero>": ("POST", b"{}"),
    "Protocol version mismatch: Need v3.0 to v5.0 but got v2.1": ("POST", b'{"protoVersion":4}'),
    "computeUnit fields must be non-zero: vCPUs must be non-zero": ("POST", b'{"protoVersion":7}'),
    "presence of metrics.loadAvg5M must match presence of metrics.memoryUsageBytes": (
        "POST",
        b'{"protoVersion":7,"computeUnit":{"vCPUs":1,"mem":1},"metrics":{"loadAvg5M":1}}',
    ),
    "non-nil metrics.{loadAvg5M,memoryUsageBytes} not supported for protocol version v5.0": (
        "POST",
        b'{"protoVersion":7,"computeUnit":{"vCPUs":1,"mem":1},"metrics":{"loadAvg5M":1,"memoryUsageBytes":1}}',
    ),
    "resources fields must be non-zero: mem must be non-zero": ("POST", b'{"protoVersion":5,"resources":{"vCPUs":1}}'),
    "resources.vCPUs: got -1, want 0 to 4294967295m CPU": ("POST", b'{"resources":{"vCPUs":-1}}'),
    "pod is not associated with a VM": (
        "POST",
        b'{"protoVersion":5,"pod":{"namespace":"default","name":"plain"},"resources":{"vCPUs":1,"mem":1}}',
    ),
}


@pytest.mark.anyio
@pytest.mark.parametrize("text", REFUSALS[400][1])
async def test_each_text_of_a_refusal_is_answered_word_for_word(text: str) -> None:
    method, body = ANSWERED[text]
    async with an_agent_service() as service:
        service.permit_service.has_pod("plain", on="n", is_vm=False)
        answer = await service.http.request(method, "/", content=body)
    assert (answer.status_code, answer.text) == (400, text)
    check_described(answer)


CASES = schemathesis.openapi.from_dict(AGENT)["/"]["POST"].as_strategy()
DAMAGE = st.sampled_from([lambda body: body, lambda body: body, lambda body: body[: len(body) // 2], lambda body: body.upper()])


@given(case=CASES, damage=DAMAGE, at_home=st.booleans())
@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_whatever_the_document_allows_gets_an_answer_that_it_describes(case: Any, damage: Any, at_home: bool) -> None:
    """`at_home`: about the VM that is there, else about any pod."""
    body = {**case.body, "pod": VM._asdict()} if at_home and isinstance(case.body, dict) else case.body
    text = damage(json.dumps(body)).encode()

    async def ask() -> httpx.Response:
        async with an_agent_service() as service:
            with_the_vm(service, "")
            return await service.post(text)

    answer = anyio.run(ask)
    check_described(answer)
    assert answer.status_code in (200, 400, 404)
    if answer.status_code == 200:
        permit = PluginResponse.from_body(answer.content).permit
        read = AgentRequest.from_body(text)
        assert permit.milli_cpu <= read.resources.milli_cpu
        assert permit.memory <= read.resources.memory
