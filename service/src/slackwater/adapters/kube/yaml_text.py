"""Reads YAML into trees that JSON can represent (dict, list, str, int, float, bool, None), from the parser's events.

Plain scalars have the meaning that Kubernetes' readers give them (YAML 1.1), except that times stay text. The parser yields one
event at a time, so a text that is nested too deeply is refused before anything recurses into it: PyYAML's own loaders crash the
process at 100,000 brackets. An alias counts with all values that it stands for. Tags other than those of plain scalars, keys
that are not text, and numbers that JSON does not have are refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite
from typing import Any, Final

import msgspec
import yaml

#: The deepest nesting of lists and mappings; the schema of a CustomResourceDefinition has about 50 levels.
DEEPEST: Final = 128
#: The most values that aliases may add.
MOST_ALIASED: Final = 1_000_000
#: The list whose items `json_documents` yields as bytes, each as soon as it is complete.
_ITEMS: Final = "items"
_PREFIX: Final = "tag:yaml.org,2002:"
_TAGS: Final = frozenset({None, "!", *(f"{_PREFIX}{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq"))})
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVER: Final[Any] = yaml.resolver.Resolver()
_CONSTRUCTOR: Final = yaml.constructor.SafeConstructor()
_MEANINGS: Final = {
    f"{_PREFIX}int": _CONSTRUCTOR.construct_yaml_int,
    f"{_PREFIX}float": _CONSTRUCTOR.construct_yaml_float,
    f"{_PREFIX}bool": _CONSTRUCTOR.construct_yaml_bool,
    f"{_PREFIX}null": _CONSTRUCTOR.construct_yaml_null,
}
#: Distinct plain scalars whose value is kept.
_CACHED_SCALARS: Final = 16_384


class YamlProblem(ValueError):
    """Raised for a text that is not YAML, or exceeds a limit: what was seen, where, and what is wanted."""


def yaml_tree(text: str) -> object:
    """The tree of a text with one document; None if it is empty. Raises `YamlProblem`."""
    trees = list(_trees(text, as_json=False))
    if len(trees) > 1:
        raise YamlProblem(f"got {len(trees)} documents, want one")
    return trees[0] if trees else None


def json_documents(data: bytes) -> Iterator[bytes]:
    """Yields each document of a text as JSON, without empty ones. The items of a List are never in memory as trees all at once.

    Raises `YamlProblem`.
    """
    return (_encoded(tree) for tree in _trees(data, as_json=True) if tree is not None)


def _trees(text: str | bytes, *, as_json: bool) -> Iterator[object]:
    try:
        events = yaml.parse(text, Loader=_LOADER)
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                yield _Document(events=events, as_json=as_json).value(next(events), 0)
    except (yaml.YAMLError, UnicodeDecodeError) as err:
        raise YamlProblem(" ".join(str(err).split())) from err


@dataclass(slots=True, kw_only=True)
class _Document:
    """A document whose tree is being built."""

    events: Iterator[Any]
    as_json: bool
    #: The number of values so far, and how many of them aliases have added.
    values: int = 0
    aliased: int = 0
    #: Anchor -> its value, and how many values that has.
    anchors: dict[str, tuple[object, int]] = field(default_factory=dict)

    def value(self, event: Any, depth: int) -> object:
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event)
        if depth > DEEPEST:
            raise YamlProblem(f"more than {DEEPEST} levels{_line(event)}, want a flatter text")
        if event.tag not in _TAGS:
            raise YamlProblem(f"the tag {event.tag}{_line(event)}, want none")
        before, self.values = self.values, self.values + 1
        if isinstance(event, yaml.ScalarEvent):
            built = _scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            built = list(self.sequence(depth + 1))
        else:
            built = self.mapping(depth + 1)
        if event.anchor is not None:
            self.anchors[event.anchor] = (built, self.values - before)
        return built

    def alias(self, event: Any) -> object:
        if event.anchor not in self.anchors:
            raise YamlProblem(f"the alias *{event.anchor}{_line(event)} before its anchor is complete, want it after that")
        built, size = self.anchors[event.anchor]
        self.values += size
        self.aliased += size
        if self.aliased > MOST_ALIASED:
            raise YamlProblem(f"aliases for more than {MOST_ALIASED} values{_line(event)}, want fewer")
        return built

    def sequence(self, depth: int) -> Iterator[object]:
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            yield self.value(event, depth)

    def mapping(self, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        merged: list[tuple[object, str]] = []
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise YamlProblem(f"a key that is no text{_line(event)}, want texts as keys")
            key, start = str(event.value), next(self.events)
            if key == "<<" and event.implicit[0]:
                merged.append((self.value(start, depth), _line(event)))
            elif self.as_json and depth == 1 and key == _ITEMS and _is_plain_list(start):
                found[key] = [msgspec.Raw(_encoded(item)) for item in self.sequence(depth + 1)]
            else:
                found[key] = self.value(start, depth)
        for value, line in merged:
            found = {**_merge(value, line), **found}
        return found


def _is_plain_list(event: Any) -> bool:
    return isinstance(event, yaml.SequenceStartEvent) and event.anchor is None and event.tag is None


def _merge(value: object, line: str) -> dict[str, object]:
    """The entries that a merge key adds: those of one mapping, or of a list of mappings, whose first one with a key wins."""
    merged: dict[str, object] = {}
    for each in reversed(value) if isinstance(value, list) else [value]:
        if not isinstance(each, dict):
            raise YamlProblem(f"a merge key{line} of no mapping, want a mapping or a list of them")
        merged.update(each)
    return merged


def _scalar(event: Any) -> object:
    text = str(event.value)
    if event.tag == f"{_PREFIX}str" or not (event.implicit[0] or (event.tag or "").startswith(_PREFIX)):
        return text
    try:
        found = _plain(text)
    except ValueError as err:  # a number with more digits than Python converts
        raise YamlProblem(f"the number {text[:20]}...{_line(event)}: {err}") from err
    if isinstance(found, float) and not isfinite(found):
        raise YamlProblem(f"the number {text[:20]}{_line(event)}, want one that JSON has")
    return found


@lru_cache(maxsize=_CACHED_SCALARS)
def _plain(text: str) -> object:
    tag = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))
    return _MEANINGS[tag](yaml.ScalarNode(tag, text)) if tag in _MEANINGS else text


def _encoded(tree: object) -> bytes:
    try:
        return msgspec.json.encode(tree)
    except UnicodeEncodeError as err:
        raise YamlProblem(f"half a surrogate pair in {err.object[:20]!a}, want whole characters") from err


def _line(event: Any) -> str:
    return f" on line {event.start_mark.line + 1}"
