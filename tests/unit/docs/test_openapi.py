"""The OpenAPI documents say what the listeners do: same paths, same statuses, same bodies; and they are up to date."""

import json
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import msgspec
import pytest
import schemathesis
import yaml
from pydantic import BaseModel

from deploy.documents.agents_openapi import agent_document
from deploy.documents.openapi import ERRORS, VERBS, documents, extender_document, main, ops_document
from slackwater.adapters.http import extender_messages
from slackwater.adapters.kube.decode import NodeDecoder
from slackwater.model.events import NodeSeen, PodGone
from slackwater.model.ids import PodKey, PodUid
from slackwater_protocol import extender
from tests.support import installed
from tests.support.builders import a_node, a_pod, amounts
from tests.support.service import Service, a_service

OPENAPI = Path("openapi")
EXAMPLES = OPENAPI / "examples"
EXTENDER = extender_document(EXAMPLES)
OPS = ops_document(EXAMPLES)
AGENT = agent_document(EXAMPLES)

DOCUMENTED = [(verb, example) for verb in VERBS for example in verb.examples]
MAP = "NodeNameToMetaVictims"
IDS = [example.name for _, example in DOCUMENTED]


def body_of(name: str) -> bytes:
    return (EXAMPLES / f"{name}.json").read_bytes()


