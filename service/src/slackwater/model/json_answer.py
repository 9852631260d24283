"""The base class of what the service answers as JSON: the value, its JSON and its schema are one class.

A field with a default is left out of the JSON where it has that default. A field whose default is `written(value)` is always
there, and so is a field without a default. Fields of several words are camelCase in JSON.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

_REFERENCE: Final = "#/components/schemas/{name}"


class JsonAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A part of an answer."""


def written(value: Any, name: str | None = None) -> Any:
    """A field's default that the JSON shows too, with the field's name in JSON if that is not in camelCase. Nobody changes
    `value`, if it is a mapping."""
    return msgspec.field(default_factory=lambda: value, name=name)


def schemas_of(answers: Iterable[type[JsonAnswer]]) -> dict[str, dict[str, Any]]:
    """The JSON schemas of the answers and their parts by class name, for the components of an OpenAPI document."""
    _, schemas = msgspec.json.schema_components(answers, ref_template=_REFERENCE)
    for schema in schemas.values():
        schema.pop("title", None)
        if "description" in schema:
            schema["description"] = " ".join(schema["description"].split())
        if "properties" in schema:
            left_out = {name for name, part in schema["properties"].items() if part.pop("default", part) is not part}
            schema["required"] = [name for name in schema["properties"] if name not in left_out]
    return schemas
