"""In which order rows are tried as destinations: from the far end of the node list, candidates last.

The list has the candidates first, in the order in which they are tried, and the nodes that stay behind them. Pods go to the far
end first, so to nodes that stay, and only then to the candidates that would be tried last. Among the nodes that stay a
cyclic pointer remembers where the last pod went: the next search begins there and comes round to the full ones at the end.
Among candidates there is none: each that becomes a destination is lost as a candidate, so the holes of one are filled first.
"""

import numpy as np

from slackwater.model.columns import Rows
from slackwater.model.ids import Row


class Destinations:
    """`staying` and `candidates` in the order of the list."""

    def __init__(self, *, staying: Rows, candidates: Rows) -> None:
        self._ring: Rows = staying[::-1].copy()
        self._last: Rows = candidates[::-1].copy()
        self._place = {int(row): at for at, row in enumerate(self._ring.tolist())}
        self._pointer = 0

    def rows(self) -> Rows:
        """The order of the next search."""
        return np.concatenate([self._ring[self._pointer :], self._ring[: self._pointer], self._last])

    def went_to(self, row: Row) -> None:
        """The last pod went there: the next search begins there, if the row stays."""
        self._pointer = self._place.get(row, self._pointer)
