"""Our own accounting as a predicate, for many rows at once: whether a pod fits into Total beside what is Reserved and held."""

from collections.abc import Hashable
from typing import Final

import numpy as np

from slackwater.fit.plugins import Predicate
from slackwater.model.columns import Codes, Int64, NodeColumns, Rows
from slackwater.model.pod_constraints import Kind
from slackwater.model.reasons import Reason
from slackwater.model.resources import CPU, MEMORY, Amounts
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.row_journal import Selection

#: The reason for each level of shortage: none, the room exists but is held, the node is full now, the pod is larger than the
#: node.
_OF_CPU = (Reason.OK, Reason.HELD_FOR_OTHERS, Reason.NOT_ENOUGH_CPU, Reason.CPU_ABOVE_TOTAL)
_OF_MEMORY = (Reason.OK, Reason.HELD_FOR_OTHERS, Reason.NOT_ENOUGH_MEMORY, Reason.MEMORY_ABOVE_TOTAL)
_N_LEVELS = len(_OF_CPU)
#: The code for each pair of levels of CPU and memory: that of the higher level, CPU's if they are equal.
_CODES = np.array(
    [cpu if level >= other else memory for level, cpu in enumerate(_OF_CPU) for other, memory in enumerate(_OF_MEMORY)],
    np.uint8,
)
#: If fewer than 1/8 of the rows are asked for, selecting these rows first is cheaper than judging all rows and selecting
#: verdicts.
_FEW = 8
#: As `ClusterSnapshot.strict_for`: the pods of every scheduler have to state their requests.
EVERY_SCHEDULER: Final = "*"


def lacks_request(snapshot: ClusterSnapshot, kind: Kind) -> bool:
    """Whether our filter refuses the pods of the group on every node, because a container lacks a request."""
    return kind.missing_request is not None and snapshot.strict_for in (EVERY_SCHEDULER, kind.scheduler_name)


def judge_ledger(wanted: Amounts, columns: NodeColumns, rows: Rows) -> Codes:
    """Judges each of `rows`: returns reasons, shape (len(rows),).

    A request that equals the free room fits. A resource that the pod does not request is not judged, as in kube-scheduler's
    NodeResourcesFit. HELD_FOR_OTHERS means that the room exists but is held. If both resources are short, the reason is that of
    the worse shortage ("larger than the node" is worse than "full now"); for equal ones it is the first of `RESOURCES`.
    """
    if len(rows) == 1 and fits_on(wanted, columns, int(rows[0])):
        return np.zeros(1, np.uint8)
    few = len(rows) * _FEW < columns.total.shape[1]
    total, reserved, held = (
        column.take(rows, axis=1) if few else column for column in (columns.total, columns.reserved, columns.held)
    )
    free = total - reserved
    # The usual case when kube-scheduler asks: there is room on every row, so no reasons have to be found.
    if few and all(not want or bool((line >= want).all()) for want, line in zip(wanted, free - held, strict=True)):
        return np.zeros(len(rows), np.uint8)
    cpu, memory = (_levels(wanted[r], total[r], free[r], held[r]) for r in (CPU, MEMORY))
    codes: Codes = _CODES[cpu * np.uint8(_N_LEVELS) + memory]
    return codes if few else codes[rows]


def fits_on(wanted: Amounts, columns: NodeColumns, row: int) -> bool:
    """Whether the pod fits on one row, computed with Python's integers, which takes a fifth of the time of `judge_ledger`."""
    total, reserved, held = columns.total.item, columns.reserved.item, columns.held.item
    for resource, want in enumerate(wanted):
        if want and total(resource, row) - reserved(resource, row) - held(resource, row) < want:
            return False
    return True


def _levels(want: int, total: Int64, free: Int64, held: Int64) -> Codes:
    """The level of shortage on each row, 0 to 3 (the indexes of `_OF_CPU`). Each test implies the one before it, since no
    amount is below zero."""
    if not want:
        return np.zeros(len(total), np.uint8)
    levels: Codes = (free - held < want).astype(np.uint8)
    if levels.any():
        levels += free < want
        levels += total < want
    return levels


def _part(snapshot: ClusterSnapshot, kind: NumberedGroup) -> Hashable | None:
    if snapshot.ledger is None:
        return None
    return kind.kind.requests, lacks_request(snapshot, kind.kind), snapshot.yielding is not None and not kind.kind.preempts


def _judge(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Selection) -> Codes:
    if lacks_request(snapshot, kind.kind):
        return np.full(len(np.arange(snapshot.n_rows)[rows]), Reason.MISSING_REQUEST, np.uint8)
    ledger = snapshot.ledger_against(kind.kind)
    assert ledger is not None
    return judge_ledger(kind.kind.requests, ledger, np.arange(snapshot.n_rows)[rows])


LEDGER: Final = Predicate(name="Ledger", part=_part, judge=_judge, reads="room")
