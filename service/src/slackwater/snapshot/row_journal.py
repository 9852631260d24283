"""A journal of changed rows, and helpers for the rows that a predicate judges.

- `RowJournal`: lists changed rows, so that a cached answer is renewed for these rows alone.
- `n_selected`, `coded`: for a selection of rows, which is either a slice of all rows (nothing is copied), or an array
  of row numbers.
"""

from typing import Final

import numpy as np

from slackwater.model.columns import Codes, Mask, Rows
from slackwater.model.reasons import Reason

_KEPT: Final = 65_536


class RowJournal:
    """An append-only list of changed rows, with a position that only grows.

    A reader keeps the position up to which it has read. Old entries are forgotten. A reader that is too far behind, or would
    have to renew most rows anyway, gets None and renews all rows.
    """

    __slots__ = ("_forgotten", "_rows")

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._forgotten = 0

    @property
    def position(self) -> int:
        return self._forgotten + len(self._rows)

    def note(self, row: int) -> None:
        self._rows.append(row)
        if len(self._rows) > 2 * _KEPT:
            self._forget(len(self._rows) - _KEPT)

    def note_all(self, rows: Rows) -> None:
        if len(rows) > _KEPT:
            self._forgotten += len(self._rows) + len(rows)
            self._rows.clear()
            return
        self._rows.extend(rows.tolist())
        if len(self._rows) > 2 * _KEPT:
            self._forget(len(self._rows) - _KEPT)

    def since(self, position: int, *, at_most: int) -> Rows | None:
        """The distinct rows that changed after `position`, sorted. None if those entries are forgotten, or are more than
        `at_most`."""
        start = position - self._forgotten
        if start < 0 or len(self._rows) - start > at_most:
            return None
        # Mostly there are few entries: a set is quicker than sorting an array.
        return np.array(sorted(set(self._rows[start:])), np.intp)

    def _forget(self, count: int) -> None:
        del self._rows[:count]
        self._forgotten += count


Selection = slice | Rows


def n_selected(rows: Selection) -> int:
    return int(rows.stop - rows.start) if isinstance(rows, slice) else len(rows)


def coded(rejected: Mask, reason: Reason) -> Codes:
    """The codes of the judged rows: the reason for rejected rows, OK for the others."""
    return rejected.astype(np.uint8) * np.uint8(reason)
