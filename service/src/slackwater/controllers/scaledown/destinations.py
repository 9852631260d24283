"""Destinations: the order in which rows are tried for pods that have to move.

The node list has the candidates first, in the order in which they are tried, then the nodes that stay. Pods go to the far end
of the list first: to nodes that stay, and only then to the candidates that would be tried last. Among the nodes that stay a
cyclic pointer remembers where the last pod went; the next search begins there and reaches the nodes it has filled last. Among
candidates there is no pointer: each that becomes a destination is lost as a candidate, so the free room of one is filled first.
"""

import numpy as np

from slackwater.model.columns import Rows
from slackwater.model.ids import Row


class Destinations:
    """The order of destinations. `staying` and `candidates` are in the order of the node list."""

    def __init__(self, *, staying: Rows, candidates: Rows) -> None:
        self._ring: Rows = staying[::-1].copy()
        self._last: Rows = candidates[::-1].copy()
        self._place = {int(row): at for at, row in enumerate(self._ring.tolist())}
        self._pointer = 0

    def rows(self) -> Rows:
        """The rows in the order of the next search."""
        return np.concatenate([self._ring[self._pointer :], self._ring[: self._pointer], self._last])

    def went_to(self, row: Row) -> None:
        """Notes where the last pod went: the next search begins there, if that node stays."""
        self._pointer = self._place.get(row, self._pointer)
