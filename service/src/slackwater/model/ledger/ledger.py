"""The ledger: what is reserved and held on each node, and what each pod counts for (neondatabase/autoscaling v0.36.1,
pkg/plugin/trans.go).

- `Ledger`: Total, Watermark, Reserved, Buffer, CapacityPressure, PressureAccountedFor and holds of all rows.
- `PodResources`: what one pod counts for on its node; functions compute it when the pod begins to count there.
- `too_much_pressure`: whether a node has more pressure than its running migrations will relieve.

Invariant: each addition has a counterpart that subtracts exactly the same amounts.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from slackwater.model.columns import Int64, NodeColumns
from slackwater.model.ids import Ppm, Row
from slackwater.model.resources import CPU, MEMORY, NOTHING, RESOURCES, Amounts
from slackwater.model.vertical import Vertical
from slackwater_protocol.units import Bytes, MilliCpu

#: How many distinct requests of ordinary pods have a cached, shared `PodResources`.
_SIZES: Final = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResources:
    """What one pod counts for on its node.

    `buffer` is the part of `reserved` that is kept only because the pod's agent has not asked yet. `capacity_pressure` is
    growth that was denied. `accounted_for` is what the pod's running migration will relieve: its Reserved plus CapacityPressure
    when the migration started; nothing without a migration. Ordinary pods have min = max = reserved.
    """

    reserved: Amounts
    buffer: Amounts = NOTHING
    capacity_pressure: Amounts = NOTHING
    accounted_for: Amounts = NOTHING
    min: Amounts = NOTHING
    max: Amounts = NOTHING


@lru_cache(maxsize=_SIZES)
def ordinary_resources(requests: Amounts) -> PodResources:
    """The resources of an ordinary pod: its requests, exactly."""
    return PodResources(reserved=requests, min=requests, max=requests)


def certain_resources(pod: Vertical) -> PodResources:
    """The resources of a vertical pod that certainly uses no more than it shows: no scheduler has permitted it more, or it may
    not grow."""
    return PodResources(reserved=pod.using, min=pod.min, max=pod.max)


def resources_of_unknown_permit(pod: Vertical, *, most: Amounts | None = None) -> PodResources:
    """The resources of a vertical pod whose last permit is unknown: its agent may use up to Max without asking, so all of Max
    counts, but no more than `most`."""
    reserved = (pod.max if most is None else pod.max.at_most(most)).at_least(pod.using)
    return PodResources(reserved=reserved, buffer=reserved.minus(pod.using), min=pod.min, max=pod.max)


def restored_resources(pod: Vertical, *, permit: Amounts, permit_limit: Amounts, most: Amounts | None = None) -> PodResources:
    """The resources of a vertical pod after a restart, computed from its permit annotation. Whoever may change the pod can
    write that, so what is above `most` does not count.

    The agent was permitted `permit` when the annotation was written, and at most `permit_limit` since. Use beyond
    `permit_limit` counts too, as Buffer: the pod may still show an amount that it has given back, and other pods may have that
    room now.
    """
    if most is not None:
        permit, permit_limit = permit.at_most(most), permit_limit.at_most(most)
    reserved = permit_limit.at_least(permit).at_least(pod.using)
    return PodResources(reserved=reserved, buffer=reserved.minus(permit), min=pod.min, max=pod.max)


_PPM: Final = 1_000_000


class NodeNumbers(NamedTuple):
    """The six numbers of one node's accounting (the names are Neon's), and what is held on the node; milliCPU and bytes."""

    total: Amounts
    watermark: Amounts
    reserved: Amounts
    buffer: Amounts
    capacity_pressure: Amounts
    pressure_accounted_for: Amounts
    held: Amounts

    @property
    def free(self) -> Amounts:
        """What is left of Total after all reservations and holds; never below 0."""
        return self.total.minus(self.reserved).minus(self.held).not_below_zero()

    @property
    def over(self) -> Amounts:
        """By how much all reservations and holds exceed Total; never below 0."""
        return self.reserved.plus(self.held).minus(self.total).not_below_zero()


def too_much_pressure(node: NodeNumbers, *, weight_ppm: int = _PPM) -> bool:
    """Whether the CPU or memory of a node has more pressure than its running migrations will relieve.

    The pressure is what is Reserved above the Watermark, plus weighted CapacityPressure. It is too much if it exceeds
    PressureAccountedFor plus Buffer plus the room below the Watermark. While neither resource is above its Watermark, it never
    is. (0.36.1 compares with the Watermark by `<=` for CPU and by `<` for memory; we use `<=` for both.)
    """
    if node.reserved.within(node.watermark):
        return False
    return any(_too_much(node, r, weight_ppm) for r in range(len(RESOURCES)))


def _too_much(node: NodeNumbers, r: int, weight_ppm: int) -> bool:
    above = node.reserved[r] - node.watermark[r]
    slack = node.buffer[r] + max(-above, 0)
    denied = weighted(node.capacity_pressure[r], weight_ppm)
    return max(above, 0) + denied > node.pressure_accounted_for[r] + slack


def weighted(capacity_pressure: int, weight_ppm: int) -> int:
    """CapacityPressure times a weight in millionths, rounded up, so that pressure above 0 never becomes 0."""
    return max(-(-capacity_pressure * weight_ppm // _PPM), min(capacity_pressure, 1))


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
    return total, Amounts(MilliCpu(total.cpu * cpu // _PPM), Bytes(total.memory * memory // _PPM))


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

    def close_row(self, row: Row) -> None:
        """Ends a node: afterwards the row is all zero, whatever was reserved or held on it."""
        self.columns.clear(row)

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

    def numbers(self, row: Row) -> NodeNumbers:
        """The six numbers of the node, and what is held on it."""
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
        """The node's `free` and `over` (see `NodeNumbers`): an agent's request needs only these two."""
        columns = self.columns
        total, taken = _at(columns.total, row), _at(columns.reserved, row).plus(_at(columns.held, row))
        return total.minus(taken).not_below_zero(), taken.minus(total).not_below_zero()

    def is_over(self, row: Row) -> bool:
        """Whether more is Reserved of some resource than the node's Total."""
        reserved, total = self.columns.reserved.item, self.columns.total.item
        return reserved(CPU, row) > total(CPU, row) or reserved(MEMORY, row) > total(MEMORY, row)

    def hold(self, row: Row, amounts: Amounts) -> None:
        """Holds the amounts on the row."""
        self._hold(row, amounts, 1)

    def release_held(self, row: Row, amounts: Amounts) -> None:
        """Releases amounts that `hold` holds on the row."""
        self._hold(row, amounts, -1)

    def hold_on_all(self, amounts: Int64) -> None:
        """Adds `amounts` to what is held on every row; shape (resources, n_rows). The same call with the sign changed takes
        them back."""
        self.columns.held[:, : amounts.shape[1]] += amounts

    def _hold(self, row: Row, amounts: Amounts, sign: int) -> None:
        for resource in (CPU, MEMORY):
            if amounts[resource]:
                self.columns.held[resource][row] += sign * amounts[resource]


def _at(column: Int64, row: Row) -> Amounts:
    return Amounts(MilliCpu(column.item(CPU, row)), Bytes(column.item(MEMORY, row)))
