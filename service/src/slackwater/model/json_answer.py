"""The base class of what the service answers as JSON: the value, its JSON and its schema are one class.

A field with a default is left out of the JSON where it has that default. A field whose default is `written(value)` is always
there, and so is a field without a default. Fields of several words are camelCase in JSON.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec
from msgspec import structs

T = TypeVar("T")

_REFERENCE: Final = "#/components/schemas/{name}"


class JsonAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A part of an answer."""


def written(value: Any, name: str | None = None) -> Any:
    """A field's default that the JSON shows too, with the field's name in JSON if that is not in camelCase. Nobody changes
    `value`, if it is a mapping."""
    return msgspec.field(default_factory=lambda: value, name=name)


def schemas_of(answers: Iterable[type[JsonAnswer]]) -> dict[str, dict[str, Any]]:
    """The JSON schemas of the answers and their parts by class name, for the components of an OpenAPI document."""
    classes = {each.__name__: each for each in subclasses(JsonAnswer)}
    _, schemas = msgspec.json.schema_components(answers, ref_template=_REFERENCE)
    for name, schema in schemas.items():
        schema.pop("title", None)
        if "description" in schema:
            schema["description"] = " ".join(schema["description"].split())
        if name in classes:
            for part in schema["properties"].values():
                part.pop("default", None)
            written_fields = [field for field in structs.fields(classes[name]) if field.default is msgspec.NODEFAULT]
            schema["required"] = [field.encode_name for field in written_fields]
    return schemas


def subclasses(parent: type[T]) -> Iterator[type[T]]:
    """All classes derived from `parent`. A class comes after those that it is derived from."""
    for each in parent.__subclasses__():
        yield each
        yield from subclasses(each)
