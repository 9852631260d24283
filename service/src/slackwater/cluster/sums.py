"""What a node's numbers should be: worked out anew from its pods, from the holds, and from what it reports."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from slackwater.cluster.holds import Holds
from slackwater.cluster.nodes import NodeTable
from slackwater.cluster.pods import PodTable
from slackwater.cluster.reservations import Claims
from slackwater.model.columns import SCHEMA, Int64, NodeColumns
from slackwater.model.drifts import Drift, Found
from slackwater.model.ids import NodeName, PodUid, Row
from slackwater.model.ledger.ledger import Ledger, totals_of
from slackwater.model.resources import NOTHING, RESOURCES, Amounts


class Picture(Protocol):
    """What is looked at; the world has it, and so have its books."""

    @property
    def ledger(self) -> Ledger: ...
    @property
    def nodes(self) -> NodeTable: ...
    @property
    def pods(self) -> PodTable: ...
    @property
    def claims(self) -> Claims: ...
    @property
    def holds(self) -> Holds: ...


@dataclass(slots=True)
class Sums:
    """What the pods of a node count for together, by column; what of it is Reserved, by priority."""

    reserved: Amounts = NOTHING
    buffer: Amounts = NOTHING
    capacity_pressure: Amounts = NOTHING
    pressure_accounted_for: Amounts = NOTHING
    by_priority: dict[int, Amounts] = field(default_factory=dict)


#: The columns that are sums over pods.
SUMMED = ("reserved", "buffer", "capacity_pressure", "pressure_accounted_for")


def sums_on(picture: Picture, name: NodeName) -> Sums:
    """Over the pods that count on the node."""
    sums = Sums()
    for uid in picture.claims.on_node(name):
        claim = picture.claims.get(uid)
        assert claim is not None, uid
        account = claim.account
        sums.reserved = sums.reserved.plus(account.reserved)
        sums.buffer = sums.buffer.plus(account.buffer)
        sums.capacity_pressure = sums.capacity_pressure.plus(account.capacity_pressure)
        sums.pressure_accounted_for = sums.pressure_accounted_for.plus(account.accounted_for)
        sums.by_priority[claim.priority] = sums.by_priority.get(claim.priority, NOTHING).plus(account.reserved)
    return sums


def orphans_on(picture: Picture, name: NodeName) -> list[PodUid]:
    """Pods that count on the node as the watch showed them, and are in the picture no more."""
    uids = picture.claims.on_node(name)
    claims = ((uid, picture.claims.get(uid)) for uid in uids)
    return [uid for uid, claim in claims if claim is not None and claim.state == "seen" and picture.pods.get(uid) is None]


def wanted_held(picture: Picture) -> Int64:
    """What the holds add up to on each row, shape (resources, rows)."""
    want = np.zeros((len(RESOURCES), picture.ledger.columns.n_rows), np.int64)
    holds = [hold for _, hold in picture.holds if len(hold.counted)]
    if holds:  # there may be thousands: all at once, not one by one
        rows = np.concatenate([hold.counted for hold in holds])
        amounts = np.array([hold.amounts for hold in holds], np.int64)
        amounts = np.repeat(amounts, [len(hold.counted) for hold in holds], axis=0)
        for r in range(len(RESOURCES)):
            np.add.at(want[r], rows, amounts[:, r])
    return want


def wrong_held(picture: Picture) -> list[Found]:
    """Nodes where other amounts are held than the holds say; one comparison for all nodes."""
    want, columns = wanted_held(picture), picture.ledger.columns
    have = columns.held[:, : columns.n_rows]
    found = []
    for row in np.flatnonzero((have != want).any(axis=0)).tolist():
        node = picture.nodes.by_row[row] if row < len(picture.nodes.by_row) else None
        name = "(free row)" if node is None else node.name
        found.append(Found(Drift.WRONG_HELD, f"node {name}", f"held {have[:, row].tolist()}, want {want[:, row].tolist()}"))
    return found


def wrong_on(picture: Picture, name: NodeName) -> list[Found]:
    """What is wrong with a node's own books, whatever the API server says. About 3 µs for each of its pods."""
    row = picture.nodes.row_of[name]
    return [*_places(picture, name, row), *_sums(picture, name, row), *_totals(picture, name, row)]


def _places(picture: Picture, name: NodeName, row: Row) -> Iterator[Found]:
    orphans = set(orphans_on(picture, name))
    for uid in picture.claims.on_node(name):
        claim, placed = picture.claims.get(uid), picture.claims.placed.get(uid)
        if claim is None or placed is None or placed.row != row or placed.reserved != claim.account.reserved:
            yield Found(Drift.WRONG_PLACE, f"node {name}", f"pod {uid}: placed {placed}, want row {row}, claimed {claim}")
        elif uid in orphans:
            yield Found(Drift.UNKNOWN_POD, f"pod {claim.key}", f"counts on node {name}, and is not in the picture")


def _sums(picture: Picture, name: NodeName, row: Row) -> Iterator[Found]:
    sums, columns = sums_on(picture, name), picture.ledger.columns
    for column in SUMMED:
        have, want = getattr(columns, column)[:, row].tolist(), list(getattr(sums, column))
        if have != want:
            yield Found(Drift.WRONG_SUM, f"node {name}", f"{column} {have}, want {want}")
    shares = picture.claims.shares.on(row)
    if shares != {priority: amounts for priority, amounts in sums.by_priority.items() if any(amounts)}:
        yield Found(Drift.WRONG_SUM, f"node {name}", f"reserved by priority {shares}, want {sums.by_priority}")


def _totals(picture: Picture, name: NodeName, row: Row) -> Iterator[Found]:
    node, columns = picture.nodes.by_row[row], picture.ledger.columns
    if node is None or node.name != name:
        yield Found(Drift.WRONG_PLACE, f"node {name}", f"has row {row}, where {None if node is None else node.name} is")
        return
    total, watermark = totals_of(node.allocatable, picture.nodes.policy)
    for column, want in (("total", total), ("watermark", watermark)):
        have = getattr(columns, column)[:, row].tolist()
        if have != list(want):
            yield Found(Drift.WRONG_TOTAL, f"node {name}", f"{column} {have}, want {list(want)}")


def not_zero(picture: Picture) -> list[str]:
    """Columns in which a row that no node has is not zero."""
    free = np.array([node is None for node in picture.nodes.by_row], np.bool_)
    columns: NodeColumns = picture.ledger.columns
    return [column.name for column in SCHEMA if getattr(columns, column.name)[:, : len(free)][:, free].any()]
