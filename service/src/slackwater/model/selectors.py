"""Requirements on labels, as in label selectors and node selector terms, and whether labels meet them.

A selector is a tuple of requirements, all of which must hold: an empty tuple selects everything. None selects nothing (the
API's absent selector). `SelectorIndex` finds, among many selectors, those that select given labels.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

#: The most labels under which a selector is filed, and the most of its requirements that are considered for that.
_MOST_PAIRS: Final = 256
#: Up to so many values are looked through one by one.
_FEW: Final = 8


class _Computed:
    """What a `Requirement` computes once; no field."""

    __slots__ = ("_set",)

    _set: frozenset[str]


@dataclass(frozen=True, slots=True)
class Requirement(_Computed):
    """A requirement on labels: `key` operator `values`, as in node selector terms: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...]

    def names(self, value: str) -> bool:
        """Whether the value is one of `values`, of which there may be thousands."""
        if len(self.values) <= _FEW:
            return value in self.values
        try:
            return value in self._set
        except AttributeError:
            object.__setattr__(self, "_set", frozenset(self.values))
            return value in self._set


Selector = tuple[Requirement, ...] | None

EVERYTHING: Final[tuple[Requirement, ...]] = ()

_MOST_DIGITS: Final = 20
_LARGEST: Final = 2**63 - 1


def whole_number(text: str | None) -> int | None:
    """The text as a signed 64-bit integer, as the operators Gt and Lt read it (Go's strconv.ParseInt); None if it is not
    one."""
    if not text or len(text) > _MOST_DIGITS:
        return None
    digits = text[1:] if text[0] in "+-" else text
    if not (digits.isascii() and digits.isdecimal()):
        return None
    number = int(text)
    return number if -_LARGEST - 1 <= number <= _LARGEST else None


#: Operators that compare whole numbers, as those of node selectors; Karpenter has two for "at least" and "at most".
_STRICT: Final = {"Gt": ("Gt", 0), "Lt": ("Lt", 0), "Gte": ("Gt", -1), "Lte": ("Lt", 1)}
_OF_SETS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})


def karpenter_requirement(key: str, operator: str, listed: Iterable[str] | None) -> Requirement:
    """A requirement of Karpenter's objects. Raises ValueError, which names the key."""
    values = tuple(listed or ())
    if operator in _OF_SETS:
        return Requirement(key, operator, values)
    if operator not in _STRICT:
        wanted = ", ".join(sorted(_OF_SETS | _STRICT.keys()))
        raise ValueError(f"requirements: {key!s:.80}: got operator {operator!r:.80}, want one of {wanted}")
    strict, step = _STRICT[operator]
    bound = whole_number(values[0]) if len(values) == 1 else None
    if bound is None:
        raise ValueError(f"requirements: {key!s:.80}: got {operator} {list(values)!s:.80}, want one whole number")
    return Requirement(key, strict, (str(bound + step),))


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether the labels meet one requirement. Gt and Lt compare integers, and do not hold for values that are not integers."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and requirement.names(value)
        case "NotIn":
            return value is None or not requirement.names(value)
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)
        case _:
            return False


def _compares(requirement: Requirement, value: str | None) -> bool:
    seen, bound = whole_number(value), whole_number(requirement.values[0] if requirement.values else None)
    if seen is None or bound is None:
        return False
    return seen > bound if requirement.operator == "Gt" else seen < bound


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    return selector is not None and all(holds(requirement, labels) for requirement in selector)


T = TypeVar("T")
#: A label's key and its value; None: any value.
Pair = tuple[str, str | None]


class SelectorIndex(Generic[T]):
    """An index of things that have a selector: finds the things that select given labels without evaluating every selector.
    Each thing is known by a unique name.

    A namespace may have a thousand PodDisruptionBudgets, and nearly all require the value of some label. The index evaluates
    such a selector only for pods that have the value. A selector that requires several labels is filed under the label that has
    the fewest selectors so far. So a label that all selectors require does not put all of them into one entry.
    """

    def __init__(self) -> None:
        self._found_by: dict[T, tuple[Pair, ...]] = {}
        self._by_pair: dict[Pair, dict[T, Selector]] = {}
        #: Things whose selectors require no label.
        self._others: dict[T, Selector] = {}

    def put(self, name: T, selector: Selector) -> None:
        """Adds a thing, or replaces its selector."""
        self.drop(name)
        self._found_by[name] = pairs = self._rarest(selector)
        if not pairs:
            self._others[name] = selector
        for pair in pairs:
            self._by_pair.setdefault(pair, {})[name] = selector

    def drop(self, name: T) -> None:
        """Removes a thing; does nothing if the index does not have it."""
        for pair in self._found_by.pop(name, ()):
            found = self._by_pair[pair]
            del found[name]
            if not found:
                del self._by_pair[pair]
        self._others.pop(name, None)

    def selecting(self, labels: Mapping[str, str]) -> Iterator[T]:
        """The things whose selectors select the labels, each once, in arbitrary order."""
        for pair in labels.items():
            yield from _selecting(self._by_pair.get(pair, {}), labels)
        for key in labels:
            yield from _selecting(self._by_pair.get((key, None), {}), labels)
        yield from _selecting(self._others, labels)

    def _rarest(self, selector: Selector) -> tuple[Pair, ...]:
        """The pairs under which the selector is filed; empty if it requires no label."""
        asked = [pairs for requirement in (selector or ())[:_MOST_PAIRS] if (pairs := _pairs(requirement))]
        return min(asked, key=lambda pairs: sum(len(self._by_pair.get(pair, ())) + 1 for pair in pairs), default=())


def _pairs(requirement: Requirement) -> tuple[Pair, ...]:
    """The labels of which the requirement demands at least one; empty if it demands none, or one of very many."""
    match requirement.operator:
        case "In" if len(requirement.values) <= _MOST_PAIRS:
            return tuple((requirement.key, value) for value in dict.fromkeys(requirement.values))
        case "Exists":
            return ((requirement.key, None),)
        case _:
            return ()


def _selecting(found: Mapping[T, Selector], labels: Mapping[str, str]) -> Iterator[T]:
    return (name for name, selector in found.items() if selects(selector, labels))
