"""What is wrong with a file, in one shape: where (JSON path), what was seen, what is wanted.

Flows through: every message of `config check`, of a refused reload and of `scheduler-config`. Deliberately absent:
stopping at the first one. The error tree of this package:

    SettingsError            the file cannot be used; carries every problem
      UnreadableSettings     ... because it is not there, too large, or neither YAML nor JSON
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
    """One thing to repair. `path` is empty where the file as a whole is meant."""

    path: str
    seen: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.path or 'the file'}: got {self.seen}, want {self.wanted}"


class SettingsError(Exception):
    """A configuration that is refused. `source` names it (a path), `problems` are all of them."""

    def __init__(self, problems: Sequence[Problem], *, source: str = "") -> None:
        super().__init__(problems, source)
        self.problems = tuple(problems)
        self.source = source

    def lines(self) -> tuple[str, ...]:
        """One line a problem, each with the source in front."""
        prefix = f"{self.source}: " if self.source else ""
        return tuple(f"{prefix}{problem}" for problem in self.problems)

    def __str__(self) -> str:
        return "\n".join(self.lines())


class UnreadableSettings(SettingsError):
    """Nothing could be checked: no such file, too large, not UTF-8, neither YAML nor JSON."""


def json_path(steps: Sequence[Step]) -> str:
    """`("nodeGroups", 0, "name")` -> `nodeGroups[0].name`; a key that is no plain word is quoted in brackets."""
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
    """A value of a file as a person wrote it, on one line and cut where it is long."""
    match value:
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case str():
            text = _quoted(value)
            return text if len(text) <= _LONGEST_SHOWN else f'{text[: _LONGEST_SHOWN - 4]}..."'
        case None | bool() | int() | float():
            return _show_scalar(value)
        case _:
            return str(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _show_scalar(value: bool | int | float | None) -> str:
    # A number of thousands of digits cannot be turned into text at once (CPython's limit), nor does anybody read it.
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    return json.dumps(value)
