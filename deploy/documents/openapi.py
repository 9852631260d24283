"""Writes the OpenAPI documents of the service, one for each listener: `python -m deploy.documents.openapi DIR`.

In: the protocol's models of the extender's messages, bodies recorded from a real kube-scheduler in `DIR/examples`, and the ops
listener's application. Out: OpenAPI 3.1 as YAML with sorted keys, the same on every run.
"""

import argparse
import copy
import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import yaml
from prometheus_client import CollectorRegistry
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from deploy.documents.agents_openapi import LICENSE, agent_document, head
from deploy.documents.ops_examples import add_examples
from slackwater.adapters.http.extender_messages import ErrorAnswer
from slackwater.adapters.http.status import SettingsView
from slackwater.app.settings import Settings, as_file
from slackwater.ports.clock import monotonic
from slackwater.runtime.state_machine import StateMachine
from slackwater_protocol.extender import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriorityList,
)
from tests.support import installed
from tests.support.ops import ops_app

Json = dict[str, Any]

_SCHEMAS: Final = "#/components/schemas/"
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One recorded request and its answer: the files `examples/NAME.request.json` and `examples/NAME.200.json`."""

    name: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One of the extender's four calls. `answered` describes the answer."""

    name: str
    summary: str
    description: str
    request: type[BaseModel]
    answer: type[BaseModel]
    answered: str
    examples: tuple[Example, ...]


VERBS: Final = (
    Verb(
        name="filter",
        summary="Which of these nodes may the pod go to?",
        description="Nodes come by name (`nodeCacheCapable: true`) or whole, and are answered in the same form. Where "
        "kube-scheduler binds, the answer names one node, and room for the pod is held there. With `extender.bind: true` it "
        "names all nodes that pass, and nothing is held.",
        request=ExtenderArgs,
        answer=ExtenderFilterResult,
        answered="The chosen node alone; or all nodes that pass, in the order asked, and every other node with its reason.",
        examples=(
            Example(name="filter-by-name", summary="One node passes, one is full now, one is too small for the pod"),
            Example(name="filter-whole-nodes", summary="The same with whole Nodes"),
        ),
    ),
    Verb(
        name="prioritize",
        summary="How good is each of these nodes for the pod?",
        description="Called for pods with more than one node left. With `extender.bind: true`, where kube-scheduler counts "
        "less than Slackwater does, room for the pod is held on the best node until its bind.",
        request=ExtenderArgs,
        answer=HostPriorityList,
        answered="A score from 0 to 10 for each node, in the order asked.",
        examples=(
            Example(name="prioritize-by-name", summary="Three nodes; the smallest one scores least"),
            Example(name="prioritize-whole-nodes", summary="The same with whole Nodes"),
        ),
    ),
    Verb(
        name="bind",
        summary="Bind the pod to the node.",
        description="Room is reserved first, then the Binding is sent to the API server. A call may be repeated: the same "
        "pod (by UID) and node are bound once.",
        request=ExtenderBindingArgs,
        answer=ExtenderBindingResult,
        answered="An empty `Error`: the pod is bound. Anything else says why it is not.",
        examples=(
            Example(name="bind-granted", summary="Bound"),
            Example(name="bind-refused", summary="Somebody else took the room between filter and bind"),
        ),
    ),
    Verb(
        name="preempt",
        summary="On which of these nodes do these victims make room for the pod?",
        description="Called with the victims that kube-scheduler's own filters found. It changes nothing.",
        request=ExtenderPreemptionArgs,
        answer=ExtenderPreemptionResult,
        answered="The nodes where the victims make room in Slackwater's accounting, with more victims where these do not "
        "suffice. Nodes where nothing helps are left out.",
        examples=(
            Example(name="preempt-by-uid", summary="On node-2 a third victim is needed"),
            Example(name="preempt-whole-pods", summary="Victims as whole Pods, answered by UID"),
        ),
    ),
)

#: For each error status: its meaning, and whether an example was recorded. The body is an `ErrorAnswer`; nothing has changed.
ERRORS: Final = {
    400: ("The body is not what the verb takes.", True),
    404: ("The path is none of the four.", True),
    405: ("The method is not POST.", True),
    413: ("The body is larger than 64 MiB.", True),
    500: ("A fault of the service; its log has the details.", False),
    503: ("The service has not listed everything once; ask again.", True),
}

