"""A configuration file under construction: its values with a comment each, and a verdict for everything that was read.

In: settings by their path, with what they come from. Out: `Converted`, the text of a file that the loader accepts, and the
findings. What the loader refuses becomes a refused finding of the flag or field that the value comes from, without a text.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, Final, Literal

from slackwater.app.settings import Settings, SettingsError, as_file, loads
from slackwater_protocol.durations import DurationError, parse_duration
from slackwater_protocol.names import CONFIG_API_VERSION, CONFIG_KIND

Verdict = Literal["taken", "same-as-default", "to-do", "no-counterpart", "refused"]
#: The most characters of a comment.
_WIDEST: Final = 2000


class ConversionError(ValueError):
    """The input cannot be read, or has nothing to convert. The message names the object, what was found and what is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What became of one flag or field. `setting`: ours, with its path; "" if there is none. `value`: as it was written, or
    what holds without it. `given`: it was there."""

    flag: str
    value: str
    verdict: Verdict
    setting: str = ""
    why: str = ""
    given: bool = True

    @property
    def source(self) -> str:
        """What it comes from, with why: the comment of a value."""
        return f"{self.flag}{f'={self.value}' if self.value else ''}{f': {self.why}' if self.why else ''}"

    def __str__(self) -> str:
        return plain(f"{self.source}{f' ({self.setting})' if self.setting else ''}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """`text`: the file; "" if something was refused."""

    text: str
    findings: tuple[Finding, ...]

    @property
    def refused(self) -> tuple[Finding, ...]:
        return tuple(each for each in self.findings if each.verdict == "refused")

    def rows(self) -> list[dict[str, str]]:
        return [asdict(each) for each in self.findings]


@dataclass(slots=True)
class _Leaf:
    value: Any
    comment: str


@dataclass(slots=True)
class Draft:
    """`head`: lines at the top of the file. `findings`: verdicts, in order of the input."""

    head: Sequence[str]
    findings: list[Finding] = field(default_factory=list)
    _leaves: dict[str, _Leaf] = field(default_factory=dict)
    #: Path of a setting, or of a list's entry -> what it comes from, and its value there.
    _sources: dict[str, tuple[str, str]] = field(default_factory=dict)

    def put(self, path: str, value: Any, flag: str, text: str = "", why: str = "", *, given: bool = True) -> None:
        """Sets the value at `path`, which comes from `flag` with the value `text`. A value that is our default is left out.
        `given`: the flag is there; otherwise `text` is its default, and needs no word if it is ours."""
        same = path not in self._leaves and _equal(value, _default(path))
        self._sources[path] = (flag, text)
        if given or not same:
            self.find(flag, text, "same-as-default" if same else "taken", path, why, given=given)
        if not same:
            self._leaves[path] = _Leaf(value, self.findings[-1].source)

    def add(self, path: str, entry: Mapping[str, Any], flag: str, text: str, why: str = "") -> None:
        """Appends the entry to the list at `path`."""
        entries = self._leaves.setdefault(path, _Leaf([], "")).value
        self._sources[f"{path}[{len(entries)}]"] = (flag, text)
        self.find(flag, text, "taken", path, why)
        entries.append(_Leaf(dict(entry), self.findings[-1].source))

    def find(self, flag: str, value: str, verdict: Verdict, setting: str = "", why: str = "", *, given: bool = True) -> None:
        self.findings.append(Finding(flag=flag, value=value, verdict=verdict, setting=setting, why=why, given=given))

    def done(self) -> Converted:
        """The file, checked by the loader."""
        text = "\n".join([*self._lines(), *self._notes()]) + "\n"
        try:
            loads(text)
        except SettingsError as err:
            for problem in err.problems:
                flag, value = self._source_of(problem.path)
                self.find(flag, value, "refused", problem.path, f"got {problem.seen}, want {problem.wanted}")
        refused = any(each.verdict == "refused" for each in self.findings)
        return Converted(text="" if refused else text, findings=tuple(self.findings))

    def _source_of(self, path: str) -> tuple[str, str]:
        begun = [known for known in self._sources if path == known or path.startswith((f"{known}.", f"{known}["))]
        return self._sources[max(begun, key=len)] if begun else ("the file", "")

    def _lines(self) -> Iterator[str]:
        yield from (f"# {plain(line)}" for line in self.head)
        yield f"apiVersion: {CONFIG_API_VERSION}"
        yield f"kind: {CONFIG_KIND}"
        tree: dict[str, Any] = {}
        for path, leaf in self._leaves.items():
            *sections, key = path.split(".")
            at = tree
            for section in sections:
                at = at.setdefault(section, {})
            at[key] = leaf
        yield from _rendered(tree, "")

    def _notes(self) -> Iterator[str]:
        for verdict, title in (
            ("to-do", "Left to do:"),
            ("no-counterpart", "Without a counterpart:"),
            ("same-as-default", "Left out, as it is the default here too:"),
        ):
            found = [each for each in self.findings if each.verdict == verdict]
            yield from ["#", f"# {title}"] if found else []
            yield from (f"# - {each}" for each in found)


def _rendered(tree: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, part in tree.items():
        if not isinstance(part, _Leaf):
            yield f"{indent}{key}:"
            yield from _rendered(part, f"{indent}  ")
        elif isinstance(part.value, list) and part.value and isinstance(part.value[0], _Leaf):
            yield f"{indent}{key}:"
            for entry in part.value:
                yield f"{indent}- {_value(entry.value)}  # {plain(entry.comment)}"
        else:
            yield f"{indent}{key}: {_value(part.value)}  # {plain(part.comment)}"


def _value(value: Any) -> str:
    """The value in YAML's flow style. JSON's escapes of characters beyond the first plane are none of YAML's."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in text)


def plain(text: str) -> str:
    """The text on one line, of a bounded length, without control characters."""
    line = "".join(each if each.isprintable() else " " for each in text)
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 3]}..."


@cache
def _defaults() -> dict[str, Any]:
    return as_file(Settings())


def _default(path: str) -> Any:
    """The default of a setting; None if its section is unset by default."""
    at: Any = _defaults()
    for key in path.split("."):
        at = at.get(key) if isinstance(at, dict) else None
    return at


def default_text(path: str) -> str:
    """The default of a setting as text of a page; "" for sections and for what is unset."""
    value = _default(path)
    return "" if isinstance(value, dict | list) or value is None else json.dumps(value).strip('"')


def _equal(ours: Any, default: Any) -> bool:
    if isinstance(ours, str) and isinstance(default, str):
        try:
            return parse_duration(ours) == parse_duration(default)
        except DurationError:
            return ours == default
    return bool(ours == default) and isinstance(ours, bool) == isinstance(default, bool)


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that names the most similar known word; "" if none is similar."""
    import difflib

    found = difflib.get_close_matches(word, sorted(known), n=1)
    return f" (did you mean {found[0]}?)" if found else ""
