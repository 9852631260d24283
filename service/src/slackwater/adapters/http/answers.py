"""How the ops listener answers: it encodes a `JsonAnswer`, and its OpenAPI document describes the same class."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from fastapi import FastAPI, Response

from slackwater.model.json_answer import JsonAnswer, schemas_of

JSON: Final = "application/json"
JSON_LINES: Final = "application/x-ndjson"
_encode: Final = msgspec.json.Encoder().encode


class Refused(JsonAnswer, frozen=True, kw_only=True):
    """Why there is no answer."""

    detail: str


class AnsweringApp(FastAPI):
    """An application whose OpenAPI document has the schemas of the `answers` that its routes refer to."""

    def __init__(self, answers: Iterable[type[JsonAnswer]], **settings: Any) -> None:
        super().__init__(**settings)
        self._answers = tuple(answers)

    def openapi(self) -> dict[str, Any]:
        document = super().openapi()
        document.setdefault("components", {}).setdefault("schemas", {}).update(schemas_of(self._answers))
        return document


def described(answer: type[JsonAnswer], description: str = "Successful Response", media_type: str = JSON) -> dict[str, Any]:
    """What the description of a route says of the answer."""
    reference = {"$ref": f"#/components/schemas/{answer.__name__}"}
    return {"description": description, "content": {media_type: {"schema": reference}}}


def encoded(answer: JsonAnswer) -> Response:
    return Response(_encode(answer), media_type=JSON)
