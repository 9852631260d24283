"""The amounts that the pods of each priority have on each node, for all nodes at once.

One table has what is Reserved: it shows up to which priority pods would have to leave a node. Another has what is held for
nominees: it shows how much of that a pod of higher priority ignores. Both follow the reservations and holds, so a question
costs some numpy operations for each priority, however many pods there are. The answer for a preemptor is only a bound: the
caller checks which of the pods may be evicted.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from slackwater.model.columns import Int64, Rows, vertical
from slackwater.model.ids import Row
from slackwater.model.resources import NOTHING, RESOURCES, Amounts, amounts_of

#: The level of a row without room even if all pods of lower priority left. It is above each priority.
NEVER: Final = np.iinfo(np.int64).max
_FIRST_CAPACITY: Final = 64


class PriorityShares:
    """What the pods of each priority have on each row: of Reserved in one table, of the room held for nominees in another."""

    def __init__(self) -> None:
        self._reserved: dict[int, Int64] = {}
        self._pods: dict[int, int] = {}

    def admit(self, row: Row, priority: int, amounts: Amounts) -> None:
        """Adds a pod's amounts on the row."""
        self._pods[priority] = self._pods.get(priority, 0) + 1
        self.change(row, priority, amounts)

    def release(self, row: Row, priority: int, amounts: Amounts) -> None:
        """Subtracts a pod's amounts that `admit` added."""
        self._pods[priority] -= 1
        self.change(row, priority, NOTHING.minus(amounts))
        if not self._pods[priority]:
            del self._pods[priority], self._reserved[priority]

    def change(self, row: Row, priority: int, difference: Amounts) -> None:
        """Adds `difference` to what the pods of the priority have on the row."""
        column = self._reserved.get(priority)
        if column is None or row >= column.shape[1]:
            column = self._reserved[priority] = _grown(column, row)
        for resource, amount in enumerate(difference):
            if amount:
                column[resource, row] += amount

    def on(self, row: Row) -> dict[int, Amounts]:
        """What the pods of each priority have on the row; priorities that have nothing there are left out."""
        known = ((priority, column) for priority, column in self._reserved.items() if row < column.shape[1])
        return {priority: amounts_of(column[:, row].tolist()) for priority, column in known if column[:, row].any()}

    def restate(self, row: Row, by_priority: Mapping[int, Amounts]) -> None:
        """Sets the amounts on the row to values that an audit computed again."""
        for priority in {*self._reserved, *by_priority}:
            column = self._reserved.get(priority)
            if column is None or row >= column.shape[1]:
                if priority not in by_priority:
                    continue
                column = self._reserved[priority] = _grown(column, row)
            column[:, row] = by_priority.get(priority, NOTHING)

    def levels(self, wanted: Amounts, free: Int64, rows: Rows, *, below: int) -> Int64:
        """For each row the lowest priority such that `wanted` fits if the pods of that priority and all lower ones leave.

        The shape is (len(rows),); `NEVER` if no priority lower than `below` is enough. `free` has shape (resources, len(rows))
        and may be negative. If no budget is violated, the level is also the highest priority among the victims that remain
        after kube-scheduler's reprieve pass.
        """
        needed = vertical(wanted)
        room, found = free.copy(), np.full(len(rows), NEVER, np.int64)
        for priority in sorted(priority for priority in self._reserved if priority < below):
            column = self._reserved[priority]
            known = rows < column.shape[1]
            room[:, known] += column[:, rows[known]]
            fits = ((needed <= room) | (needed == 0)).all(axis=0)
            found[fits & (found == NEVER)] = priority
        return found

    def total(self, n_rows: int) -> Int64:
        """What the pods of all priorities together have on each row (Reserved, or room held for nominees), by resource; shape
        (resources, n_rows)."""
        return self._sum(self._reserved, n_rows)

    def below(self, priority: int, n_rows: int) -> Int64 | None:
        """What the pods of all priorities below `priority` together have on each row, as in `total`; shape (resources, n_rows).
        None if there are no such pods."""
        lower = [each for each in self._reserved if each < priority]
        return self._sum(lower, n_rows) if lower else None

    def _sum(self, priorities: Iterable[int], n_rows: int) -> Int64:
        total = np.zeros((len(RESOURCES), n_rows), np.int64)
        for priority in priorities:
            column = self._reserved[priority]
            known = min(n_rows, column.shape[1])
            total[:, :known] += column[:, :known]
        return total


def _grown(column: Int64 | None, row: Row) -> Int64:
    grown = np.zeros((len(RESOURCES), max(_FIRST_CAPACITY, 2 * (row + 1))), np.int64)
    if column is not None:
        grown[:, : column.shape[1]] = column
    return grown
