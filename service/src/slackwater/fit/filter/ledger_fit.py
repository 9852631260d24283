"""Does a pod fit beside what is Reserved and held? Our own accounting as a predicate, for many rows at once."""

import numpy as np

from slackwater.model.columns import Codes, Int64, NodeColumns, Rows
from slackwater.model.reasons import Reason
from slackwater.model.resources import CPU, MEMORY, Amounts

#: How badly a resource lacks: not at all, it is there but held, the node is full now, the pod is larger than the node.
_OF_CPU = (Reason.OK, Reason.HELD_FOR_OTHERS, Reason.NOT_ENOUGH_CPU, Reason.CPU_ABOVE_TOTAL)
_OF_MEMORY = (Reason.OK, Reason.HELD_FOR_OTHERS, Reason.NOT_ENOUGH_MEMORY, Reason.MEMORY_ABOVE_TOTAL)
_N_LEVELS = len(_OF_CPU)
#: The code of both, by level of CPU and of memory: the worse one is named, of two equal ones CPU.
_CODES = np.array(
    [cpu if level >= other else memory for level, cpu in enumerate(_OF_CPU) for other, memory in enumerate(_OF_MEMORY)],
    np.uint8,
)
#: Judging all rows and choosing among the verdicts is cheaper than choosing rows first, down to so small a share of them.
_FEW = 8


def judge_ledger(wanted: Amounts, columns: NodeColumns, rows: Rows) -> Codes:
    """A reason for each of `rows`, shape (len(rows),).

    Equal is within. A resource of which the pod asks nothing is not judged, as in kube-scheduler's NodeResourcesFit.
    HELD_FOR_OTHERS where the room is there but held; full in two resources: the first of `RESOURCES` is named, and
    "larger than the node" before "full now".
    """
    if len(rows) == 1 and fits_on(wanted, columns, int(rows[0])):
        return np.zeros(1, np.uint8)
    few = len(rows) * _FEW < columns.total.shape[1]
    total, reserved, held = (
        column.take(rows, axis=1) if few else column for column in (columns.total, columns.reserved, columns.held)
    )
    free = total - reserved
    if few and _fits_all(wanted, free - held):
        return np.zeros(len(rows), np.uint8)
    cpu, memory = (_levels(wanted[r], total[r], free[r], held[r]) for r in (CPU, MEMORY))
    codes: Codes = _CODES[cpu * np.uint8(_N_LEVELS) + memory]
    return codes if few else codes[rows]


def fits_on(wanted: Amounts, columns: NodeColumns, row: int) -> bool:
    """The same of one row, in numbers of Python: for one of them that is a fifth of the work."""
    total, reserved, held = columns.total.item, columns.reserved.item, columns.held.item
    return all(not want or total(r, row) - reserved(r, row) - held(r, row) >= want for r, want in enumerate(wanted))


def _fits_all(wanted: Amounts, left: Int64) -> bool:
    """Is there room on every row? Mostly, where kube-scheduler asks: then nothing has to be distinguished."""
    return all(not want or bool((line >= want).all()) for want, line in zip(wanted, left, strict=True))


def _levels(want: int, total: Int64, free: Int64, held: Int64) -> Codes:
    """How badly the resource lacks on each row. Each test implies the one before it, since nothing is below zero."""
    if not want:
        return np.zeros(len(total), np.uint8)
    levels: Codes = (free - held < want).astype(np.uint8)
    if levels.any():
        levels += free < want
        levels += total < want
    return levels
