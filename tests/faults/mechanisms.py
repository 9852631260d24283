"""Mechanisms of the service that can be broken on purpose, from outside: what the simulation is worth is that it notices.

Each is taken out by replacing one method while a run lasts. Deliberately absent: switches in the service.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """`law` is the one that notices, as a rule. `patches`: class, method, and what takes the place of it, given the method."""

    name: str
    law: str
    what: str
    patches: tuple[tuple[type, str, Callable[[Any], Any]], ...]


MECHANISMS: dict[str, Mechanism] = {}


@contextmanager
def broken(name: str) -> Iterator[None]:
    """Breaks the mechanism of this name, none where it is empty."""
    undo: list[tuple[type, str, Any]] = []
    try:
        for class_, method, replacement in MECHANISMS[name].patches if name else ():
            original = getattr(class_, method)
            undo.append((class_, method, original))
            setattr(class_, method, replacement(original))
        yield
    finally:
        for class_, method, original in undo:
            setattr(class_, method, original)
