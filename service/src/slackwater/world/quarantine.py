"""Nodes whose books are in doubt: nothing new is placed there until an audit has found them in order.

What is on such a node stays, and agents there are answered as ever; every other node goes on. Deliberately absent: who doubts
a node, and who clears it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from slackwater.model.columns import Rows
from slackwater.model.ids import Instant, NodeName
from slackwater.world.nodes import NodeTable


@dataclass(frozen=True, slots=True)
class Quarantined:
    """`why` is what was found there, in words."""

    why: str
    since: Instant


class Quarantine:
    """By node name."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._quarantined: dict[NodeName, Quarantined] = {}
        #: Their rows; a few at most.
        self.rows: Rows = np.zeros(0, np.intp)

    def put(self, name: NodeName, why: str, now: Instant) -> bool:
        """From now on, or with another reason; False where it was there already or is no node that is known."""
        if name not in self._nodes.row_of:
            return False
        known = self._quarantined.get(name)
        self._quarantined[name] = Quarantined(why, now if known is None else known.since)
        if known is None:
            self._changed(name)
        return known is None

    def lift(self, name: NodeName) -> bool:
        """False where it was not there."""
        if self._quarantined.pop(name, None) is None:
            return False
        self._changed(name)
        return True

    def _changed(self, name: NodeName) -> None:
        self.rows = np.array([self._nodes.row_of[each] for each in self._quarantined], np.intp)
        self._nodes.rules_changed(name)

    def __contains__(self, name: object) -> bool:
        return name in self._quarantined

    def items(self) -> Iterator[tuple[NodeName, Quarantined]]:
        return iter(self._quarantined.items())

    def __len__(self) -> int:
        return len(self._quarantined)
