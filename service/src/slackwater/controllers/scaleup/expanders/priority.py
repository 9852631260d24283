"""Expander `priority`: prefers options whose groups the user ranks highest, in the format of Cluster Autoscaler's ConfigMap.

A priority is a whole number with a list of regular expressions. A group has the highest priority of which an expression matches
anywhere in the group's name. Groups without a match come after all others. If no group has a match, or nothing is configured,
all options are equal.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from slackwater.controllers.scaleup.estimate import Option
from slackwater.model.nodegroups import GroupName


class BadPriorities(ValueError):
    """The configured priorities cannot be read. The message says where the error is, what was found and what is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Priorities:
    """The configured priorities. `ranks`: each priority with its expressions, the highest first."""

    ranks: tuple[tuple[int, tuple[re.Pattern[str], ...]], ...] = ()

    def of(self, group: GroupName) -> int | None:
        """The group's priority; None if no expression matches its name."""
        return next((rank for rank, patterns in self.ranks if any(each.search(group) for each in patterns)), None)


NO_PRIORITIES: Final = Priorities()


def read_priorities(document: object) -> Priorities:
    """Reads the parsed YAML of the ConfigMap's key `priorities`: a map of numbers to lists of expressions.

    Raises BadPriorities.
    """
    if not isinstance(document, Mapping):
        raise BadPriorities(f"priorities: got {document!r:.80}, want a map of numbers to lists of expressions")
    ranks = []
    for rank, expressions in document.items():
        if isinstance(rank, bool) or not isinstance(rank, int):
            raise BadPriorities(f"priorities: got key {rank!r:.80}, want a whole number")
        if isinstance(expressions, str) or not isinstance(expressions, Sequence):
            raise BadPriorities(f"priorities[{rank}]: got {expressions!r:.80}, want a list of expressions")
        ranks.append((rank, tuple(_compiled(rank, expressions))))
    return Priorities(ranks=tuple(sorted(ranks, key=lambda each: -each[0])))


def _compiled(rank: int, expressions: Iterable[object]) -> Iterable[re.Pattern[str]]:
    for expression in expressions:
        if not isinstance(expression, str):
            raise BadPriorities(f"priorities[{rank}]: got {expression!r:.80}, want an expression")
        try:
            yield re.compile(expression.replace(r"\z", r"\Z"))  # the one escape that Go spells differently
        except (re.error, RecursionError, OverflowError) as err:
            raise BadPriorities(f"priorities[{rank}]: {expression!r:.80}: {err}") from err


def rank(option: Option, priorities: Priorities) -> tuple[bool, int]:
    """The measure of an option by its groups' priority, which is the same for all groups of a bundle. An option without a
    priority comes last."""
    found = priorities.of(option.names[0])
    return found is None, -(found or 0)
