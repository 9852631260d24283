"""Builds the OpenAPI 3.1 document of the agents' listener, with recorded exchanges that tests replay.

In: the protocol's models, the recorded exchanges `DIR/agent-*.json`, the error texts. Out: the document as JSON values.
`openapi` writes the file. The document describes only what the listener does.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from slackwater import __version__
from slackwater.app.settings import Settings
from slackwater_protocol.agent import AgentRequest, PluginResponse
from slackwater_protocol.agent_versions import ProtocolVersion, version_name

LICENSE: Final = {"name": "Apache License 2.0", "identifier": "Apache-2.0"}
Json = dict[str, Any]

_SCHEMAS: Final = "#/components/schemas/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One recorded request and its answer: the files `agent-NAME.request.json` and `agent-NAME.200.json`."""

    name: str
    summary: str


EXCHANGES: Final = (
    Exchange(name="first", summary="v5.0: a first request says what is in use; there is no permit yet and no load"),
    Exchange(name="granted", summary="v5.0: the VM asks for more and gets it"),
    Exchange(name="denied", summary="v5.0: the node has less room; the permit is in whole units on top of what is held"),
    Exchange(name="given-back", summary="v4.0: the VM has become smaller and says so"),
    Exchange(name="slots", summary="v3.0: memory counts slots, on both sides, and `computeUnit` is left out"),
    Exchange(name="migrating", summary="v5.0: the VM is going to be migrated"),
)

#: For each error status: its meaning, and example texts. The request has changed nothing, except perhaps after 500 and 503.
REFUSALS: Final[dict[int, tuple[str, tuple[str, ...]]]] = {
    400: (
        "The request breaks a rule of the protocol. The first broken one is answered.",
        (
            "must be POST",
            "bad JSON",
            "Invalid protocol version <invalid: zero>",
            "Protocol version mismatch: Need v3.0 to v5.0 but got v2.1",
            "computeUnit fields must be non-zero: vCPUs must be non-zero",
            "presence of metrics.loadAvg5M must match presence of metrics.memoryUsageBytes",
            "non-nil metrics.{loadAvg5M,memoryUsageBytes} not supported for protocol version v5.0",
            "resources fields must be non-zero: mem must be non-zero",
            "resources.vCPUs: got -1, want 0 to 4294967295m CPU",
            "pod is not associated with a VM",
        ),
    ),
    401: ("Authentication is configured, and the caller showed nothing that is known.", ("who are you? want a bearer token",)),
    403: ("The caller is known, and may not speak for this pod.", ()),
    404: ("The pod is not known.", ("pod not found",)),
    408: ("The body did not come in time.", ("body: not complete within 5 s",)),
    500: ("A fault of the service; its log has the details.", ("request handler panicked",)),
    503: ("Not now: ask again.", ("not ready: waiting for the first list of nodes, pods",)),
}

_ABOUT: Final = """\
What autoscaler agents ask Slackwater: the protocol of Neon's autoscaling, v3.0 to v5.0 (`protoVersion` 5 to 7).

Every path is the same. The first JSON value of the first 1,024 bytes of a body is read; keys are read in any case, unknown ones
are ignored, null and absence stand for zero. Refusals are plain text. docs/agents.md explains the conversation."""


def head(listener: Literal["agents", "extender"], about: str) -> Json:
    """What the document of a listener begins with."""
    address = getattr(Settings().listeners, listener).address
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"Slackwater {listener}",
            "version": __version__,
            "description": about,
            "license": LICENSE,
        },
        "servers": [{"url": f"http://{address}", "description": f"The default of `listeners.{listener}.address`."}],
    }


def agent_document(examples: Path) -> Json:
    """The OpenAPI document of the agents' listener. `examples` is the directory with the recorded exchanges.

    :raises OSError: a recorded body cannot be read.
    """
    return {
        **head("agents", _ABOUT),
        "paths": {"/": {"post": _operation(examples)}},
        "components": {"schemas": dict(_schemas()), "securitySchemes": _SECURITY},
    }


