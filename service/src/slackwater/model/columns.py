"""The accounting of all nodes as integer columns, so that all nodes are judged at once.

A column has shape (2, rows): the first axis has CPU in milliCPU and memory in bytes, in the order of `resources.RESOURCES`; the
second has the nodes. A node's row is given to a later node once the node is gone. A row without a node has Total 0, so no pod
ever fits there.
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from slackwater.model.reasons import Reason
from slackwater.model.resources import RESOURCES

Int64 = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
Codes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

_FIRST_CAPACITY: Final = 64
#: What a verdict is compared with to find where the pod is feasible: as a `Reason` it would take numpy three times as long.
OK: Final = np.uint8(Reason.OK)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the schema: its name and what its numbers mean."""

    name: str
    meaning: str


#: The accounting columns, each of shape (resources, rows) and int64. No value is below 0.
SCHEMA: Final = (
    Column("total", "what may be promised: allocatable less the system amounts"),
    Column("watermark", "share of total above which live migration starts; never limits placement"),
    Column("reserved", "promised to pods; may pass total on foreign binds or a shrunk node, never by our own doing"),
    Column("buffer", "part of reserved held only because an agent has not been heard yet"),
    Column("capacity_pressure", "growth that was asked for and denied"),
    Column("pressure_accounted_for", "pressure that running migrations will relieve"),
    Column("held", "short promises between decision and bind; not part of reserved"),
)


class NodeColumns:
    """The accounting columns of all nodes. The first `n_rows` rows are in use; the arrays may be longer."""

    __slots__ = (*(column.name for column in SCHEMA), "n_rows")

    total: Int64
    watermark: Int64
    reserved: Int64
    buffer: Int64
    capacity_pressure: Int64
    pressure_accounted_for: Int64
    held: Int64
    n_rows: int

    def __init__(self, n_rows: int = 0) -> None:
        self.n_rows = n_rows
        capacity = max(_FIRST_CAPACITY, n_rows)
        for column in SCHEMA:
            setattr(self, column.name, np.zeros((len(RESOURCES), capacity), np.int64))

    def grow_to(self, n_rows: int) -> None:
        """Makes rows 0..n_rows-1 exist; new ones are all zero."""
        capacity = self.total.shape[1]
        if n_rows > capacity:
            for column in SCHEMA:
                old = getattr(self, column.name)
                new = np.zeros((len(RESOURCES), max(n_rows, 2 * capacity)), np.int64)
                new[:, :capacity] = old
                setattr(self, column.name, new)
        self.n_rows = max(self.n_rows, n_rows)

    def unreserved(self, rows: Rows | int) -> Int64:
        """Total minus Reserved of the rows; negative where more than Total is reserved. Shape (resources, len(rows)), for a
        single row (resources,)."""
        free: Int64 = self.total.take(rows, axis=1) - self.reserved.take(rows, axis=1)
        return free

    def free(self, rows: Rows | int) -> Int64:
        """The room for new pods on the rows: Total minus Reserved minus what is held; may be negative. Shape as of
        `unreserved`."""
        return self.unreserved(rows) - self.held.take(rows, axis=1)

    def clear(self, row: int) -> None:
        for column in SCHEMA:
            getattr(self, column.name)[:, row] = 0

    def copy(self) -> Self:
        copy = type(self).__new__(type(self))
        copy.n_rows = self.n_rows
        for column in SCHEMA:
            setattr(copy, column.name, getattr(self, column.name)[:, : self.n_rows].copy())
        return copy

    def same_as(self, other: "NodeColumns") -> bool:
        return self.n_rows == other.n_rows and all(
            np.array_equal(getattr(self, c.name)[:, : self.n_rows], getattr(other, c.name)[:, : self.n_rows]) for c in SCHEMA
        )
