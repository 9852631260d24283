"""What always holds. Tests call `violations` after every step; production samples `sums.wrong_on`, a few nodes at a time."""

import numpy as np

from slackwater.cluster.priority_shares import Shares
from slackwater.cluster.sums import SUMMED, not_zero, wrong_held, wrong_on
from slackwater.model.columns import SCHEMA, Int64, NodeColumns
from slackwater.model.ids import Row
from slackwater.model.ledger.account import Account
from slackwater.model.resources import NOTHING, Amounts
from slackwater.runtime.state_machine import World


def violations(world: World) -> list[str]:
    """One sentence for each invariant that does not hold; empty when all do."""
    found = [str(each) for name in world.nodes.row_of for each in wrong_on(world, name)]
    found += map(str, wrong_held(world))
    found += [f"{column}: a free row is not zero" for column in not_zero(world)]
    return [*found, *_claims(world), *_nominees(world), *_signs(world), *_records(world)]


def _claims(world: World) -> list[str]:
    """Every claim is of the node that it names, and those of nodes that are not there count nowhere."""
    want = NodeColumns(world.ledger.columns.n_rows)
    found = []
    for uid, claim in world.claims.copy().items():
        row, placed = world.nodes.row_of.get(claim.node), world.claims.placed.get(uid)
        if (row is None) != (placed is None) or (placed is not None and placed.row != row):
            found.append(f"pod {claim.key}: placed {placed}, want row {row} of node {claim.node}")
        elif row is not None:
            for column, amounts in zip(SUMMED, _parts(claim.account), strict=True):
                getattr(want, column)[:, row] += amounts
    columns = world.ledger.columns
    sums = [f"{name}: not the sum over the claims" for name in SUMMED if _differ(getattr(columns, name), getattr(want, name))]
    shared = _differ(world.claims.shares.total(want.n_rows), want.reserved)
    return [*found, *sums, *(["reserved by priority: not the sum over the claims"] if shared else [])]


def _nominees(world: World) -> list[str]:
    """What is held for nominees is the sum over their holds, priority by priority."""
    want = Shares()
    for _, hold in world.holds:
        if hold.nominee is not None:
            for row in hold.counted.tolist():
                want.admit(row, hold.nominee, hold.amounts)
    rows = range(world.ledger.columns.n_rows)
    return [
        f"row {row}: held for nominees {world.holds.nominated.on(Row(row))}, want {want.on(Row(row))}"
        for row in rows
        if world.holds.nominated.on(Row(row)) != want.on(Row(row))
    ]


def _parts(account: Account) -> tuple[Amounts, ...]:
    return account.reserved, account.buffer, account.capacity_pressure, account.accounted_for


def _differ(have: Int64, want: Int64) -> bool:
    n_rows = min(have.shape[1], want.shape[1])
    return not np.array_equal(have[:, :n_rows], want[:, :n_rows])


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
