"""Reads `Settings` from a path, bytes or text, and writes settings as the text of a file.

It is used at start, at reload and by `config check`. A bad file is refused with all its problems at once: pydantic's validation
errors become `Problem`s with the place as a JSON path, what was found, and what is wanted. The text for "wanted" comes from the
annotation that refused the value. pydantic's own messages are not used, because they name Python types. The defaults are in the
sections.
"""

import copy
import difflib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from slackwater.app.settings.cross_validation import conflicts
from slackwater.app.settings.model import API_VERSION, KIND, Settings
from slackwater.app.settings.removed import REMOVED
from slackwater.configuration.problems import Problem, SettingsError, Steps, UnreadableSettings, json_path, show
from slackwater.configuration.section import Section
from slackwater.configuration.text_tree import DEEPEST, LARGEST_TEXT, Document, read_document
from slackwater.configuration.values import REFUSED, Kind

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
    return error["loc"][-1] == "[key]"  # pydantic's mark of errors about keys


def _problem(error: ErrorDetails, steps: Steps, root: type[Section]) -> Problem:
    path = json_path(steps)
    if error["type"] == "extra_forbidden":
        if replaced := REMOVED.get(".".join(str(step) for step in steps if not isinstance(step, int))):
            return Problem(path=path, seen="a key that was removed", wanted=replaced)
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


def load(path: str | Path) -> Settings:
    """Reads the settings of a file. Raises `UnreadableSettings` or `SettingsError`, whose `source` is the path."""
    return parse(read_bytes(path), source=str(path))


def loads(text: str, *, source: str = "") -> Settings:
    """Reads the settings of a text, YAML or JSON. Raises `UnreadableSettings` or `SettingsError`."""
    try:
        return _settings(read_document(text))
    except SettingsError as err:
        raise type(err)(err.problems, source=source) from err.__cause__


def parse(data: bytes, *, source: str = "") -> Settings:
    """Reads the settings of a file's content. Raises `UnreadableSettings` or `SettingsError`."""
    return loads(decode(data, source=source), source=source)


def dumps(settings: Settings) -> str:
    """The text of a file with these settings, every key included. It is JSON, which is YAML too."""
    return json.dumps(as_file(settings), indent=2, ensure_ascii=False) + "\n"


def as_file(settings: Settings) -> dict[str, Any]:
    """The JSON value of a file with these settings, every key included."""
    return settings.model_dump(mode="json", by_alias=True)


def read_bytes(path: str | Path) -> bytes:
    """The file's content, at most one byte more than `decode` accepts. Raises `UnreadableSettings`."""
    try:
        with Path(path).open("rb") as file:
            return file.read(LARGEST_TEXT + 1)
    except OSError as err:
        seen = err.strerror or str(err)
        raise UnreadableSettings([Problem(path="", seen=seen, wanted="a file to read")], source=str(path)) from err


def decode(data: bytes, *, source: str = "") -> str:
    """Decodes a file's content as UTF-8. Raises `UnreadableSettings` if it is too large or not UTF-8."""
    if len(data) > LARGEST_TEXT:
        wanted = f"at most {LARGEST_TEXT} bytes"
        raise UnreadableSettings([Problem(path="", seen="more bytes", wanted=wanted)], source=source)
    try:
        return data.decode()
    except UnicodeDecodeError as err:
        seen = f"byte 0x{data[err.start]:02x} at offset {err.start}"
        raise UnreadableSettings([Problem(path="", seen=seen, wanted="UTF-8 text")], source=source) from err


def _settings(document: Document) -> Settings:
    tree = document.tree
    if not isinstance(tree, dict):
        wanted = f"a mapping that starts with apiVersion: {API_VERSION} and kind: {KIND}"
        seen = "nothing in it" if tree is None else show(tree)
        raise SettingsError([*document.problems, Problem(path="", seen=seen, wanted=wanted)])
    problems = [*document.problems, *_missing_header(tree)]
    dropped: set[Steps] = set()
    try:
        settings = _validate(tree)
    except ValidationError as err:
        refused = refusals(err, Settings)
        problems += [problem for _, problem in refused]
        dropped = {steps for steps, _ in refused}
        settings = _without(tree, err)
    # Leave out conflicts with a refused value: its key has the default now, which the file does not say.
    problems += [conflict.problem for conflict in conflicts(settings) if dropped.isdisjoint(conflict.reads)]
    if problems:
        raise SettingsError(problems)
    return settings


def _validate(tree: object) -> Settings:
    return Settings.model_validate(tree, by_alias=True, by_name=False)


def _missing_header(tree: dict[str, object]) -> list[Problem]:
    header = {"apiVersion": API_VERSION, "kind": KIND}
    return [Problem(path=key, seen="nothing", wanted=show(value)) for key, value in header.items() if tree.get(key) is None]


def _without(tree: dict[str, object], err: ValidationError) -> Settings:
    """The settings without the refused values, so that one run also reports conflicts between the valid ones.

    If an entry of a list is refused, the whole list is dropped, because the other entries' indices would change. A section that
    lacks a required key is dropped as a whole.
    """
    rest = copy.deepcopy(tree)
    for _ in range(DEEPEST):  # each round moves a remaining error at least one level up, so this is enough
        for error in err.errors(include_url=False):
            _drop(rest, place(error)[:-1] if error["type"] == "missing" else place(error))
        try:
            return _validate(rest)
        except ValidationError as again:
            err = again
    return Settings()


def _drop(tree: dict[str, object], steps: Steps) -> None:
    while isinstance(steps[-1], int):
        steps = steps[:-1]
    holder: Any = tree  # a mapping or a list, as the steps say
    for step in steps[:-1]:
        if isinstance(holder, dict) and step not in holder:
            return  # dropped already, with a section around it
        holder = holder[step]
    holder.pop(steps[-1], None)