_ABOUT_EXTENDER: Final = """\
What kube-scheduler asks Slackwater: `k8s.io/kube-scheduler/extender/v1`, as of Kubernetes 1.36.

The Go types have no JSON names, so keys are Go's. Keys are read in any case and written as here.
A question that is well formed is answered with 200. What is refused stands in `Error` of that answer, since
kube-scheduler shows nothing of an answer with another status."""

_ABOUT_OPS: Final = """\
For people, probes and Prometheus: health, metrics, state and the dashboard. What is read changes nothing; what-if
neither. A drain can be cancelled. POST is for callers from loopback, or with a client certificate.
The listener also serves this description as `/openapi.json`."""


def documents(examples: Path) -> dict[str, str]:
    """The text of each file by its name. `examples` is the folder of the recorded bodies.

    :raises OSError: a recorded body cannot be read.
    """
    return {
        "agent.yaml": _text(agent_document(examples)),
        "extender.yaml": _text(extender_document(examples)),
        "ops.yaml": _text(ops_document(examples)),
    }


def _text(document: Json) -> str:
    # The copy through JSON has no shared parts, which YAML would write as anchors and aliases.
    return yaml.safe_dump(json.loads(json.dumps(document)), sort_keys=True, allow_unicode=True, width=120)


# --- the extender listener ------------------------------------------------------------------------------------------------


def extender_document(examples: Path) -> Json:
    """The OpenAPI document of the extender listener.

    :raises OSError: a recorded body cannot be read.
    """
    return {
        **head("extender", _ABOUT_EXTENDER),
        "paths": {f"/scheduler/{verb.name}": {"post": _operation(verb, examples)} for verb in VERBS},
        "components": {
            "schemas": _message_schemas(),
            "responses": {_name_of(status): _error(status, examples) for status in ERRORS},
        },
    }


def _operation(verb: Verb, examples: Path) -> Json:
    answered = {"schema": _ref(verb.answer), "examples": _examples(verb, "200", examples)}
    asked = {"schema": _ref(verb.request), "examples": _examples(verb, "request", examples)}
    errors = {str(status): {"$ref": f"#/components/responses/{_name_of(status)}"} for status in ERRORS}
    return {
        "operationId": verb.name,
        "summary": verb.summary,
        "description": verb.description,
        "requestBody": {"required": True, "content": {_JSON: asked}},
        "responses": {"200": {"description": verb.answered, "content": {_JSON: answered}}, **errors},
    }


def _ref(model: type[BaseModel]) -> Json:
    return {"$ref": _SCHEMAS + model.__name__}


def _examples(verb: Verb, part: str, examples: Path) -> Json:
    return {
        example.name: {"summary": example.summary, "value": _recorded(examples, f"{example.name}.{part}")}
        for example in verb.examples
    }


def _recorded(examples: Path, name: str) -> Any:
    return json.loads((examples / f"{name}.json").read_text(encoding="utf-8"))


def _name_of(status: int) -> str:
    return f"Error{status}"


def _error(status: int, examples: Path) -> Json:
    meaning, recorded = ERRORS[status]
    content: Json = {"schema": {"$ref": f"{_SCHEMAS}{ErrorAnswer.__name__}"}}
    if recorded:
        content["examples"] = {"recorded": {"value": _recorded(examples, f"error.{status}")}}
    answer: Json = {"description": meaning, "content": {_JSON: content}}
    if status == 405:
        answer["headers"] = {"Allow": {"description": "POST", "schema": {"const": "POST"}}}
    return answer


def _message_schemas() -> Json:
    requests = _distinct(verb.request for verb in VERBS)
    answers = _distinct(verb.answer for verb in VERBS)
    modes: list[tuple[type[BaseModel], Literal["validation", "serialization"]]] = [
        *((model, "validation") for model in requests),
        *((model, "serialization") for model in answers),
    ]
    _, whole = models_json_schema(modes, ref_template=_SCHEMAS + "{model}")
    schemas: Json = {name: _plain(schema, _go_names(whole["$defs"])) for name, schema in whole["$defs"].items()}
    written = {model.__name__ for model in answers}
    for name, schema in schemas.items():
        if properties := schema.get("properties"):
            # Our answers contain every field; in requests, Go writes null for an empty map or list.
            schema.update({"required": sorted(properties)} if name in written else _with_nulls(schema))
    _, errors = msgspec.json.schema_components([ErrorAnswer], ref_template=_SCHEMAS + "{name}")
    schemas[ErrorAnswer.__name__] = {"description": "Why the call failed.", **_plain(errors[ErrorAnswer.__name__], {})}
    return schemas


