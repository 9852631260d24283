"""What always holds. Tests call `violations` after every step; production samples it."""

import numpy as np

from slackwater.model.columns import SCHEMA, NodeColumns
from slackwater.model.resources import NOTHING
from slackwater.world.world import World


def violations(world: World) -> list[str]:
    """One sentence for each invariant that does not hold; empty when all do."""
    return [*_sums(world), *_signs(world), *_records(world)]


def _sums(world: World) -> list[str]:
    """What pods count for adds up over the pods of a node, held over the holds; a free row is all zero."""
    want = NodeColumns(world.ledger.columns.n_rows)
    for uid, claim in world.claims.copy().items():
        row = world.nodes.row_of.get(claim.node)
        placed = world.claims.placed.get(uid)
        if (row is None) != (placed is None) or (placed is not None and placed.row != row):
            return [f"pod {claim.key}: placed {placed}, want row {row} of node {claim.node}"]
        if row is not None:
            want.reserved[:, row] += claim.account.reserved
            want.buffer[:, row] += claim.account.buffer
            want.capacity_pressure[:, row] += claim.account.capacity_pressure
            want.pressure_accounted_for[:, row] += claim.account.accounted_for
    for _, hold in world.holds:
        for r, amount in enumerate(hold.amounts):
            want.held[r, hold.counted] += amount
    free = np.array([node is None for node in world.nodes.by_row], np.bool_)
    found = _shared(world, want)
    for column in SCHEMA:
        have = getattr(world.ledger.columns, column.name)[:, : want.n_rows]
        if column.name not in {"total", "watermark"}:
            for differing in np.flatnonzero((have != getattr(want, column.name)[:, : want.n_rows]).any(axis=0)):
                at = int(differing)
                wanted = getattr(want, column.name)[:, at].tolist()
                found.append(f"node {_name(world, at)}: {column.name} {have[:, at].tolist()}, want {wanted}")
        if have[:, : len(free)][:, free].any():
            found.append(f"{column.name}: a free row is not zero")
    return found


def _shared(world: World, want: NodeColumns) -> list[str]:
    """What is Reserved for each priority adds up too."""
    differ = (world.claims.shares.total(want.n_rows) != want.reserved[:, : want.n_rows]).any()
    return ["reserved by priority: not the sum over the pods"] if differ else []


def _signs(world: World) -> list[str]:
    return [
        f"{column.name}: negative on some node" for column in SCHEMA if (getattr(world.ledger.columns, column.name) < 0).any()
    ]


def _records(world: World) -> list[str]:
    """How far records are above accounts was worked out after whatever last changed it."""
    records = world.ceilings.records
    marked = records.marked()
    return [
        f"pod {claim.key}: records are marked {marked.get(uid, NOTHING)} above its account, want {records.excess(uid)}"
        for uid, claim in world.claims.copy().items()
        if records.excess(uid) != marked.get(uid, NOTHING)
    ]


def _name(world: World, row: int) -> str:
    node = world.nodes.by_row[row]
    return "(free row)" if node is None else node.name