_SECURITY: Final = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A ServiceAccount token that a kubelet projected into the agent's Pod, "
        "where `listeners.agents.authentication.tokens` is set.",
    },
    "certificate": {
        "type": "mutualTLS",
        "description": "A client certificate whose CN names the node, "
        "where `listeners.agents.authentication.certificates` is set.",
    },
}

_PREFER: Final = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "description": "`wait=N` (RFC 7240): an increase without room is answered when room appears, at the latest after N "
    "seconds, bounded by `listeners.agents.maxWait`. Other preferences are ignored.",
    "schema": {"type": "string"},
    "example": "wait=10",
}


def _operation(examples: Path) -> Json:
    refusals = {str(status): _refusal(status) for status in REFUSALS}
    applied = {"description": "The wait that was applied, if one was asked for.", "schema": {"type": "string"}}
    return {
        "operationId": "requestPermit",
        "summary": "How much may this VM use?",
        "description": "A lower amount than before has been given back already. A higher one is asked for; where the node has "
        "no room for it, the permit is between what the VM holds and what it asks. A request may be repeated at any time.",
        "parameters": [_PREFER],
        "security": [{}, {"token": []}, {"certificate": []}],
        "requestBody": {"required": True, "content": _bodies(AgentRequest.__name__, "request", examples)},
        "responses": {
            "200": {
                "description": "The permit: the most that the VM may use from now on.",
                "headers": {"Preference-Applied": applied},
                "content": _bodies(PluginResponse.__name__, "200", examples),
            },
            **refusals,
        },
    }


def _bodies(model: str, part: str, examples: Path) -> Json:
    exchanges = {
        exchange.name: {
            "summary": exchange.summary,
            "value": json.loads((examples / f"agent-{exchange.name}.{part}.json").read_text(encoding="utf-8")),
        }
        for exchange in EXCHANGES
    }
    return {"application/json": {"schema": {"$ref": _SCHEMAS + model}, "examples": exchanges}}


def _refusal(status: int) -> Json:
    meaning, texts = REFUSALS[status]
    content: Json = {"schema": {"type": "string"}}
    if texts:
        content["examples"] = {f"text-{number}": {"value": text} for number, text in enumerate(texts, start=1)}
    answer: Json = {"description": meaning, "content": {"text/plain": content}}
    if status == 401:
        answer["headers"] = {"WWW-Authenticate": {"description": "Bearer", "schema": {"const": "Bearer"}}}
    return answer


#: The required fields of each schema. The models cannot say it: they have a default for every field and read absence as zero.
_REQUIRED: Final[dict[str, list[str]]] = {
    "AgentRequest": ["pod", "protoVersion", "resources"],
    "PodName": ["name", "namespace"],
    "Resources": ["mem", "vCPUs"],
    "Metrics": ["loadAvg1M"],
    "PluginResponse": ["permit"],
    "Migrate": [],
}


_VERSIONS: Final = "Of the protocol: " + ", ".join(f"{int(version)} is {version_name(version)}" for version in ProtocolVersion)


def _schemas() -> Iterator[tuple[str, Json]]:
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [(AgentRequest, "validation"), (PluginResponse, "serialization")]
    _, whole = models_json_schema(models, ref_template=_SCHEMAS + "{model}")
    for name, schema in whole["$defs"].items():
        properties = {key: _plain(part) for key, part in schema["properties"].items()}
        if "protoVersion" in properties:
            properties["protoVersion"] = {"enum": list(map(int, ProtocolVersion)), "description": _VERSIONS}
        yield name, {**_plain(schema), "properties": properties, "required": _REQUIRED[name]}


def _plain(part: Json) -> Json:
    """Removes the titles and defaults that pydantic generates from a schema, and puts its description on one line."""
    kept = {key: value for key, value in part.items() if key not in {"title", "default"}}
    if "description" in kept:
        kept["description"] = " ".join(kept["description"].split())
    return kept
