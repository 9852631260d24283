"""Reads `Settings` from a path, bytes or text, and writes settings as the text of a file.

It is used at start, at reload and by `config check`. A bad file is refused with all its problems at once. The defaults are in
the sections.
"""

import copy
import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from slackwater.app.settings.agreement import conflicts
from slackwater.app.settings.document import DEEPEST, LARGEST_TEXT, Document, read_document
from slackwater.app.settings.model import API_VERSION, KIND, Settings
from slackwater.app.settings.problems import Problem, SettingsError, Steps, UnreadableSettings, show
from slackwater.app.settings.refusal import place, refusals


def load(path: str | Path) -> Settings:
    """Reads the settings of a file. Raises `UnreadableSettings` or `SettingsError`, with the path as its source."""
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
