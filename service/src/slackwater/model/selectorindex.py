"""An index of selectors: finds those that select given labels without evaluating every selector.

A namespace may have a thousand PodDisruptionBudgets, and nearly all require the value of some label. The index evaluates such a
selector only for pods that have the value. Where a selector requires several labels, the index files it under the one that has
the fewest selectors so far, so that a label which all of them require does not put them all into one entry.
"""

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from slackwater.model.selectors import Requirement, Selector, selects

T = TypeVar("T")
#: A label's key and its value; None: any value.
Pair = tuple[str, str | None]


class SelectorIndex(Generic[T]):
    """Things with selectors, each by its unique name."""

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
        """Removes a thing; does nothing where it is not there."""
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
        """The pairs under which the selector is filed; empty where it requires no label."""
        asked = [pairs for requirement in selector or () if (pairs := _pairs(requirement))]
        return min(asked, key=lambda pairs: sum(len(self._by_pair.get(pair, ())) + 1 for pair in pairs), default=())


def _pairs(requirement: Requirement) -> tuple[Pair, ...]:
    """Labels of which the requirement needs one; empty where it needs none."""
    match requirement.operator:
        case "In":
            return tuple((requirement.key, value) for value in dict.fromkeys(requirement.values))
        case "Exists":
            return ((requirement.key, None),)
        case _:
            return ()


def _selecting(found: Mapping[T, Selector], labels: Mapping[str, str]) -> Iterator[T]:
    return (name for name, selector in found.items() if selects(selector, labels))
