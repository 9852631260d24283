"""Does a pod fit beside what is Reserved and held? Our own accounting as a predicate, for many rows at once."""

import numpy as np

from slackwater.model.columns import Codes, NodeColumns, Rows, vertical
from slackwater.model.reasons import Reason
from slackwater.model.resources import CPU, MEMORY, Amounts

#: For each resource: the code where the pod is larger than the node, and where the node is full now.
_CODES = (
    (CPU, int(Reason.CPU_ABOVE_TOTAL), int(Reason.NOT_ENOUGH_CPU)),
    (MEMORY, int(Reason.MEMORY_ABOVE_TOTAL), int(Reason.NOT_ENOUGH_MEMORY)),
)


def judge_ledger(wanted: Amounts, columns: NodeColumns, rows: Rows) -> Codes:
    """A reason for each of `rows`, shape (len(rows),).

    Equal is within. A resource of which the pod asks nothing is not judged, as in kube-scheduler's NodeResourcesFit.
    HELD_FOR_OTHERS where the room is there but held; full in two resources: the first of `RESOURCES` is named, and
    "larger than the node" before "full now".
    """
    codes = np.zeros(len(rows), np.uint8)
    asked = vertical(wanted)
    room = np.take(columns.total - columns.reserved - columns.held, rows, axis=1)
    lacking = (room < asked) & (asked > 0)
    at = np.flatnonzero(lacking.any(axis=0))
    if not len(at):
        return codes
    total, reserved = (np.take(column, rows[at], axis=1) for column in (columns.total, columns.reserved))
    found = np.zeros(len(at), np.uint8)
    for resource, above_total, full in _CODES:
        judged = np.where(lacking[resource][at], _HELD, _OK)
        judged[total[resource] - reserved[resource] < wanted[resource]] = full
        judged[total[resource] < wanted[resource]] = above_total
        found = _worse(found, judged) if wanted[resource] else found
    codes[at] = found
    return codes


_OK = np.uint8(Reason.OK)
_HELD = np.uint8(Reason.HELD_FOR_OTHERS)
_SEVERITY = np.zeros(len(Reason), np.uint8)
_SEVERITY[[Reason.HELD_FOR_OTHERS]] = 1
_SEVERITY[[Reason.NOT_ENOUGH_CPU, Reason.NOT_ENOUGH_MEMORY]] = 2
_SEVERITY[[Reason.CPU_ABOVE_TOTAL, Reason.MEMORY_ABOVE_TOTAL]] = 3


def _worse(first: Codes, second: Codes) -> Codes:
    return np.where(_SEVERITY[second] > _SEVERITY[first], second, first)
