"""A journal of changed rows, and helpers for the rows that a predicate judges.

- `RowJournal`: lists changed rows, so that a cached answer is renewed for these rows alone.
- `n_selected`, `coded`: for a selection of rows, which is either a slice of all rows (nothing is copied), or an array
  of row numbers.
"""

from typing import Final

import numpy as np

from slackwater.model.columns import Codes, Mask, Rows
from slackwater.model.reasons import Reason

#: No reader wants more changes than there are rows. So a journal keeps as many, within these bounds; up to twice as many
#: between two times that it forgets some.
_LEAST: Final = 1_024
_MOST: Final = 65_536


class RowJournal:
    """An append-only list of changed rows, with a position that only grows.

    A reader keeps the position up to which it has read. Old entries are forgotten. A reader that is too far behind, or would
    have to renew most rows anyway, gets None and renews all rows.
    """

    __slots__ = ("_forgotten", "_kept", "_rows")

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._forgotten = 0
        self._kept = _LEAST

    @property
    def position(self) -> int:
        return self._forgotten + len(self._rows)

    def note(self, row: int) -> None:
        self._rows.append(row)
        if len(self._rows) > 2 * self._kept:
            self._bound()

    def note_all(self, rows: Rows) -> None:
        if len(rows) > _MOST:
            self._forgotten += len(self._rows) + len(rows)
            self._rows.clear()
            return
        self._rows.extend(rows.tolist())
        if len(self._rows) > 2 * self._kept:
            self._bound()

    def since(self, position: int, *, at_most: int) -> Rows | None:
        """The distinct rows that changed after `position`, sorted. None if those entries are forgotten, or are more than
        `at_most`."""
        start = position - self._forgotten
        if start < 0 or len(self._rows) - start > at_most:
            return None
        # Mostly there are few entries: a set is quicker than sorting an array.
        return np.array(sorted(set(self._rows[start:])), np.intp)

    def _bound(self) -> None:
        self._kept = min(max(self._kept, max(self._rows) + 1), _MOST)
        if len(self._rows) > 2 * self._kept:
            count = len(self._rows) - self._kept
            del self._rows[:count]
            self._forgotten += count


Selection = slice | Rows


def n_selected(rows: Selection) -> int:
    return int(rows.stop - rows.start) if isinstance(rows, slice) else len(rows)


def coded(rejected: Mask, reason: Reason) -> Codes:
    """The codes of the judged rows: the reason for rejected rows, OK for the others."""
    return rejected.astype(np.uint8) * np.uint8(reason)
