"""Reads JSON or YAML text into a plain tree (dict, list, str, int, float, bool, None) and reports what is easily misread.

It reads our own configuration file and the KubeSchedulerConfiguration of `scheduler-config --check`; it knows no keys. Scalars
follow YAML 1.2's core schema. Kubernetes reads YAML 1.1, where some scalars mean something else (`on`, `no`, `010`). Such a
scalar becomes an `Ambiguous` that the caller has to handle. A repeated key, tags, merge keys, several documents, and an alias
inside its own anchor are reported with their place. The text's size, the depth, and the number of values are limited; an alias
counts with all its values each time that it is used.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import yaml

from slackwater.configuration.problems import Problem, Steps, UnreadableSettings, json_path

#: A ConfigMap holds at most 1 MiB; a configuration of 100 node groups has about 100 KiB.
LARGEST_TEXT: Final = 1 << 20
DEEPEST: Final = 32
MOST_VALUES: Final = 200_000

_BETWEEN: Final = re.compile(r"^---.*$", re.MULTILINE)
_CONFIG_MAP: Final = re.compile(r"^kind: *ConfigMap *$", re.MULTILINE)
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_OTHER_BASE: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LONGEST_NUMBER: Final = 400
# libyaml parses ten times as fast, if PyYAML was built with it. That matters on a reload: its worker thread shares the
# interpreter lock with the extender.
_LOADER: Final[type[yaml.SafeLoader | yaml.CSafeLoader]] = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


@dataclass(frozen=True, slots=True, kw_only=True)
class Ambiguous:
    """An unquoted scalar that readers of YAML 1.1 and 1.2 read differently; `old` is what 1.1 reads.

    No key accepts this type, so validation refuses it unless the caller converts it.
    """

    text: str
    old: bool | int

    def __str__(self) -> str:
        return f"{self.text} without quotes ({json.dumps(self.old)} in YAML 1.1)"


def _spellings(*words: str) -> tuple[str, ...]:
    return tuple(form for word in words for form in (word, word.capitalize(), word.upper()))


#: Unquoted scalars that are no text. YAML 1.1 has more booleans than 1.2.
_SPELLED: Final[dict[str, bool | Ambiguous | None]] = {
    **dict.fromkeys(("", "~", *_spellings("null"))),
    **dict.fromkeys(_spellings("true"), True),
    **dict.fromkeys(_spellings("false"), False),
    **{text: Ambiguous(text=text, old=True) for text in _spellings("y", "yes", "on")},
    **{text: Ambiguous(text=text, old=False) for text in _spellings("n", "no", "off")},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document as read. `tree` is what could be read; `problems` is what had to be left out."""

    tree: object
    problems: tuple[Problem, ...]


def read_document(text: str, kind: str) -> Document:
    """Reads one JSON or YAML document of this kind. Raises `UnreadableSettings` if no tree can be read at all.

    The document may be in a ConfigMap, which may be one of several manifests or an item of a list: that is how it is kept in
    repositories and clusters.
    """
    if len(text) > LARGEST_TEXT:
        raise UnreadableSettings([Problem(path="", seen=f"{len(text)} characters", wanted=f"at most {LARGEST_TEXT}")])
    manifests = [each for each in _BETWEEN.split(text) if kind in each]
    document = _read(manifests[0] if len(manifests) == 1 and _CONFIG_MAP.search(manifests[0]) else text)
    tree = document.tree if isinstance(document.tree, dict) else {}
    found = tree.get("items") if str(tree.get("kind")).endswith("List") else [tree]
    maps = [each for each in found if isinstance(each, dict) and each.get("kind") == "ConfigMap"] if found else []
    if not maps:
        return document
    texts = [each for data in (one.get("data") for one in maps) if isinstance(data, dict) for each in data.values()]
    held = [each for each in texts if isinstance(each, str) and kind in each]
    if len(held) != 1:
        raise UnreadableSettings([Problem(path="data", seen=f"{len(held)} texts with kind: {kind}", wanted="one")])
    return _read(held[0])


