"""The journal of changes: which objects of a table changed since each of its readers last looked."""

from collections.abc import Iterable
from typing import Generic, TypeVar

Name = TypeVar("Name")


class ChangeJournal(Generic[Name]):
    """Notes the name of each changed object for every reader. A reader is a set that belongs to it and that it empties itself.

    A note costs one entry for each reader; without readers nothing is noted.
    """

    __slots__ = ("_readers",)

    def __init__(self) -> None:
        self._readers: tuple[set[Name], ...] = ()

    def note(self, name: Name) -> None:
        """Notes that the object came, changed or went."""
        for reader in self._readers:
            reader.add(name)

    def note_all(self, names: Iterable[Name]) -> None:
        """Notes each of the objects."""
        for reader in self._readers:
            reader.update(names)

    def add_reader(self, reader: set[Name]) -> None:
        """Notes changes for the reader from now on."""
        self._readers = (*self._readers, reader)

    def remove_reader(self, reader: set[Name]) -> None:
        """Stops adding the names of changed objects to this reader's set."""
        self._readers = tuple(known for known in self._readers if known is not reader)
