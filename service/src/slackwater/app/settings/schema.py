"""Generates the JSON Schema (draft 2020-12) of the configuration file, for editors and for admission checks elsewhere.

It is generated from the sections' fields, annotations and docstrings, so it agrees with the validation. It only lacks the rules
between keys (`cross_validation`), which a schema cannot express.
"""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from textwrap import dedent
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from slackwater.app.settings.model import API_VERSION, Settings
from slackwater.configuration.section import Section


@cache
def describe_sections() -> None:
    """Sets the description of each field of each section to the field's docstring, once in a process."""
    for model in _below(Section):
        for owner in reversed(model.__mro__):
            if issubclass(owner, Section):
                for name, text in _docstrings(owner).items():
                    model.model_fields[name].description = text
        model.model_rebuild(force=True)


def _below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """All models derived from `model`. A section comes after the sections that it contains."""
    for each in model.__subclasses__():
        yield each
        yield from _below(each)


@cache
def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    (body,) = ast.parse(dedent(inspect.getsource(model))).body
    assert isinstance(body, ast.ClassDef)
    pairs = zip(body.body, body.body[1:], strict=False)
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairs
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_ID: Final = f"https://{API_VERSION}/SlackwaterConfiguration.json"


def schema() -> dict[str, Any]:
    """The schema of a configuration file. It requires apiVersion and kind, as the reader does."""
    describe_sections()
    body = _on_one_line(Settings.model_json_schema(by_alias=True, mode="validation", schema_generator=_AsInTheFile))
    return {"$schema": DIALECT, "$id": _ID, **body, "required": ["apiVersion", "kind"]}


class _AsInTheFile(GenerateJsonSchema):
    """Generates defaults as a file writes them ("5s", not nanoseconds), and no titles."""

    def get_default_value(self, schema: core_schema.WithDefaultSchema) -> Any:
        default = super().get_default_value(schema)
        write = schema["schema"].get("serialization", {}).get("function")
        return write(default) if write else default

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _on_one_line(part: Any) -> Any:
    """Puts descriptions on one line: they are docstrings, with the source's line breaks."""
    if isinstance(part, list):
        return [_on_one_line(entry) for entry in part]
    if not isinstance(part, dict):
        return part
    return {
        key: " ".join(value.split()) if key == "description" and isinstance(value, str) else _on_one_line(value)
        for key, value in part.items()
    }