def _read(text: str) -> Document:
    text = text.removeprefix("\ufeff")
    if text.lstrip().startswith("{"):
        # The YAML parser refuses tabs and some escapes that JSON allows.
        try:
            return _read_json(text)
        except ValueError:
            return _read_yaml(text)
    return _read_yaml(text)


def as_yaml_1_1(tree: object) -> object:
    """The tree as Kubernetes reads it: each `Ambiguous` is replaced by its value in YAML 1.1."""
    match tree:
        case Ambiguous():
            return tree.old
        case dict():
            return {key: as_yaml_1_1(value) for key, value in tree.items()}
        case list():
            return [as_yaml_1_1(value) for value in tree]
        case _:
            return tree


@dataclass(slots=True)
class _Builder:
    """Builds the tree from JSON or YAML: collects problems, and counts values to keep to a limit."""

    problems: list[Problem] = field(default_factory=list)
    values: int = 0

    def count(self, how_many: int, at: Steps) -> None:
        self.values += how_many
        if self.values > MOST_VALUES:
            raise UnreadableSettings(
                [Problem(path=json_path(at), seen=f"more than {MOST_VALUES} values", wanted="fewer (aliases count)")]
            )

    def enter(self, at: Steps) -> None:
        if len(at) > DEEPEST:
            raise UnreadableSettings([Problem(path=json_path(at), seen=f"more than {DEEPEST} levels", wanted="a flatter file")])

    def put(self, mapping: dict[str, object], key: str, value: object, at: Steps, line: str) -> None:
        if key in mapping:
            self.refuse((*at, key), f"the key a second time{line}", "each key once")
            return
        mapping[key] = value

    def refuse(self, at: Steps, seen: str, wanted: str) -> None:
        self.problems.append(Problem(path=json_path(at), seen=seen, wanted=wanted))

    def text(self, text: str, at: Steps) -> str:
        """The text, with halves of surrogate pairs replaced and reported. JSON escapes can spell them, but UTF-8 cannot."""
        clean = text.encode("utf-8", "replace").decode()
        if clean != text:
            self.refuse(at, f"half a surrogate pair in {json.dumps(text)[:80]}", "whole characters")
        return clean

    def from_json(self, value: object, at: Steps) -> object:
        self.count(1, at)
        self.enter(at)
        if isinstance(value, str):
            return self.text(value, at)
        if isinstance(value, tuple):  # the pairs of an object, which may repeat keys
            mapping: dict[str, object] = {}
            for raw, item in value:
                key = self.text(raw, at)
                self.put(mapping, key, self.from_json(item, (*at, key)), at, "")
            return mapping
        if isinstance(value, list):
            return [self.from_json(item, (*at, index)) for index, item in enumerate(value)]
        return value


def _read_json(text: str) -> Document:
    try:
        pairs = json.loads(text, object_pairs_hook=tuple)
    except RecursionError:
        raise UnreadableSettings([Problem(path="", seen="endless nesting", wanted="a flatter file")]) from None
    builder = _Builder()
    tree = builder.from_json(pairs, ())
    return Document(tree=tree, problems=tuple(builder.problems))


def _read_yaml(text: str) -> Document:
    builder = _YamlBuilder(events=yaml.parse(text, Loader=_LOADER))
    try:
        tree = builder.document()
    except yaml.MarkedYAMLError as err:
        mark = err.problem_mark or err.context_mark
        place = f" on line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        seen = f"a syntax error{place}: {err.problem}{f' ({err.context})' if err.context else ''}"
        raise UnreadableSettings([Problem(path="", seen=seen, wanted="YAML or JSON")]) from err
    except yaml.YAMLError as err:  # characters that YAML does not allow; this error has no position
        seen = " ".join(str(err).split())
        raise UnreadableSettings([Problem(path="", seen=seen, wanted="YAML or JSON text")]) from err
    return Document(tree=tree, problems=tuple(builder.problems))


