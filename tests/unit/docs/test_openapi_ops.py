"""openapi/ops.yaml says what the ops listener answers: its paths, its media types, and every key of the state."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from prometheus_client import CollectorRegistry

from deploy.documents import ops_examples
from deploy.documents.openapi import ops_document
from slackwater.adapters.http.dashboard.routes import OpenStreams
from slackwater.adapters.http.status import SettingsView
from slackwater.app.settings import Settings, as_file
from slackwater.controllers.preemption.victims import Candidate, PotentialVictim
from slackwater.model.events import NodeDoubted, PodSeen, Synced, TimePassed
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid
from slackwater.model.vertical import MigrationRef
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed
from tests.support.builders import a_node, a_pod, a_vertical, amounts
from tests.support.growing import Growing
from tests.support.ops import ops_app

EXAMPLES = Path("openapi/examples")
OPS = ops_document(EXAMPLES)
TWO = amounts("2", "4Gi")


class Readiness:
    def __init__(self, *, unlisted: list[str]) -> None:
        self.unlisted = unlisted

    @property
    def ready(self) -> bool:
        return not self.unlisted


def a_state_machine_with_everything() -> StateMachine:
    """A state machine in which each list of a dump that this version fills has an entry."""
    cluster = Growing()
    for name, cpu in (("full", "1"), ("free", "4"), ("crowded", "10")):
        cluster.has_node(a_node(name, cpu=cpu, memory="40Gi"))
    held, sample_miss, denied = a_pod("held"), a_pod("starved"), a_pod("denied", cpu="3")
    cluster.take(*(PodSeen(pod) for pod in (a_pod("runs", on="full", cpu="1"), held, sample_miss, denied)), Synced())
    migrates(cluster)
    state_machine, now = cluster.state_machine, cluster.now
    state_machine.filter(held, state_machine.state.nodes.rows_of(["full", "free"]), Instant(now))
    state_machine.filter(sample_miss, state_machine.state.nodes.rows_of(["full"]), Instant(now))
    state_machine.apply(TimePassed(), Instant(now + 1))
    state_machine.bind(denied.uid, denied.key, NodeName("full"), Instant(now + 1))
    victim = PotentialVictim(uid=PodUid("uid-runs"), priority=0, started_at="", reserved=amounts("1"))
    candidate = Candidate(node=NodeName("full"), victims=(victim,), awaited=())
    state_machine.preemptions.begin(a_pod("preempts", priority=1), candidate, installed.PREEMPTION, Instant(now + 1))
    state_machine.apply(NodeDoubted(NodeName("free"), "a test says so"), Instant(now + 1))
    return state_machine


def migrates(cluster: Growing) -> None:
    """A crowded node: one machine's migration has failed, the next one's runs, and others queue behind. One has no object of
    its own, so that its permit stands on its pod."""
    movable = a_vertical(using=TWO, maximum=amounts("8", "16Gi"), auto_migrate=True)
    pods = [cluster.places(f"m{number}", on="crowded", vertical=movable) for number in range(4)]
    alone = cluster.has_pod("alone", on="crowded", vertical=replace(movable, machine="alone"))
    for _ in range(2):
        for number, pod in enumerate([*pods, alone]):
            cluster.ask(pod, TWO, load=number)
    cluster.passes(2)
    cluster.write()
    key = PodKey("default", f"schedplugin-{pods[0].key.name}")
    cluster.change(pods[0], migration=MigrationRef(name=key.name, role="source"))
    cluster.migration(key, phase="Failed", source_pod=pods[0].key.name)
    for number, pod in enumerate([*pods[1:], alone]):
        cluster.ask(pod, TWO, load=number)


def validator(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({**schema, "components": OPS["components"]})


def an_ops_app(state_machine: StateMachine, *, unlisted: list[str]) -> FastAPI:
    settings = SettingsView(as_file(Settings()))
    return ops_app(
        state_machine=state_machine,
        readiness=Readiness(unlisted=unlisted),
        registry=CollectorRegistry(),
        settings=settings,
        clock=lambda: Instant(4.0),
        listeners=OpenStreams(most=0),  # a stream would not end here: tests/unit/adapters/http/test_dashboard.py
    )


def test_the_documented_paths_are_those_that_the_ops_listener_routes() -> None:
    app = an_ops_app(StateMachine(installed.POLICY), unlisted=[])
    # The files of the dashboard's page are no interface.
    routes = [route for route in app.routes if isinstance(route, APIRoute) and route.include_in_schema]
    routed = {(route.path, method.lower()) for route in routes for method in route.methods or ()}
    assert routed == {(path, method) for path, methods in OPS["paths"].items() for method in methods}


@pytest.mark.anyio
@pytest.mark.parametrize("unlisted", [[], ["pods"]], ids=["ready", "waiting"])
@pytest.mark.parametrize("path", sorted(path for path, methods in OPS["paths"].items() if "get" in methods))
async def test_what_the_ops_listener_answers_is_documented(path: str, unlisted: list[str]) -> None:
    transport = httpx.ASGITransport(app=an_ops_app(a_state_machine_with_everything(), unlisted=unlisted))
    async with httpx.AsyncClient(transport=transport, base_url="http://ops") as http:
        answer = await http.get(path)
    responses = OPS["paths"][path]["get"]["responses"]
    assert str(answer.status_code) in responses
    media_type = answer.headers["content-type"].partition(";")[0]
    schema = responses[str(answer.status_code)]["content"][media_type]["schema"]
    body = answer.json() if media_type == "application/json" else answer.text
    validator(schema).validate(body)
    assert undescribed(body, schema) == []


@pytest.mark.parametrize("example", ops_examples.EXAMPLES, ids=lambda example: example.name)
def test_each_recorded_body_is_what_its_schema_says(example: ops_examples.OpsExample) -> None:
    """They were recorded on a real control plane: `make openapi RECORD=1`."""
    operation = OPS["paths"][example.path][example.method]
    ((_, answered),) = operation["responses"]["200"]["content"].items()
    text = (EXAMPLES / example.file).read_text()
    for body in text.splitlines() if example.lines else [text]:
        validator(answered["schema"]).validate(json.loads(body))
        assert undescribed(json.loads(body), answered["schema"]) == []
    if example.request_file is not None:
        asked = operation["requestBody"]["content"]["application/json"]
        body = json.loads((EXAMPLES / example.request_file).read_text())
        validator(asked["schema"]).validate(body)
        assert [each["value"] for each in asked["examples"].values()] == [body]


def test_the_recorded_configuration_has_the_keys_of_the_present_one() -> None:
    recorded = json.loads((EXAMPLES / "ops-dumpstate.200.json").read_text())["configuration"]
    assert keys(as_file(Settings.model_validate(recorded))) == keys(recorded)


def keys(value: object) -> object:
    """The keys at each place of a document."""
    return {key: keys(each) for key, each in value.items()} if isinstance(value, dict) else None


def test_every_recorded_body_of_the_ops_listener_is_an_example() -> None:
    files = {name for example in ops_examples.EXAMPLES for name in (example.file, example.request_file) if name is not None}
    assert {path.name for path in EXAMPLES.glob("ops-*")} == files


def undescribed(value: Any, schema: dict[str, Any], at: str = "") -> list[str]:
    """Keys that are there and that the schema does not name. What the schema calls an object and no more, or lists of
    anything, are not looked into."""
    if "$ref" in schema:
        schema = OPS["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        return min((undescribed(value, part, at) for part in schema["anyOf"]), key=len) if value is not None else []
    if isinstance(value, list):
        items = schema.get("items")
        return [key for entry in value for key in undescribed(entry, items, f"{at}[]")] if items else []
    properties = schema.get("properties")
    if not isinstance(value, dict) or properties is None:
        return []
    inner = [key for name in value.keys() & properties for key in undescribed(value[name], properties[name], f"{at}.{name}")]
    return [*inner, *(f"{at}.{name}" for name in value.keys() - properties)]


@pytest.mark.anyio
async def test_the_lists_of_the_state_that_are_said_to_be_empty_are_the_only_ones() -> None:
    transport = httpx.ASGITransport(app=an_ops_app(a_state_machine_with_everything(), unlisted=[]))
    async with httpx.AsyncClient(transport=transport, base_url="http://ops") as http:
        state = (await http.get("/dumpstate")).json()
    described = OPS["components"]["schemas"]["State"]["properties"]
    empty = {name for name, part in described.items() if part.get("description") == "Empty in this version."}
    assert {name for name, part in state.items() if part == []} == empty
