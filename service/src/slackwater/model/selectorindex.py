"""Which of many selectors select a set of labels: found by the labels, not by asking every selector.

A namespace may have a thousand PodDisruptionBudgets, and nearly all ask for the value of some label. The index looks at such
a selector only for pods that have the value. Where a selector asks for several labels, the index files it under the one that
has the fewest selectors so far, so that a label which all of them ask for does not lump them together.
"""

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from slackwater.model.selectors import Requirement, Selector, selects

T = TypeVar("T")
#: A label's key, and its value; None: whatever the value.
Pair = tuple[str, str | None]


class SelectorIndex(Generic[T]):
    """Things with selectors, by a name that is unique among them."""

    def __init__(self) -> None:
        self._found_by: dict[T, tuple[Pair, ...]] = {}
        self._by_pair: dict[Pair, dict[T, Selector]] = {}
        #: Those that ask for no label.
        self._others: dict[T, Selector] = {}

    def put(self, name: T, selector: Selector) -> None:
        """A new thing, or one whose selector may have changed."""
        self.drop(name)
        self._found_by[name] = pairs = self._rarest(selector)
        if not pairs:
            self._others[name] = selector
        for pair in pairs:
            self._by_pair.setdefault(pair, {})[name] = selector

    def drop(self, name: T) -> None:
        """Does nothing where the thing is not there."""
        for pair in self._found_by.pop(name, ()):
            found = self._by_pair[pair]
            del found[name]
            if not found:
                del self._by_pair[pair]
        self._others.pop(name, None)

    def selecting(self, labels: Mapping[str, str]) -> Iterator[T]:
        """The things whose selectors select the labels, each once, in no order that means anything."""
        for pair in labels.items():
            yield from _selecting(self._by_pair.get(pair, {}), labels)
        for key in labels:
            yield from _selecting(self._by_pair.get((key, None), {}), labels)
        yield from _selecting(self._others, labels)

    def _rarest(self, selector: Selector) -> tuple[Pair, ...]:
        """The label and its values that the selector is to be found by; empty where it asks for no label."""
        asked = [pairs for requirement in selector or () if (pairs := _pairs(requirement))]
        return min(asked, key=lambda pairs: sum(len(self._by_pair.get(pair, ())) + 1 for pair in pairs), default=())


def _pairs(requirement: Requirement) -> tuple[Pair, ...]:
    """Labels of which one must be there for the requirement to hold; empty where none need be."""
    match requirement.operator:
        case "In":
            return tuple((requirement.key, value) for value in dict.fromkeys(requirement.values))
        case "Exists":
            return ((requirement.key, None),)
        case _:
            return ()


def _selecting(found: Mapping[T, Selector], labels: Mapping[str, str]) -> Iterator[T]:
    return (name for name, selector in found.items() if selects(selector, labels))
