"""The numbers in the prose of the pages, and the kinds of them that one rule checks wherever they stand."""

import re
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from string import Formatter
from typing import Final, NamedTuple

from markdown_it import MarkdownIt

from slackwater.app.settings import Settings
from slackwater.model.kubernetes_rules import NEWEST_MINOR, OLDEST_MINOR, SUPPORTED
from slackwater_protocol.durations import parse_duration
from slackwater_protocol.units import parse_nanos
from tests.unit.docs.test_names_in_pages import PAGES, SOURCES

Span = tuple[int, int]

#: A number that is no part of a name, a version or a path, with what may be its unit.
_UNIT: Final = r" ?(?:%|(?:ms|µs|min|minutes|hours|seconds|[smh]|[KMG]i?B?|kB|times|nodes|pods|cores)\b)"
NUMBER: Final = re.compile(rf"(?<![\w./#-])\d[\d,]*(?:\.\d+)*(?:{_UNIT})?")
_MARKDOWN: Final = MarkdownIt("commonmark").enable("table")


def text_of(page: Path) -> str:
    """A page's prose, one line for a paragraph, an item of a list or a row of a table; without what is generated, and without
    what is a published result itself, between marks that name the command."""
    text = re.sub(r"<!-- (?:generated|results): .*?<!-- end[\w ]* -->", "", page.read_text(), flags=re.DOTALL)
    lines: list[str] = []
    cells: list[str] | None = None
    for token in _MARKDOWN.parse(text):
        if token.type == "tr_open":
            cells = []
        elif token.type == "tr_close" and cells is not None:
            lines.append(f"| {' | '.join(cells)} |")
            cells = None
        elif token.type == "inline":
            (lines if cells is None else cells).append(" ".join(token.content.split()))
    return "\n".join(lines)


TEXTS: Final = {page: text_of(page) for page in PAGES}


def numbers(text: str) -> Iterator[re.Match[str]]:
    """All but bare 0, 1 and 2, which are words."""
    return (found for found in NUMBER.finditer(text) if found[0].strip(",") not in {"0", "1", "2"})


# --- kinds ----------------------------------------------------------------------------------------------------------------


def _adrs(text: str) -> Iterator[Span]:
    """`[ADR 170](adr/0170-name.md)`, or `[121](...)` in a list; another test wants the file."""
    for found in re.finditer(r"\[(?:ADR )?(\d+)\]\([./a-z]*adr/(?:superseded/)?0*(\d+)-[^)]*", text):
        if found[1] == found[2]:
            yield found.span()


_ANSWERED: Final = {
    int(code)
    for text in (*(page.read_text() for page in Path("openapi").glob("*.yaml")), *SOURCES)
    for code in re.findall(r"(?<![\w.])([2-5]\d\d)\b", text)
    if code == "499" or int(code) in [*HTTPStatus]
}
_SPEAKS: Final = r"\b(?:answers?|answered|gets?|status|[cC]ode|than|then|except|with|and|a|count) |[(|:;,.] "
_GOES_ON: Final = r"s? ?[|;:.,)]|s? (?:with|if|until|and|in|means|for|is|or|by)\b|$"


def _statuses(text: str) -> Iterator[Span]:
    """A status that our listeners answer or our client knows, where the text speaks of one."""
    for found in re.finditer(rf"(?:^|{_SPEAKS}|[(`])(\d{{3}})(?={_GOES_ON})", text, re.MULTILINE):
        if int(found[1]) in _ANSWERED:
            yield found.span(1)


_VERSIONS: Final = {f"1.{minor}" for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1)}.union(SUPPORTED)


def _versions(text: str) -> Iterator[Span]:
    """A version of Kubernetes whose rules we know, or of Python that the packages are tested with."""
    pythons = set(re.findall(r'"(3\.\d+)"', Path("tests/packaging/test_wheels.py").read_text()))
    for found in re.finditer(r"(?<![\w.])(\d\.\d\d(?:\.\d+)?)(?![\w%]| (?:s|ms)\b)", text):
        if found[1] in _VERSIONS | pythons:
            yield found.span()


def _addresses(text: str) -> Iterator[Span]:
    """The address or port of a listener by default."""
    listeners = Settings().listeners
    for listener in (listeners.extender, listeners.agents, listeners.ops):
        for found in re.finditer(rf"((?:[\d.]+|localhost):|port |listener \(){listener.address.port}\b", text):
            yield found.span()


_CONFIGURATION: Final = re.compile(r"(?:[a-zA-Z.]+: ?)?\{.*\}|[a-zA-Z.]+: \S+|[a-z./-]+=\d+")


def _examples(text: str) -> Iterator[Span]:
    """What a reader replaces: values in a command (that its target and options exist is another test), and what the same line
    says of them; a configuration in braces; a value alone, which has to be a quantity or a duration."""
    start = 0
    for line in text.splitlines(keepends=True):
        values = set()
        for found in re.finditer(r"`([^`]+)`", line):
            command = re.match(r"(?:make|slackwater|python|kubectl|helm|docker|git|\S*bin/\S+|[A-Z_]+=|--[a-z])", found[1])
            if command or _CONFIGURATION.fullmatch(found[1]) or _is_value(found[1]):
                yield start + found.start(), start + found.end()
            if command:
                values |= {_plain(number[0]) for number in NUMBER.finditer(found[1])}
        for number in NUMBER.finditer(line):
            if _plain(number[0]) in values:
                yield start + number.start(), start + number.end()
        start += len(line)


def _plain(number: str) -> str:
    """Without unit and commas."""
    return re.sub(r"[^\d.]", "", number).strip(".")


def _is_value(text: str) -> bool:
    for parse in (parse_nanos, parse_duration):
        try:
            parse(text.strip('"%'))
        except ValueError:
            continue
        return True
    return False


KINDS: Final[tuple[Callable[[str], Iterator[Span]], ...]] = (_adrs, _statuses, _versions, _addresses, _examples)


# --- texts ----------------------------------------------------------------------------------------------------------------


class Stated(NamedTuple):
    """A text that stands on each of the pages (their names without the ending), with values from elsewhere for each `{}`."""

    pages: str
    text: str
    values: tuple[object, ...]

    @property
    def rendered(self) -> str:
        return self.text.format(*self.values)

    def spans(self, text: str) -> Iterator[Span]:
        """Where the values stand in a page's text: other numbers of `self.text` are not checked by it."""
        values = iter(self.values)
        at, places = 0, []
        for literal, field, spec, _ in Formatter().parse(self.text):
            at += len(literal)
            if field is not None:
                places.append(at)
                at += len(format(next(values), spec or ""))
        for found in re.finditer(re.escape(self.rendered), text):
            yield from ((found.start() + place, found.start() + place + 1) for place in places)


def stated(pages: str, text: str, *values: object) -> Stated:
    return Stated(pages, text, values)
