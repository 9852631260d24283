"""The ledger: what is reserved and held on each node (neondatabase/autoscaling v0.36.1, pkg/plugin/trans.go).

- `Ledger`: Total, Watermark, Reserved, Buffer, CapacityPressure, PressureAccountedFor and holds of all rows.
- `PriorityShares`: what the pods of each priority have of that on each row.
- `too_much_pressure`: whether a node has more pressure than its running migrations will relieve.

Invariant: each addition has a counterpart that subtracts exactly the same amounts, and Reserved is the sum of the shares by
priority. `cluster.reservations` and `cluster.holds` alone add and subtract; an audit alone may set a sum (`restate`). Reserved
and held may together exceed Total, by binds of other schedulers or after a node has shrunk, so what is free may be negative.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from slackwater.model.columns import Int64, NodeColumns, Rows
from slackwater.model.ids import PPM, Ppm, Row
from slackwater.model.pod_resources import PodResources
from slackwater.model.resources import CPU, MEMORY, NOTHING, RESOURCES, Amounts, amounts_of
from slackwater_protocol.units import Bytes, MilliCpu


class NodeAccount(NamedTuple):
    """The six numbers of one node's accounting (the names are Neon's), and what is held on the node; milliCPU and bytes."""

    total: Amounts
    watermark: Amounts
    reserved: Amounts
    buffer: Amounts
    capacity_pressure: Amounts
    pressure_accounted_for: Amounts
    held: Amounts


def too_much_pressure(node: NodeAccount, *, weight_ppm: int = PPM) -> bool:
    """Whether the CPU or memory of a node has more pressure than its running migrations will relieve.

    The pressure is what is Reserved above the Watermark, plus weighted CapacityPressure. It is too much if it exceeds
    PressureAccountedFor plus Buffer plus the room below the Watermark. While neither resource is above its Watermark, it never
    is. (0.36.1 compares with the Watermark by `<=` for CPU and by `<` for memory; we use `<=` for both.)
    """
    if node.reserved.within(node.watermark):
        return False
    return any(_too_much(node, r, weight_ppm) for r in range(len(RESOURCES)))


def _too_much(node: NodeAccount, r: int, weight_ppm: int) -> bool:
    above = node.reserved[r] - node.watermark[r]
    slack = node.buffer[r] + max(-above, 0)
    denied = weighted(node.capacity_pressure[r], weight_ppm)
    return max(above, 0) + denied > node.pressure_accounted_for[r] + slack


def weighted(capacity_pressure: int, weight_ppm: int) -> int:
    """CapacityPressure times a weight in millionths, rounded up, so that pressure above 0 never becomes 0."""
    return max(-(-capacity_pressure * weight_ppm // PPM), min(capacity_pressure, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """The share of Total above which live migration starts."""

    cpu: Ppm
    memory: Ppm


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePolicy:
    """The settings by which a node's numbers follow from what the node reports.

    `system` is subtracted from the allocatable of each
    node.
    """

    watermark: Watermark
    system: Amounts


def totals_of(allocatable: Amounts, policy: NodePolicy) -> tuple[Amounts, Amounts]:
    """Total and Watermark of a node that reports this allocatable."""
    total = allocatable.minus(policy.system).not_below_zero()
    cpu, memory = policy.watermark.cpu, policy.watermark.memory
    return total, Amounts(MilliCpu(total.cpu * cpu // PPM), Bytes(total.memory * memory // PPM))


class Ledger:
    """Changes the accounting columns of nodes. Each addition has a counterpart that subtracts exactly the same amounts."""

    __slots__ = ("columns",)

    def __init__(self) -> None:
        self.columns = NodeColumns()

    def open_row(self, row: Row, allocatable: Amounts, policy: NodePolicy) -> None:
        """Starts or updates a node: sets Total and Watermark from what the node reports. Reserved amounts and holds stay."""
        self.columns.grow_to(row + 1)
        total, watermark = totals_of(allocatable, policy)
        self.columns.total[:, row] = total
        self.columns.watermark[:, row] = watermark

    def admit(self, row: Row, pod_resources: PodResources) -> None:
        """Adds a pod's resources to the node. Never refuses: the caller has already decided."""
        self._add(row, pod_resources, 1)

    def release(self, row: Row, pod_resources: PodResources) -> None:
        """Subtracts a pod's resources from the node: the counterpart of `admit`."""
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
        """Sets the node's sums to values that an audit computed again; only audits call this. `held` has shape (resources,)."""
        columns = self.columns
        columns.reserved[:, row] = reserved
        columns.buffer[:, row] = buffer
        columns.capacity_pressure[:, row] = capacity_pressure
        columns.pressure_accounted_for[:, row] = pressure_accounted_for
        columns.held[:, row] = held

    def numbers(self, row: Row) -> NodeAccount:
        """The six numbers of the node, and what is held on it."""
        columns = self.columns
        return NodeAccount(
            _at(columns.total, row),
            _at(columns.watermark, row),
            _at(columns.reserved, row),
            _at(columns.buffer, row),
            _at(columns.capacity_pressure, row),
            _at(columns.pressure_accounted_for, row),
            _at(columns.held, row),
        )

    def room(self, row: Row) -> tuple[Amounts, Amounts]:
        """What is left of the node's Total, and by how much all reservations and holds exceed it; never below 0."""
        columns = self.columns
        total, taken = _at(columns.total, row), _at(columns.reserved, row).plus(_at(columns.held, row))
        return total.minus(taken).not_below_zero(), taken.minus(total).not_below_zero()

    def is_over(self, row: Row) -> bool:
        """Whether more is Reserved of some resource than the node's Total."""
        reserved, total = self.columns.reserved.item, self.columns.total.item
        return reserved(CPU, row) > total(CPU, row) or reserved(MEMORY, row) > total(MEMORY, row)

    def hold(self, row: Row, amounts: Amounts, sign: int = 1) -> None:
        """Holds the amounts on the row; with `sign` -1 releases them."""
        for resource in (CPU, MEMORY):
            if amounts[resource]:
                self.columns.held[resource][row] += sign * amounts[resource]


def _at(column: Int64, row: Row) -> Amounts:
    return Amounts(MilliCpu(column.item(CPU, row)), Bytes(column.item(MEMORY, row)))


#: The level of a row without room even if all pods of lower priority left. It is above each priority.
NEVER: Final = np.iinfo(np.int64).max
_FIRST_CAPACITY: Final = 64


class PriorityShares:
    """What the pods of each priority have on each row: of Reserved in one table, of the room held for nominees in another.

    The first shows up to which priority pods would have to leave a node, the second how much room a pod of higher priority
    ignores. Both follow the reservations and holds, so a question costs some numpy operations for each priority, however many
    pods there are. The answer for a preemptor is only a bound: the caller checks which of the pods may be evicted.
    """

    def __init__(self) -> None:
        self._reserved: dict[int, Int64] = {}
        self._pods: dict[int, int] = {}

    def add(self, row: Row, priority: int, amounts: Amounts, pods: int = 0) -> None:
        """Adds the amounts, which may be negative, to what the pods of the priority have on the row. `pods`: how many pods more
        these are."""
        column = self._reserved.get(priority)
        if column is None or row >= column.shape[1]:
            column = self._reserved[priority] = _grown(column, row)
        for resource, amount in enumerate(amounts):
            if amount:
                column[resource, row] += amount
        if pods:
            self._pods[priority] = self._pods.get(priority, 0) + pods
            if not self._pods[priority]:
                del self._pods[priority], self._reserved[priority]

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
        needed = wanted.column
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