def validator(document: dict[str, Any], schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({**schema, "components": document["components"]})


def content(document: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """The media types of an answer, also where it is a reference."""
    if "$ref" in answer:
        answer = document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    return dict(answer["content"])


# --- the files ------------------------------------------------------------------------------------------------------------


def test_the_files_are_what_the_generator_writes(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    assert main([str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in OPENAPI.iterdir())
    for path in OPENAPI.glob("*.yaml"):
        assert path.read_text() == (tmp_path / path.name).read_text(), f"{path} is out of date: run `make openapi`"


def test_without_the_recorded_bodies_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 1
    assert "examples" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("document", [EXTENDER, OPS, AGENT], ids=["extender", "ops", "agent"])
def test_each_document_is_valid_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    schemathesis.openapi.from_dict(document).validate()


def test_the_files_are_sorted_and_without_anchors() -> None:
    for name, text in documents(EXAMPLES).items():
        assert yaml.safe_dump(yaml.safe_load(text), sort_keys=True, allow_unicode=True, width=120) == text, name
        assert not re.search(r"[:-] [&*]id\d", text), name


@pytest.mark.parametrize("document", [EXTENDER, OPS, AGENT], ids=["extender", "ops", "agent"])
def test_every_schema_is_a_valid_2020_12_schema_whose_references_exist(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        assert jsonschema_rs.meta.is_valid(schema), name
    references = set(re.findall(r'"#/components/(\w+)/(\w+)"', json.dumps(document)))
    assert references
    assert [reference for reference in references if reference[1] not in document["components"][reference[0]]] == []


# --- the extender ---------------------------------------------------------------------------------------------------------


def test_every_recorded_body_is_an_example() -> None:
    exchanges = {f"{name}.{part}.json" for name in IDS for part in ("request", "200")}
    errors = {f"error.{status}.json" for status, (_, recorded) in ERRORS.items() if recorded}
    assert {path.name for path in EXAMPLES.iterdir() if not path.name.startswith(("agent-", "ops-"))} == exchanges | errors


@pytest.mark.parametrize(("verb", "example"), DOCUMENTED, ids=IDS)
def test_each_recorded_body_validates_against_the_schema_and_the_model(verb: Any, example: Any) -> None:
    operation = EXTENDER["paths"][f"/scheduler/{verb.name}"]["post"]
    parts = {
        "request": (operation["requestBody"]["content"], verb.request),
        "200": (operation["responses"]["200"]["content"], verb.answer),
    }
    for part, (media, model) in parts.items():
        body = body_of(f"{example.name}.{part}")
        validator(EXTENDER, media["application/json"]["schema"]).validate(json.loads(body))
        assert issubclass(model, BaseModel)
        model.model_validate_json(body)


@pytest.mark.parametrize("name", ["filter-by-name", "filter-whole-nodes", "prioritize-by-name", "prioritize-whole-nodes"])
def test_the_wire_reads_recorded_questions_of_filter_and_prioritize_as_the_model_does(name: str) -> None:
    body = body_of(f"{name}.request")
    model, args = extender.ExtenderArgs.model_validate_json(body), extender_messages.placing_args(body)
    assert extender_messages.head(args.Pod, "Pod").name == model.pod["metadata"]["name"]
    assert (args.NodeNames == extender_messages.NULL, args.Nodes == extender_messages.NULL) == (
        model.node_names is None,
        model.nodes is None,
    )
    if model.node_names is not None:
        assert [name.decode() for name in extender_messages.names(bytes(args.NodeNames))] == model.node_names
    if model.nodes is not None:
        items = extender_messages.node_items(args.Nodes)
        assert [json.loads(bytes(item)) for item in items] == model.nodes["items"]
        assert all(extender_messages.head(item, "Nodes.items[]").name for item in items)


@pytest.mark.parametrize("name", ["bind-granted", "bind-refused"])
def test_the_wire_reads_recorded_binds_as_the_model_does(name: str) -> None:
    body = body_of(f"{name}.request")
    model, args = extender.ExtenderBindingArgs.model_validate_json(body), extender_messages.binding_args(body)
    assert msgspec.to_builtins(args) == model.model_dump()
    answer = body_of(f"{name}.200")
    assert msgspec.json.decode(answer, type=extender_messages.ErrorAnswer).Error == json.loads(answer)["Error"]


@pytest.mark.parametrize("name", ["preempt-by-uid", "preempt-whole-pods"])
def test_the_wire_reads_recorded_preemptions_as_the_model_does(name: str) -> None:
    body = body_of(f"{name}.request")
    model, args = extender.ExtenderPreemptionArgs.model_validate_json(body), extender_messages.preemption_args(body)
    assert extender_messages.head(args.Pod, "Pod").uid == model.pod["metadata"]["uid"]
    by_uid = {
        node: [pod.UID for pod in (victims.Pods if victims else None) or ()]
        for node, victims in (args.NodeNameToMetaVictims or {}).items()
    }
    whole = {
        node: [pod.metadata.uid for pod in (victims.Pods if victims else None) or ()]
        for node, victims in (args.NodeNameToVictims or {}).items()
    }
    assert by_uid == {node: [pod.uid for pod in victims.pods] for node, victims in model.node_name_to_meta_victims.items()}
    assert whole == {
        node: [pod["metadata"]["uid"] for pod in victims.pods] for node, victims in model.node_name_to_victims.items()
    }
    answer = body_of(f"{name}.200")
    read = msgspec.json.decode(answer, type=extender_messages.PreemptionResult)
    assert msgspec.to_builtins(read) == extender.ExtenderPreemptionResult.model_validate_json(answer).model_dump()


@pytest.mark.parametrize(
    ("struct", "model"),
    [
        (extender_messages.PlacingArgs, extender.ExtenderArgs),
        (extender_messages.BindingArgs, extender.ExtenderBindingArgs),
        (extender_messages.PreemptionArgs, extender.ExtenderPreemptionArgs),
        (extender_messages.Victims, extender.Victims),
        (extender_messages.MetaVictims, extender.MetaVictims),
        (extender_messages.MetaPod, extender.MetaPod),
        (extender_messages.PreemptionResult, extender.ExtenderPreemptionResult),
        (extender_messages.ErrorAnswer, extender.ExtenderBindingResult),
    ],
    ids=lambda described: described.__name__,
)
def test_both_descriptions_of_the_wire_name_the_same_fields(struct: type[msgspec.Struct], model: type[BaseModel]) -> None:
    assert set(struct.__struct_fields__) == set(model.model_json_schema()["properties"])


@asynccontextmanager
async def the_recorded_cluster() -> AsyncIterator[Service]:
    """The service as it was when the questions of filter and prioritize were recorded: the same nodes, and what ran there."""
    policy = replace(installed.POLICY, nodes=replace(installed.NODES, system=amounts("500m", "512Mi")))
    question = json.loads(body_of("filter-whole-nodes.request"))
    async with a_service(policy) as service:
        for node in question["Nodes"]["items"]:
            service.take(NodeSeen(NodeDecoder().decode(json.dumps(node).encode())))
        service.has(a_pod("base", on="node-2", cpu="2", memory="1Gi"))
        yield service


@pytest.mark.anyio
@pytest.mark.parametrize("name", [name for name in IDS if not name.startswith(("bind-refused", "preempt"))])
async def test_the_recorded_questions_get_the_recorded_answers(name: str) -> None:
    async with the_recorded_cluster() as service:
        if name == "prioritize-by-name":
            service.take(PodGone(PodUid("uid-base"), PodKey("default", "base")))
        if name == "prioritize-whole-nodes":
            service.has(a_pod("web-1", on="node-1", cpu="2", memory="1Gi"))
        pod = json.loads(body_of("prioritize-by-name.request"))
        if name == "bind-granted":
            await service.ask("filter", pod)
        answer = await service.ask(name.partition("-")[0], json.loads(body_of(f"{name}.request")))
    assert answer == json.loads(body_of(f"{name}.200"))


@pytest.mark.anyio
@pytest.mark.parametrize("name", [name for name in IDS if name.startswith("preempt")])
async def test_the_recorded_preemptions_get_answers_of_the_documented_form(name: str) -> None:
    question = json.loads(body_of(f"{name}.request"))
    victims = question["NodeNameToVictims"] or question["NodeNameToMetaVictims"]
    uid_of = {node: [pod.get("UID") or pod["metadata"]["uid"] for pod in found["Pods"]] for node, found in victims.items()}
    async with the_recorded_cluster() as service:
        for node, uids in uid_of.items():
            for uid in uids:
                service.has(a_pod(uid, uid=uid, on=node, cpu="1500m"))
        answer = await service.ask("preempt", question)
    media = EXTENDER["paths"]["/scheduler/preempt"]["post"]["responses"]["200"]["content"]
    validator(EXTENDER, media["application/json"]["schema"]).validate(answer)
    assert answer[MAP].keys() == uid_of.keys()
    for node, found in answer[MAP].items():
        assert {pod["UID"] for pod in found["Pods"]} >= set(uid_of[node]), "victims are added, never spared"


async def a_404(http: httpx.AsyncClient) -> str:
    return str((await http.post("/scheduler/none")).json()["Error"])


@pytest.mark.anyio
async def test_the_documented_paths_are_those_that_the_extender_answers() -> None:
    async with a_service() as service:
        routed = set(re.findall(r"/scheduler/\w+", (await a_404(service.http)).partition("want one of")[2]))
        assert routed == set(EXTENDER["paths"])
        for path in routed:
            assert (await service.http.post(path, content=b"{}")).status_code == 400


class Fault(Exception):
    pass


@asynccontextmanager
async def answers() -> AsyncIterator[dict[int, httpx.Response]]:
    """The extender's answer with each status that it has, by status."""
    body, pod = json.dumps({"Pod": {}}).encode(), json.loads(body_of("filter-by-name.request"))
    async with a_service(max_body_bytes=10_000) as service:
        http, path = service.http, "/scheduler/filter"
        service.has(a_node("node-1"), a_node("node-3"))
        found = [
            await http.post(path, json=pod),
            await http.post(path, content=body),
            await http.post("/scheduler/unbind", content=body),
            await http.get(path),
            await http.post(path, content=b" " * 10_001),
        ]

        def broken(*_: object) -> object:
            raise Fault

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service.state_machine, "filter", broken)
            found.append(await http.post(path, json=pod))
        service.ready, service.unlisted = False, ["pods"]
        found.append(await http.post(path, json=pod))
        yield {answer.status_code: answer for answer in found}


@pytest.mark.anyio
async def test_the_documented_statuses_are_those_that_the_extender_answers_and_so_are_their_bodies() -> None:
    async with answers() as by_status:
        assert set(by_status) == {200, *ERRORS}
        responses = EXTENDER["paths"]["/scheduler/filter"]["post"]["responses"]
        assert {int(status) for status in responses} == set(by_status)
        for status, answer in by_status.items():
            media = content(EXTENDER, responses[str(status)])
            assert list(media) == [answer.headers["content-type"]]
            validator(EXTENDER, media["application/json"]["schema"]).validate(answer.json())
        assert by_status[405].headers["allow"] == "POST"


@pytest.mark.parametrize("status", [status for status, (_, recorded) in ERRORS.items() if recorded])
def test_each_recorded_error_is_one(status: int) -> None:
    body = json.loads(body_of(f"error.{status}"))
    schema = content(EXTENDER, {"$ref": f"#/components/responses/Error{status}"})["application/json"]["schema"]
    validator(EXTENDER, schema).validate(body)
    assert body["Error"]
