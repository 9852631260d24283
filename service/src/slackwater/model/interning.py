"""Shares values that many objects repeat (namespaces, node names, label sets, creation times), and caches what is read from
texts.

Both are bounded by size, not by number alone: one object may be as large as a request to the API server.
"""

from collections.abc import Callable, Hashable, Sized
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
Text = TypeVar("Text", str, bytes)
Read = TypeVar("Read")


class _Value(Hashable, Sized, Protocol):
    """A text, or a tuple."""


T = TypeVar("T", bound=_Value)


@dataclass(slots=True)
class Shared(Generic[T]):
    """Maps equal values to one instance: the first that was seen. When their sizes add up to `most` it forgets all of them,
    which costs memory only: later values are shared among themselves. A value's size is 1, and 1 more for each `unit` of its
    length; very large values, of which there are few, are not shared.

    `sys.intern` is no alternative for texts: from Python 3.12 on interned texts may stay until the process ends.
    """

    most: int = 65_536
    unit: int = 64
    _kept: dict[T, T] = field(default_factory=dict)
    _size: int = 0

    def share(self, value: T) -> T:
        kept = self._kept.get(value)
        if kept is not None:
            return kept
        size = 1 + len(value) // self.unit
        if self._size + size > self.most:
            self._kept.clear()
            self._size = 0
        if size <= max(1, self.most // 64):
            self._kept[value] = value
            self._size += size
        return value

    def __len__(self) -> int:
        return len(self._kept)


def cached_texts(
    *, most: int, longest: int
) -> Callable[[Callable[Concatenate[Text, P], Read]], Callable[Concatenate[Text, P], Read]]:
    """A decorator for functions that read a text, their first argument: caches `most` results, least recently used first. Texts
    longer than `longest` are read again each time, so the cached ones have at most `most` times `longest` bytes."""

    def decorate(read: Callable[Concatenate[Text, P], Read]) -> Callable[Concatenate[Text, P], Read]:
        kept = lru_cache(maxsize=most)(read)

        @wraps(read)
        def reading(text: Text, /, *args: P.args, **kwargs: P.kwargs) -> Read:
            return (kept if len(text) <= longest else read)(text, *args, **kwargs)  # type: ignore[arg-type]

        return reading

    return decorate
