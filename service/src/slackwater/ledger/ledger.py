"""The ledger: Total, Watermark, Reserved, Buffer, CapacityPressure, PressureAccountedFor and holds, for each node row."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.model.columns import NodeColumns
from slackwater.model.ids import Row
from slackwater.model.resources import CPU, MEMORY, NOTHING, Amounts

_PPM: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePolicy:
    """How a node's numbers follow from what it reports.

    Watermarks are parts per million of Total, so that the column is exact. `system` is set aside from Total on each node.
    """

    watermark_cpu_ppm: int = 900_000
    watermark_memory_ppm: int = 900_000
    system: Amounts = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What one pod counts for on its node. `buffer` <= `reserved`; ordinary pods have min = max = reserved."""

    reserved: Amounts
    buffer: Amounts = NOTHING
    capacity_pressure: Amounts = NOTHING
    min: Amounts = NOTHING
    max: Amounts = NOTHING


def ordinary_account(requests: Amounts) -> Account:
    """An ordinary pod counts by its requests, no more and no less (reference/neon-scheduler.md section 2.3)."""
    return Account(reserved=requests, min=requests, max=requests)


class Ledger:
    """The transitions. Every amount that is added by one call is taken back, to the unit, by its counterpart."""

    __slots__ = ("columns",)

    def __init__(self) -> None:
        self.columns = NodeColumns()

    def open_row(self, row: Row, allocatable: Amounts, policy: NodePolicy) -> None:
        """Starts or updates a node: Total and Watermark follow what it reports; promises on it stay as they are."""
        self.columns.grow_to(row + 1)
        for resource, (amount, system, ppm) in enumerate(
            zip(allocatable, policy.system, (policy.watermark_cpu_ppm, policy.watermark_memory_ppm), strict=True)
        ):
            total = max(amount - system, 0)
            self.columns.total[resource, row] = total
            self.columns.watermark[resource, row] = total * ppm // _PPM

    def close_row(self, row: Row) -> None:
        """Ends a node: the row is all zero afterwards, whatever was promised on it."""
        self.columns.clear(row)

    def admit(self, row: Row, account: Account) -> None:
        """A pod starts to count on the node. Never refused: whether it may is decided before."""
        self._add(row, account, 1)

    def release(self, row: Row, account: Account) -> None:
        """A pod stops to count on the node: the counterpart of `admit`."""
        self._add(row, account, -1)

    def _add(self, row: Row, account: Account, sign: int) -> None:
        columns = self.columns
        for resource in (CPU, MEMORY):
            columns.reserved[resource, row] += sign * account.reserved[resource]
            if account.buffer[resource]:
                columns.buffer[resource, row] += sign * account.buffer[resource]
            if account.capacity_pressure[resource]:
                columns.capacity_pressure[resource, row] += sign * account.capacity_pressure[resource]

    def hold(self, rows: "np.typing.NDArray[np.intp]", amounts: Amounts) -> None:
        """Keeps room on each of the rows for one pod (rows: distinct)."""
        for resource in (CPU, MEMORY):
            if amounts[resource]:
                self.columns.held[resource, rows] += amounts[resource]

    def unhold(self, rows: "np.typing.NDArray[np.intp]", amounts: Amounts) -> None:
        """The counterpart of `hold`."""
        for resource in (CPU, MEMORY):
            if amounts[resource]:
                self.columns.held[resource, rows] -= amounts[resource]

    def fits(self, row: Row, amounts: Amounts) -> bool:
        """Would the amounts fit on the row beside what is Reserved and held there? (the row-by-row form of the predicate)"""
        columns = self.columns
        return all(
            amount == 0 or columns.reserved[r, row] + columns.held[r, row] + amount <= columns.total[r, row]
            for r, amount in enumerate(amounts)
        )
