"""Reads `Settings` from a path, bytes or text, and writes settings as the text of a file.

It is used at start, at reload and by `config check`. A bad file is refused with all its problems at once: pydantic's validation
errors become `Problem`s with the place as a JSON path, what was found, and what is wanted. The text for "wanted" comes from the
annotation that refused the value. pydantic's own messages are not used, because they name Python types. The defaults are in the
sections.

`schema` is the JSON Schema (draft 2020-12), for editors and for admission checks elsewhere. It comes from the sections' fields,
annotations and docstrings, so it agrees with the validation. It only lacks the rules between keys (`cross_validation`), which a
schema cannot express.
"""

import ast
import copy
import difflib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails, core_schema

from slackwater.app.settings.cross_validation import conflicts
from slackwater.app.settings.model import Settings
from slackwater.configuration.kind import REFUSED, Kind
from slackwater.configuration.problems import Problem, SettingsError, Steps, UnreadableSettings, json_path, show
from slackwater.configuration.text_tree import DEEPEST, LARGEST_TEXT, Document, read_document
from slackwater.configuration.values import FILE_PATH, Section
from slackwater.model.json_answer import subclasses
from slackwater_protocol.names import CONFIG_API_VERSION, CONFIG_KIND

_WANTED: Final = {
    "bool_type": "true or false",
    "tuple_type": "a list",
    "mapping_type": "a mapping",
    "string_type": "text",
}


def _refusals(err: ValidationError) -> list[tuple[Steps, Problem]]:
    """The problems of `err`, an error from validating a file, each with its path as steps."""
    return [(place(error), _problem(error, place(error))) for error in err.errors(include_url=False)]


def place(error: ErrorDetails) -> Steps:
    """The path of the refused value; for a refused key of a free mapping, the path of the key's value."""
    steps = error["loc"]
    return steps[:-1] if _is_about_key(error) else steps


def _is_about_key(error: ErrorDetails) -> bool:
    return error["loc"][-1] == "[key]"  # pydantic's mark of errors about keys