@dataclass(slots=True)
class _YamlBuilder(_Builder):
    """Builds the tree from PyYAML's parse events, because its loader hides paths, aliases and repeated keys."""

    events: Iterator[yaml.Event] = field(default_factory=lambda: iter(()))
    #: Anchor -> finished value and how many values it holds. An anchor is known only once its value is complete.
    anchors: dict[str, tuple[object, int]] = field(default_factory=dict)

    def document(self) -> object:
        """Reads the only document's tree; None if the stream is empty."""
        tree: object = None
        documents = 0
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise UnreadableSettings([Problem(path="", seen=f"a second document{_line(event)}", wanted="one document")])
            elif isinstance(event, yaml.NodeEvent):
                tree = self.value(event, ())
        return tree

    def value(self, event: yaml.Event, at: Steps) -> object:
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, at)
        self.enter(at)
        before = self.values
        self.count(1, at)
        if isinstance(event, yaml.ScalarEvent):
            built = self.scalar(event, at)
        elif isinstance(event, yaml.SequenceStartEvent):
            built = self.sequence(at)
        else:
            built = self.mapping(at)
        self.check_tag(event, at)
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            self.anchors[event.anchor] = (built, self.values - before)
        return built

    def alias(self, event: yaml.AliasEvent, at: Steps) -> object:
        name = str(event.anchor)
        if name not in self.anchors:
            seen = f"the alias *{name}{_line(event)} before its anchor &{name} is complete"
            raise UnreadableSettings([Problem(path=json_path(at), seen=seen, wanted="an anchor above the alias")])
        built, size = self.anchors[name]
        self.count(size, at)
        return built

    def check_tag(self, event: yaml.Event, at: Steps) -> None:
        tag = getattr(event, "tag", None)
        if tag not in (None, "!"):
            self.refuse(at, f"the tag {tag}{_line(event)}", "no tags")

    def sequence(self, at: Steps) -> list[object]:
        items: list[object] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self.value(event, (*at, len(items))))
        return items

    def mapping(self, at: Steps) -> dict[str, object]:
        mapping: dict[str, object] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self.key(event, at)
            value = self.value(next(self.events), (*at, "?" if key is None else key))
            if key == "<<":
                self.refuse((*at, key), f"a merge key{_line(event)}", "the keys themselves (YAML 1.2 has no merge)")
            elif key is not None:
                self.put(mapping, key, value, at, _line(event))
        return mapping

    def key(self, event: yaml.Event, at: Steps) -> str | None:
        """Reads a mapping's key, always as text, as in JSON: `on:` and `1:` are the texts `on` and `1`. None if the key is not
        usable, which is reported."""
        if isinstance(event, yaml.ScalarEvent):
            self.check_tag(event, at)
            return self.text(event.value, at)
        self.value(event, (*at, "?"))  # consumes the key's events, so that parsing can go on after it
        self.refuse(at, f"a key that is no text{_line(event)}", "texts as keys")
        return None

    def scalar(self, event: yaml.ScalarEvent, at: Steps) -> object:
        if not event.implicit[0] or event.style not in (None, ""):
            return self.text(event.value, at)
        text: str = event.value
        if text in _SPELLED:
            return _SPELLED[text]
        if len(text) > _LONGEST_NUMBER and text.lstrip("+-")[:1].isdigit():
            self.refuse(at, f"{len(text)} characters without quotes that start like a number", "quotes around text")
            return None
        number = _number(text)
        return text if number is None else number


def _number(text: str) -> int | float | Ambiguous | None:
    if _INTEGER.fullmatch(text):
        octal = re.fullmatch(r"[-+]?0[0-7]+", text)
        return Ambiguous(text=text, old=int(text, 8)) if octal else int(text)
    if _OTHER_BASE.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _NOT_FINITE.fullmatch(text):
        return float(text.replace(".", "", 1))
    return None


def _line(event: yaml.Event) -> str:
    return f" on line {event.start_mark.line + 1}" if event.start_mark is not None else ""
