"""Turns pydantic's validation errors into `Problem`s: the place as a JSON path, what was found, what is wanted.

The text for "wanted" comes from the annotation that refused the value. pydantic's own messages are not used, because they name
Python types.
"""

import difflib
from collections.abc import Sequence
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from slackwater.app.settings.problems import Problem, Steps, json_path, show
from slackwater.app.settings.section import Section
from slackwater.app.settings.values import REFUSED, Kind

_WANTED: Final = {
    "bool_type": "true or false",
    "tuple_type": "a list",
    "mapping_type": "a mapping",
    "string_type": "text",
}


def refusals(err: ValidationError, root: type[Section]) -> list[tuple[Steps, Problem]]:
    """The problems of `err`, an error from validating `root`, each with its path as steps."""
    return [(place(error), _problem(error, place(error), root)) for error in err.errors(include_url=False)]


def place(error: ErrorDetails) -> Steps:
    """The path of the refused value; for a refused key of a free mapping, the path of the key's value."""
    steps = error["loc"]
    return steps[:-1] if _is_about_key(error) else steps


def _is_about_key(error: ErrorDetails) -> bool:
    return error["loc"][-1] == "[key]"  # pydantic marks errors about keys so


def _problem(error: ErrorDetails, steps: Steps, root: type[Section]) -> Problem:
    path = json_path(steps)
    if error["type"] == "extra_forbidden":
        wanted = _wanted_key(str(steps[-1]), section_at(steps[:-1], root))
        return Problem(path=path, seen="an unknown key", wanted=wanted)
    if error["type"] == "missing":
        return Problem(path=path, seen="nothing", wanted=_wanted_field(_field_at(steps, root)))
    seen = f"the key {show(error['input'])}" if _is_about_key(error) else show(error["input"])
    return Problem(path=path, seen=seen, wanted=_wanted(error, steps, root))


def _wanted(error: ErrorDetails, steps: Steps, root: type[Section]) -> str:
    context: dict[str, Any] = error.get("ctx", {})
    match error["type"]:
        case str(kind) if kind == REFUSED:
            return str(context["wanted"])
        case "literal_error":
            return _wanted_field(_field_at(steps, root))
        case "model_type":
            section = section_at(steps, root)
            return f"a mapping with {', '.join(_keys(section))}" if section else "a mapping"
        case kind:
            return _WANTED.get(kind) or error["msg"]


def _wanted_key(key: str, section: type[Section] | None) -> str:
    known = _keys(section) if section else ()
    near = difflib.get_close_matches(key, known, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return f"one of {', '.join(known)}{hint}"


def _wanted_field(field: FieldInfo | None) -> str:
    if field is None:
        return "a value"
    for mark in field.metadata:
        if isinstance(mark, Kind):
            return mark.wanted
    choices = _choices(field.annotation)
    return " or ".join(show(choice) for choice in choices) if choices else "a value"


def _choices(annotation: object) -> tuple[object, ...]:
    """The values of a Literal, also of one inside a list's type."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next((found for part in get_args(annotation) if (found := _choices(part))), ())


def _keys(section: type[Section]) -> tuple[str, ...]:
    return tuple(field.alias or name for name, field in section.model_fields.items())


def _field_at(steps: Sequence[str | int], root: type[Section]) -> FieldInfo | None:
    """The field at a path; for an entry of a list, the list's field."""
    named = list(steps)
    while named and isinstance(named[-1], int):
        named.pop()
    section = section_at(named[:-1], root) if named else None
    return _field(section, named[-1]) if section else None


def _field(section: type[Section], key: str | int) -> FieldInfo | None:
    return next((field for name, field in section.model_fields.items() if (field.alias or name) == key), None)


def section_at(steps: Sequence[str | int], root: type[Section]) -> type[Section] | None:
    """The section at a path; None inside free mappings such as labels."""
    section: type[Section] | None = root
    for step in steps:
        if isinstance(step, int):
            continue  # an entry of a list: `_section_in` has found the section in the list's type
        field = _field(section, step) if section else None
        section = _section_in(field.annotation) if field else None
    return section


def _section_in(annotation: object) -> type[Section] | None:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((found for part in get_args(annotation) if (found := _section_in(part))), None)