def _problem(error: ErrorDetails, steps: Steps) -> Problem:
    path = json_path(steps)
    if error["type"] == "extra_forbidden":
        if replaced := REMOVED.get(".".join(str(step) for step in steps if not isinstance(step, int))):
            return Problem(path=path, seen="a key that was removed", wanted=replaced)
        section = _section_at(steps[:-1])
        known = _keys(section) if section else ()
        near = difflib.get_close_matches(str(steps[-1]), known, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return Problem(path=path, seen="an unknown key", wanted=f"one of {', '.join(known)}{hint}")
    if error["type"] == "missing":
        return Problem(path=path, seen="nothing", wanted=_wanted_field(_field_at(steps)))
    seen = f"the key {show(error['input'])}" if _is_about_key(error) else show(error["input"])
    return Problem(path=path, seen=seen, wanted=_wanted(error, steps))


def _wanted(error: ErrorDetails, steps: Steps) -> str:
    context: dict[str, Any] = error.get("ctx", {})
    match error["type"]:
        case str(kind) if kind == REFUSED:
            return str(context["wanted"])
        case "literal_error":
            return _wanted_field(_field_at(steps))
        case "model_type":
            section = _section_at(steps)
            return f"a mapping with {', '.join(_keys(section))}" if section else "a mapping"
        case kind:
            return _WANTED.get(kind) or error["msg"]


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


def _field_at(steps: Sequence[str | int]) -> FieldInfo | None:
    """The field at a path; for an entry of a list, the list's field."""
    named = list(steps)
    while named and isinstance(named[-1], int):
        named.pop()
    section = _section_at(named[:-1]) if named else None
    return _field(section, named[-1]) if section else None


def _field(section: type[Section], key: str | int) -> FieldInfo | None:
    return next((field for name, field in section.model_fields.items() if (field.alias or name) == key), None)


def _section_at(steps: Sequence[str | int]) -> type[Section] | None:
    """The section at a path; None inside free mappings such as labels."""
    section: type[Section] | None = Settings
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
        return _settings(read_document(text, CONFIG_KIND))
    except SettingsError as err:
        raise type(err)(err.problems, source=source) from err.__cause__


def parse(data: bytes, *, source: str = "") -> Settings:
    """Reads the settings of a file's content. Raises `UnreadableSettings` or `SettingsError`."""
    return loads(decode(data, source=source), source=source)


def as_file(settings: Settings) -> dict[str, Any]:
    """The JSON value of a file with these settings, every key included."""
    return settings.model_dump(mode="json", by_alias=True)


def file_paths(part: object, at: Steps = ()) -> Iterator[tuple[Steps, object]]:
    """Yields each setting of a section that names a file, with its place."""
    if isinstance(part, Section):
        for name, field in type(part).model_fields.items():
            value, place = getattr(part, name), (*at, field.alias or name)
            if FILE_PATH in field.metadata or _holds_path(field.annotation):
                yield from [(place, value)] if value else []
            else:
                yield from file_paths(value, place)
    elif isinstance(part, Mapping | tuple):
        for key, value in part.items() if isinstance(part, Mapping) else enumerate(part):
            yield from file_paths(value, (*at, key))


def _holds_path(annotation: object) -> bool:
    return any(part == FILE_PATH or _holds_path(part) for part in get_args(annotation))


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
        wanted = f"a mapping that starts with apiVersion: {CONFIG_API_VERSION} and kind: {CONFIG_KIND}"
        seen = "nothing in it" if tree is None else show(tree)
        raise SettingsError([*document.problems, Problem(path="", seen=seen, wanted=wanted)])
    header = {"apiVersion": CONFIG_API_VERSION, "kind": CONFIG_KIND}
    missing = [Problem(path=key, seen="nothing", wanted=show(value)) for key, value in header.items() if tree.get(key) is None]
    problems = [*document.problems, *missing]
    dropped: set[Steps] = set()
    try:
        settings = _validate(tree)
    except ValidationError as err:
        refused = _refusals(err)
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


#: By the key's path without positions in lists. docs/adr/0258 and docs/adr/0260 have the reasons.
REMOVED: Final = {
    "autoscaler.planTimeout": "it left out: a plan is abandoned after 5m",
    "autoscaler.creation.maxNodesOfProvider": "autoscaler.maxNodesInCreation, and that of each group",
    "autoscaler.nodeGroups.kwok.bootSpread": "autoscaler.nodeGroups.kwok.appearSpread",
    "autoscaler.nodeGroups.kwok.quota": "autoscaler.nodeGroups.kwok.stock",
    "autoscaler.nodeGroups.kwok.unready": "autoscaler.nodeGroups.kwok.silent",
    "autoscaler.scaleDown.evictionMemory": "it left out: an evicted pod is remembered for 1m",
    "autoscaler.scaleDown.maxEmptyBulkDelete": "maxScaleDownParallelism",
    "autoscaler.scaleDown.minEvaluatedNodes": "it left out: each plan tries at least 10 nodes",
    "autoscaler.scaleDown.overlapDrains": "it left out: drains overlap, up to autoscaler.scaleDown.maxDrainParallelism",
    "autoscaler.scaleUp.gpuSettleTime": "it left out: pods with a GPU wait 30s, others autoscaler.scaleUp.settleTime",
    "autoscaler.scaleUp.untriedPodDelay": "it left out: a pod counts untried once it is 5s old",
    "autoscaler.slack.groups.extraCapacity.granularity": "autoscaler.slack.extraCapacity.granularity, for all slack",
    "autoscaler.slack.groups.extraCapacity.sizing": "autoscaler.slack.extraCapacity.sizing, for all slack",
    "autoscaler.slack.nodeStartTime": "it left out: 2m, until a start was observed",
    "autoscaler.slack.shrinkDelay": "autoscaler.scaleDown.unneededTime, which holds for placeholders too",
    "autoscaler.slack.schedules.extraCapacity.granularity": "autoscaler.slack.extraCapacity.granularity, for all slack",
    "autoscaler.slack.schedules.extraCapacity.sizing": "autoscaler.slack.extraCapacity.sizing, for all slack",
    "extender.maxBodyBytes": "it left out: a body has 64Mi at most",
    "featureGates.Steering": "extender.bind alone: false names the best node in filter, true leaves the choice to "
    "kube-scheduler",
    "kube.listPageSize": "it left out: a page of a list has 500 objects",
    "kube.maxConcurrentBinds": "it left out: 64 binds are in flight at most",
    "kube.maxConcurrentPreemptionWrites": "it left out: 64 writes of preemptions are in flight at most",
    "listeners.agents.maxRequests": "it left out: 16384 requests are in flight at most",
    "migration.capacityPressureTime": "it left out: denied growth counts at once",
    "preemption.enabled": "featureGates.AsyncPreemption",
    "preemption.maxConcurrent": "it left out: 1000 preemptions are under way at most",
    "recording.keep": "it left out: the record of the earlier start is kept",
    "steering": "extender.percentageOfNodesToScore for steering.percentageOfNodesToScore, and nothing for its other keys: no "
    "pod is nominated in advance any more",
}


@cache
def describe_sections() -> None:
    """Sets the description of each field of each section to the field's docstring, once in a process."""
    for model in subclasses(Section):
        for owner in reversed(model.__mro__):
            if issubclass(owner, Section):
                for name, text in _docstrings(owner).items():
                    model.model_fields[name].description = text
        model.model_rebuild(force=True)


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
_ID: Final = f"https://{CONFIG_API_VERSION}/SlackwaterConfiguration.json"


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