def _distinct(models: Iterable[type[BaseModel]]) -> list[type[BaseModel]]:
    return list(dict.fromkeys(models))


def _go_names(schemas: Json) -> dict[str, str]:
    """Maps the fields' names in Python to their names in JSON, both in back-ticks as docstrings write them."""
    names = {name for schema in schemas.values() for name in schema.get("properties", ())}
    return {f"`{re.sub('(?<=[a-z])(?=[A-Z])', '_', name).lower()}`": f"`{name}`" for name in names}


def _plain(schema: Json, go_names: dict[str, str]) -> Json:
    """Removes pydantic's generated titles from a schema, and puts its description on one line with the JSON names of fields."""
    schema = {key: value for key, value in schema.items() if key != "title"}
    if "description" in schema:
        words = " ".join(schema["description"].split())
        schema["description"] = re.sub("`[a-z_]+`", lambda name: go_names.get(name[0], name[0]), words)
    if "properties" in schema:
        schema["properties"] = {name: _plain(part, go_names) for name, part in schema["properties"].items()}
    return schema


def _with_nulls(schema: Json) -> Json:
    required = schema.get("required", ())
    properties = {name: part if name in required else _nullable(part) for name, part in schema["properties"].items()}
    return {"properties": properties}


def _nullable(part: Json) -> Json:
    return {**part, "type": [part["type"], "null"]} if part.get("type") in {"array", "object"} else part


# --- the ops listener -----------------------------------------------------------------------------------------------------


class _Ready:
    """A stand-in for the intake. The ops application is built only to be described and gets no request."""

    ready = True
    unlisted: Sequence[str] = ()


def ops_document(examples: Path) -> Json:
    """The OpenAPI document of the ops listener: FastAPI's own, completed with what FastAPI cannot know.

    :raises OSError: a recorded body cannot be read.
    """
    settings = Settings()
    app = ops_app(
        state_machine=StateMachine(installed.POLICY),
        readiness=_Ready(),
        registry=CollectorRegistry(),
        settings=SettingsView(as_file(settings)),
        clock=monotonic,
    )
    document = copy.deepcopy(app.openapi())
    document["info"] = {**document["info"], "description": _ABOUT_OPS, "license": LICENSE}
    address = settings.listeners.ops.address
    document["servers"] = [{"url": f"http://{address}", "description": "The default of `listeners.ops.address`."}]
    for name, schema in document["components"]["schemas"].items():
        document["components"]["schemas"][name] = _plain(schema, {})
    answers = {path: operations["get"]["responses"] for path, operations in document["paths"].items() if "get" in operations}
    for path in ("/readyz", "/healthz"):
        waiting = {"text/plain": {"schema": {"type": "string"}}}
        answers[path]["503"] = {"description": "What has not been listed once.", "content": waiting}
    add_examples(document, examples)
    return document


def complete_configuration(recorded: Path) -> None:
    """Adds the settings that are newer than the recorded body of `/dumpstate` to its configuration, with their defaults."""
    body = json.loads(recorded.read_text(encoding="utf-8"))
    body["configuration"] = as_file(Settings.model_validate(body["configuration"]))
    recorded.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the files into DIR. The exit status is 0; 1 if a body cannot be read or a file cannot be written."""
    parser = argparse.ArgumentParser(prog="python -m deploy.documents.openapi", description="Writes the OpenAPI documents.")
    parser.add_argument("directory", metavar="DIR", type=Path, help="where they go; DIR/examples has the recorded bodies")
    directory: Path = parser.parse_args(argv).directory
    try:
        complete_configuration(directory / "examples" / "ops-dumpstate.200.json")
        for name, text in documents(directory / "examples").items():
            (directory / name).write_text(text, encoding="utf-8")
            print(directory / name)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
