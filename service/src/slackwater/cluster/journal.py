"""The journal of changes: tells each reader which objects of a table changed since the reader last looked."""

from collections.abc import Iterable
from typing import Generic, TypeVar

Name = TypeVar("Name")


class ChangeJournal(Generic[Name]):
    """Adds the name of each changed object to the set of every reader. A reader owns its set and empties it itself.

    Each change costs one entry for each reader; without readers nothing is kept.
    """

    __slots__ = ("_readers",)

    def __init__(self) -> None:
        self._readers: tuple[set[Name], ...] = ()

    def note(self, name: Name) -> None:
        """Notes that the object was added, changed or removed."""
        for reader in self._readers:
            reader.add(name)

    def note_all(self, names: Iterable[Name]) -> None:
        """Notes that each of the objects was added, changed or removed."""
        for reader in self._readers:
            reader.update(names)

    def add_reader(self, reader: set[Name]) -> None:
        """Adds the names of changed objects to this reader's set from now on."""
        self._readers = (*self._readers, reader)

    def remove_reader(self, reader: set[Name]) -> None:
        """Stops adding the names of changed objects to this reader's set."""
        self._readers = tuple(known for known in self._readers if known is not reader)
