"""Shares values that many objects repeat (namespaces, node names, label sets, creation times): equal values become one
instance."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


@dataclass(slots=True)
class Shared(Generic[T]):
    """Maps equal values to one instance: the first that was seen. When it has `most` values it forgets all of them, which costs
    memory only: later values are shared among themselves.

    `sys.intern` is no alternative for texts: from Python 3.12 on interned texts may stay until the process ends.
    """

    most: int = 65_536
    _kept: dict[T, T] = field(default_factory=dict)

    def share(self, value: T) -> T:
        kept = self._kept.get(value)
        if kept is not None:
            return kept
        if len(self._kept) >= self.most:
            self._kept.clear()
        self._kept[value] = value
        return value

    def __len__(self) -> int:
        return len(self._kept)
