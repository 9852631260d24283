"""The JSON Schema describes the file as it is checked: same keys, same defaults, same refusals of single values."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from slackwater.app.settings import Settings, SettingsError, as_file, loads, schema
from slackwater_protocol.names import CONFIG_API_VERSION, CONFIG_KIND

HEADER = {"apiVersion": CONFIG_API_VERSION, "kind": CONFIG_KIND}
SCHEMA = schema()
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)


def properties(part: Any, at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(part, dict):
        for key, value in part.get("properties", {}).items():
            yield f"{at}.{key}", value
        for key, value in part.items():
            yield from properties(value, f"{at}.{key}")


def test_the_schema_is_a_valid_2020_12_schema() -> None:
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert jsonschema_rs.meta.is_valid(SCHEMA)


def test_every_key_has_a_description_on_one_line() -> None:
    described = dict(properties(SCHEMA))
    assert len(described) > 70
    assert [path for path, part in described.items() if not part.get("description")] == []
    assert [path for path, part in described.items() if "\n" in part["description"]] == []


def test_every_value_with_a_default_says_why_it_is_the_default() -> None:
    leaves = {path: part for path, part in properties(SCHEMA) if "default" in part and "$ref" not in part}
    silent = {path for path, part in leaves.items() if "default" not in part["description"]}
    assert {path.rpartition(".")[2] for path in silent} == {"apiVersion", "kind"}


def test_every_number_text_and_duration_has_examples() -> None:
    plain = [
        path
        for path, part in properties(SCHEMA)
        if part.get("type") in ("number", "integer", "string") and not part.get("examples")
    ]
    assert plain == []


def test_the_defaults_are_those_of_the_service_in_the_words_of_a_file() -> None:
    assert SCHEMA["$defs"]["Extender"]["properties"]["httpTimeout"]["default"] == "5s"
    assert SCHEMA["$defs"]["Recording"]["properties"]["maxBytes"]["default"] == "256Mi"
    assert SCHEMA["$defs"]["OpsListener"]["properties"]["address"]["default"] == "127.0.0.1:10298"
    for key, want in as_file(Settings()).items():
        assert SCHEMA["properties"][key]["default"] == want


def test_the_defaults_written_out_satisfy_the_schema() -> None:
    VALIDATOR.validate(as_file(Settings()))


def test_every_example_is_accepted_where_it_stands() -> None:
    for path, part in properties(SCHEMA):
        for example in part.get("examples", []):
            whole = {**part, "$defs": SCHEMA["$defs"]}
            assert jsonschema_rs.is_valid(whole, example), (path, example)


@pytest.mark.parametrize(
    "part",
    [
        {"foo": 1},
        {"nodes": {"watermark": {"cpu": 1.5}}},
        {"nodes": {"watermark": {"cpu": 0}}},
        {"extender": {"weight": 0}},
        {"extender": {"httpTimeout": "5"}},
        {"extender": {"httpTimeout": 5}},
        {"recording": {"max_bytes": 5}},
        {"nodes": {"system": {"cpu": "1x"}}},
        {"listeners": {"ops": {"address": "10298"}}},
        {"listeners": {"ops": {"tls": {"certFile": "a"}}}},
        {"schedulerName": "A"},
        {"vertical": {"missingRequests": "no"}},
        {"autoscaler": {"expanders": []}},
        {"autoscaler": {"expanders": ["random", "random"]}},
        {"autoscaler": {"nodeGroups": [{}]}},
        {"autoscaler": {"maxPlanningTime": 1}},
        {"featureGates": {"Foo": True}},
    ],
    ids=json.dumps,
)
def test_what_the_schema_refuses_the_check_refuses_too(part: dict[str, Any]) -> None:
    file = HEADER | part
    assert not VALIDATOR.is_valid(file)
    with pytest.raises(SettingsError):
        loads(json.dumps(file))


def test_a_file_without_its_header_is_refused_by_the_schema_too() -> None:
    assert not VALIDATOR.is_valid({})
    assert VALIDATOR.is_valid(HEADER)
