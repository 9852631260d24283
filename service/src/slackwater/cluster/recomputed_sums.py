"""Computes the sums of the accounting again, from a node's pods, the holds, and what the node reports, so that audits can
compare.

- `SumDifference`, `Drift`: one difference, and the closed list of causes. A difference is between the cluster state and the
  cluster, or within the cluster state.
- The functions compute the sums of a node, or find the nodes where they are wrong. They change nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

import numpy as np

from slackwater.cluster.holds import Holds
from slackwater.cluster.nodes import NodeTable
from slackwater.cluster.pods import PodTable
from slackwater.cluster.reservations import Reservations
from slackwater.model.columns import SCHEMA, Int64, NodeColumns
from slackwater.model.ids import NodeName, PodUid, Row
from slackwater.model.ledger.ledger import Ledger, totals_of
from slackwater.model.resources import NOTHING, RESOURCES, Amounts


class Drift(StrEnum):
    """The causes of differences that an audit can find: a closed list. `TEXTS` explains them."""

    MISSED_EVENT = "missed_event"
    STALE_OBJECT = "stale_object"
    UNKNOWN_NODE = "unknown_node"
    UNKNOWN_POD = "unknown_pod"
    ALTERED_OBJECT = "altered_object"
    WRONG_PLACE = "wrong_place"
    WRONG_ACCOUNT = "wrong_account"
    WRONG_SUM = "wrong_sum"
    WRONG_HELD = "wrong_held"
    WRONG_TOTAL = "wrong_total"


TEXTS: Final[dict[Drift, str]] = {
    Drift.MISSED_EVENT: "the API server has a newer version of the object than the cluster state, which did not follow in time",
    Drift.STALE_OBJECT: "the cluster state has an object that the API server has no more",
    Drift.UNKNOWN_NODE: "the API server has a node that the cluster state has not",
    Drift.UNKNOWN_POD: "the API server has a pod that the cluster state has not, or a pod counts that nobody knows",
    Drift.ALTERED_OBJECT: "the cluster state has the object in the same version, and something else in it",
    Drift.WRONG_PLACE: "the pod counts on another node than the one it is on, or on none, or though it has ended",
    Drift.WRONG_ACCOUNT: "the pod counts for other amounts than its requests",
    Drift.WRONG_SUM: "the node's numbers are not the sum of what its pods count for",
    Drift.WRONG_HELD: "what is held on the node is not the sum of the holds there",
    Drift.WRONG_TOTAL: "the node's Total or Watermark does not follow from what it reports",
}


@dataclass(frozen=True, slots=True)
class SumDifference:
    """One difference that an audit found: its cause, the object (`pod ns/name`, `node n`), and what was found and expected."""

    drift: Drift
    object: str
    detail: str

    def __str__(self) -> str:
        return f"{self.object}: {self.detail}"


class CountedTables(Protocol):
    """The tables that the functions of this module read: those of the state machine or of `ClusterState`."""

    @property
    def ledger(self) -> Ledger: ...
    @property
    def nodes(self) -> NodeTable: ...
    @property
    def pods(self) -> PodTable: ...
    @property
    def reservations(self) -> Reservations: ...
    @property
    def holds(self) -> Holds: ...


@dataclass(slots=True)
class Sums:
    """What the pods of a node count for together, by column; `by_priority` is what is Reserved for the pods of each
    priority."""

    reserved: Amounts = NOTHING
    buffer: Amounts = NOTHING
    capacity_pressure: Amounts = NOTHING
    pressure_accounted_for: Amounts = NOTHING
    by_priority: dict[int, Amounts] = field(default_factory=dict)


#: The columns that are sums over pods.
SUMMED = ("reserved", "buffer", "capacity_pressure", "pressure_accounted_for")


def sums_on(tables: CountedTables, name: NodeName) -> Sums:
    """Adds up what the pods that count on the node count for."""
    sums = Sums()
    for uid in tables.reservations.on_node(name):
        reservation = tables.reservations.get(uid)
        assert reservation is not None, uid
        pod_resources = reservation.pod_resources
        sums.reserved = sums.reserved.plus(pod_resources.reserved)
        sums.buffer = sums.buffer.plus(pod_resources.buffer)
        sums.capacity_pressure = sums.capacity_pressure.plus(pod_resources.capacity_pressure)
        sums.pressure_accounted_for = sums.pressure_accounted_for.plus(pod_resources.accounted_for)
        sums.by_priority[reservation.priority] = sums.by_priority.get(reservation.priority, NOTHING).plus(
            pod_resources.reserved
        )
    return sums


def orphans_on(tables: CountedTables, name: NodeName) -> list[PodUid]:
    """Pods that count on the node in state "seen", but are missing in the pod table."""
    uids = tables.reservations.on_node(name)
    reservations = ((uid, tables.reservations.get(uid)) for uid in uids)
    return [
        uid
        for uid, reservation in reservations
        if reservation is not None and reservation.state == "seen" and tables.pods.get(uid) is None
    ]


def wanted_held(tables: CountedTables) -> Int64:
    """What should be held on each row: the sum of its holds, shape (resources, rows)."""
    want = np.zeros((len(RESOURCES), tables.ledger.columns.n_rows), np.int64)
    holds = [hold for _, hold in tables.holds]
    if holds:  # there may be thousands, so they are added at once
        rows = np.array([hold.row for hold in holds], np.intp)
        amounts = np.array([hold.amounts for hold in holds], np.int64)
        for r in range(len(RESOURCES)):
            np.add.at(want[r], rows, amounts[:, r])
    return want


def wrong_held(tables: CountedTables) -> list[SumDifference]:
    """Nodes where the held amounts differ from the sum of the holds; all nodes are compared at once."""
    want, columns = wanted_held(tables), tables.ledger.columns
    have = columns.held[:, : columns.n_rows]
    found = []
    for row in np.flatnonzero((have != want).any(axis=0)).tolist():
        node = tables.nodes.by_row[row] if row < len(tables.nodes.by_row) else None
        name = "(free row)" if node is None else node.name
        found.append(
            SumDifference(Drift.WRONG_HELD, f"node {name}", f"held {have[:, row].tolist()}, want {want[:, row].tolist()}")
        )
    return found


def wrong_on(tables: CountedTables, name: NodeName) -> list[SumDifference]:
    """The errors in a node's own sums, whatever the API server has. It takes about 3 µs for each pod of the node."""
    row = tables.nodes.row_of[name]
    return [*_places(tables, name, row), *_sums(tables, name, row), *_totals(tables, name, row)]


