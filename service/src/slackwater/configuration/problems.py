"""The problems of a configuration file, each with its place (JSON path), what was found and what is wanted.

`config check`, a refused reload and `scheduler-config` report them. An error carries all problems of a file at once:

    SettingsError            the file cannot be used
      UnreadableSettings     nothing could be checked: it does not exist, is too large, or is neither YAML nor JSON
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

Step = str | int
Steps = tuple[Step, ...]

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_LONGEST_SHOWN: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem of a file. `path` is empty if it concerns the file as a whole."""

    path: str
    seen: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.path or 'the file'}: got {self.seen}, want {self.wanted}"


class SettingsError(Exception):
    """A configuration is refused. `source` names it, such as its path; `problems` are all of its problems."""

    def __init__(self, problems: Sequence[Problem], *, source: str = "") -> None:
        super().__init__(problems, source)
        self.problems = tuple(problems)
        self.source = source

    def lines(self) -> tuple[str, ...]:
        """One line for each problem, prefixed with the source."""
        prefix = f"{self.source}: " if self.source else ""
        return tuple(f"{prefix}{problem}" for problem in self.problems)

    def __str__(self) -> str:
        return "\n".join(self.lines())


class UnreadableSettings(SettingsError):
    """Nothing of a configuration could be checked: no such file, too large, not UTF-8, or neither YAML nor JSON."""


def json_path(steps: Sequence[Step]) -> str:
    """The text of a path: `("nodeGroups", 0, "name")` becomes `nodeGroups[0].name`. A key that is no plain word is quoted in
    brackets."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{_quoted(step)}]"
    return text


def show(value: object) -> str:
    """A value of a file for a message: as the file writes it, on one line, truncated if long."""
    match value:
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case str():
            text = _quoted(value)
            return text if len(text) <= _LONGEST_SHOWN else f'{text[: _LONGEST_SHOWN - 4]}..."'
        case int() if value.bit_length() > 256:  # CPython refuses to convert an integer of thousands of digits to text
            return f"an integer of {value.bit_length()} bits"
        case None | bool() | int() | float():
            return json.dumps(value)
        case _:
            return str(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
