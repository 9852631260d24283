"""The ledger: Total, Watermark, Reserved, Buffer, CapacityPressure, PressureAccountedFor and holds, for each node row."""

from dataclasses import dataclass
from typing import Final

from slackwater.model.columns import Int64, NodeColumns, Rows
from slackwater.model.ids import Row
from slackwater.model.ledger.account import PodResources
from slackwater.model.ledger.pressure import NodeNumbers
from slackwater.model.resources import CPU, MEMORY, NOTHING, Amounts
from slackwater_protocol.units import Bytes, MilliCpu

_PPM: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePolicy:
    """The settings that derive a node's numbers from what it reports.

    Watermarks are parts per million of Total, so that the column is exact. `system` is set aside from Total on each node.
    """

    watermark_cpu_ppm: int = 900_000
    watermark_memory_ppm: int = 900_000
    system: Amounts = NOTHING


def totals_of(allocatable: Amounts, policy: NodePolicy) -> tuple[Amounts, Amounts]:
    """Total and Watermark of a node."""
    total = allocatable.minus(policy.system).not_below_zero()
    cpu, memory = policy.watermark_cpu_ppm, policy.watermark_memory_ppm
    return total, Amounts(MilliCpu(total.cpu * cpu // _PPM), Bytes(total.memory * memory // _PPM))


class Ledger:
    """The transitions of the columns. What one call adds, its counterpart takes back to the unit."""

    __slots__ = ("columns",)

    def __init__(self) -> None:
        self.columns = NodeColumns()

    def open_row(self, row: Row, allocatable: Amounts, policy: NodePolicy) -> None:
        """Starts or updates a node: sets Total and Watermark from what it reports. Reserved amounts and holds stay."""
        self.columns.grow_to(row + 1)
        total, watermark = totals_of(allocatable, policy)
        self.columns.total[:, row] = total
        self.columns.watermark[:, row] = watermark

    def close_row(self, row: Row) -> None:
        """Ends a node: the row is all zero afterwards, whatever was reserved or held on it."""
        self.columns.clear(row)

    def admit(self, row: Row, pod_resources: PodResources) -> None:
        """Adds a pod's resources to the node. Never refuses: the caller has decided before."""
        self._add(row, pod_resources, 1)

    def release(self, row: Row, pod_resources: PodResources) -> None:
        """Takes a pod's resources off the node: the counterpart of `admit`."""
        self._add(row, pod_resources, -1)

    def _add(self, row: Row, pod_resources: PodResources, sign: int) -> None:
        columns = self.columns
        for column, amounts in (
            (columns.reserved, pod_resources.reserved),
            (columns.buffer, pod_resources.buffer),
            (columns.capacity_pressure, pod_resources.capacity_pressure),
            (columns.pressure_accounted_for, pod_resources.accounted_for),
        ):
            for resource, amount in enumerate(amounts):
                if amount:
                    column[resource, row] += sign * amount

    def change(self, row: Row, before: PodResources, after: PodResources) -> None:
        """Replaces the resources of a pod that counts on the node."""
        columns = self.columns
        for column, old, new in (
            (columns.reserved, before.reserved, after.reserved),
            (columns.buffer, before.buffer, after.buffer),
            (columns.capacity_pressure, before.capacity_pressure, after.capacity_pressure),
            (columns.pressure_accounted_for, before.accounted_for, after.accounted_for),
        ):
            for resource in (CPU, MEMORY):
                if new[resource] != old[resource]:
                    column[resource, row] += new[resource] - old[resource]

    def restate(
        self,
        row: Row,
        *,
        reserved: Amounts,
        buffer: Amounts,
        capacity_pressure: Amounts,
        pressure_accounted_for: Amounts,
        held: Int64,
    ) -> None:
        """Sets the node's sums to values that were computed again; only audits do this. `held` has shape (resources,)."""
        columns = self.columns
        columns.reserved[:, row] = reserved
        columns.buffer[:, row] = buffer
        columns.capacity_pressure[:, row] = capacity_pressure
        columns.pressure_accounted_for[:, row] = pressure_accounted_for
        columns.held[:, row] = held

    def numbers(self, row: Row) -> NodeNumbers:
        """The six numbers of the node, and what is held there."""
        columns = self.columns
        return NodeNumbers(
            _at(columns.total, row),
            _at(columns.watermark, row),
            _at(columns.reserved, row),
            _at(columns.buffer, row),
            _at(columns.capacity_pressure, row),
            _at(columns.pressure_accounted_for, row),
            _at(columns.held, row),
        )

    def room(self, row: Row) -> tuple[Amounts, Amounts]:
        """The node's `free` and `over`: an agent's request needs these two numbers only."""
        columns = self.columns
        total, promised = _at(columns.total, row), _at(columns.reserved, row).plus(_at(columns.held, row))
        return total.minus(promised).not_below_zero(), promised.minus(total).not_below_zero()

    def hold(self, rows: Rows, amounts: Amounts) -> None:
        """Holds the amounts on each of the rows for one pod (rows: distinct)."""
        self._hold(rows, amounts, 1)

    def unhold(self, rows: Rows, amounts: Amounts) -> None:
        """Releases amounts that `hold` held."""
        self._hold(rows, amounts, -1)

    def hold_all(self, amounts: Int64) -> None:
        """Adds to what is held on every row; shape (resources, n_rows). Its counterpart is the same call with the sign
        changed."""
        self.columns.held[:, : amounts.shape[1]] += amounts

    def _hold(self, rows: Rows, amounts: Amounts, sign: int) -> None:
        # numpy adds to chosen rows of one line in half the time that it needs for rows of the whole table. A single row,
        # addressed by its number, takes a tenth.
        which: int | Rows = int(rows[0]) if len(rows) == 1 else rows
        for resource in (CPU, MEMORY):
            if amounts[resource]:
                self.columns.held[resource][which] += sign * amounts[resource]


def _at(column: Int64, row: Row) -> Amounts:
    return Amounts(MilliCpu(column.item(CPU, row)), Bytes(column.item(MEMORY, row)))