def _places(tables: CountedTables, name: NodeName, row: Row) -> Iterator[SumDifference]:
    orphans = set(orphans_on(tables, name))
    for uid in tables.reservations.on_node(name):
        reservation, placed = tables.reservations.get(uid), tables.reservations.placed.get(uid)
        if reservation is None or placed is None or placed.row != row or placed.reserved != reservation.pod_resources.reserved:
            yield SumDifference(
                Drift.WRONG_PLACE, f"node {name}", f"pod {uid}: placed {placed}, want row {row}, claimed {reservation}"
            )
        elif uid in orphans:
            yield SumDifference(
                Drift.UNKNOWN_POD, f"pod {reservation.key}", f"counts on node {name}, and is not in the cluster state"
            )


def _sums(tables: CountedTables, name: NodeName, row: Row) -> Iterator[SumDifference]:
    sums, columns = sums_on(tables, name), tables.ledger.columns
    for column in SUMMED:
        have, want = getattr(columns, column)[:, row].tolist(), list(getattr(sums, column))
        if have != want:
            yield SumDifference(Drift.WRONG_SUM, f"node {name}", f"{column} {have}, want {want}")
    priority_shares = tables.reservations.priority_shares.on(row)
    if priority_shares != {priority: amounts for priority, amounts in sums.by_priority.items() if any(amounts)}:
        yield SumDifference(Drift.WRONG_SUM, f"node {name}", f"reserved by priority {priority_shares}, want {sums.by_priority}")


def _totals(tables: CountedTables, name: NodeName, row: Row) -> Iterator[SumDifference]:
    node, columns = tables.nodes.by_row[row], tables.ledger.columns
    if node is None or node.name != name:
        yield SumDifference(Drift.WRONG_PLACE, f"node {name}", f"has row {row}, where {None if node is None else node.name} is")
        return
    total, watermark = totals_of(node.allocatable, tables.nodes.policy)
    for column, want in (("total", total), ("watermark", watermark)):
        have = getattr(columns, column)[:, row].tolist()
        if have != list(want):
            yield SumDifference(Drift.WRONG_TOTAL, f"node {name}", f"{column} {have}, want {list(want)}")


def not_zero(tables: CountedTables) -> list[str]:
    """The names of the columns that are not zero in some row without a node."""
    free = np.array([node is None for node in tables.nodes.by_row], np.bool_)
    columns: NodeColumns = tables.ledger.columns
    return [column.name for column in SCHEMA if getattr(columns, column.name)[:, : len(free)][:, free].any()]
