"""Checks the invariants of the state machine. Tests call `violations` after every step. In production the audit checks only the
sums, for a few nodes at a time (`controllers.audit.differences.wrong_on`)."""

import numpy as np

from slackwater.cluster.cluster_state import ClusterState
from slackwater.controllers.audit.differences import SUMMED, wrong_held, wrong_on
from slackwater.model.columns import SCHEMA, Int64, NodeColumns
from slackwater.model.ids import Row
from slackwater.model.ledger import PriorityShares
from slackwater.model.pod_resources import PodResources
from slackwater.model.resources import NOTHING, Amounts
from slackwater.runtime.state_machine import StateMachine


def violations(state_machine: StateMachine) -> list[str]:
    """One sentence for each violated invariant; empty if all hold."""
    found = [str(each) for name in state_machine.state.nodes.row_of for each in wrong_on(state_machine.state, name)]
    found += map(str, wrong_held(state_machine.state))
    found += [f"{column}: a free row is not zero" for column in _not_zero(state_machine.state)]
    return [*found, *_reservations(state_machine), *_nominees(state_machine), *_signs(state_machine), *_records(state_machine)]


def _reservations(state_machine: StateMachine) -> list[str]:
    """Checks that each reservation counts on the row of the node that it names, and nowhere if that node is unknown."""
    want = NodeColumns(state_machine.state.ledger.columns.n_rows)
    found = []
    for uid, reservation in state_machine.state.reservations.copy().items():
        row, placed = state_machine.state.nodes.row_of.get(reservation.node), state_machine.state.reservations.placed.get(uid)
        if (row is None) != (placed is None) or (placed is not None and placed.row != row):
            found.append(f"pod {reservation.key}: placed {placed}, want row {row} of node {reservation.node}")
        elif row is not None:
            for column, amounts in zip(SUMMED, _parts(reservation.pod_resources), strict=True):
                getattr(want, column)[:, row] += amounts
    columns = state_machine.state.ledger.columns
    sums = [
        f"{name}: not the sum over the reservations" for name in SUMMED if _differ(getattr(columns, name), getattr(want, name))
    ]
    shared = _differ(state_machine.state.reservations.priority_shares.total(want.n_rows), want.reserved)
    return [*found, *sums, *(["reserved by priority: not the sum over the reservations"] if shared else [])]


def _nominees(state_machine: StateMachine) -> list[str]:
    """Checks that the room held for nominees on each row is the sum over their holds, per priority."""
    want = PriorityShares()
    for _, hold in state_machine.state.holds:
        if hold.nominee is not None:
            want.add(hold.row, hold.nominee, hold.amounts, pods=1)
    rows = range(state_machine.state.ledger.columns.n_rows)
    return [
        f"row {row}: held for nominees {state_machine.state.holds.nominated.on(Row(row))}, want {want.on(Row(row))}"
        for row in rows
        if state_machine.state.holds.nominated.on(Row(row)) != want.on(Row(row))
    ]


def _parts(pod_resources: PodResources) -> tuple[Amounts, ...]:
    return pod_resources.reserved, pod_resources.buffer, pod_resources.capacity_pressure, pod_resources.accounted_for


def _differ(have: Int64, want: Int64) -> bool:
    n_rows = min(have.shape[1], want.shape[1])
    return not np.array_equal(have[:, :n_rows], want[:, :n_rows])


def _signs(state_machine: StateMachine) -> list[str]:
    return [
        f"{column.name}: negative on some node"
        for column in SCHEMA
        if (getattr(state_machine.state.ledger.columns, column.name) < 0).any()
    ]


def _records(state_machine: StateMachine) -> list[str]:
    """Checks that each pod's stored over-reservation equals a newly computed one."""
    records = state_machine.permit_limits.persisted_permits
    marked = records.marked()
    return [
        f"pod {reservation.key}: over-reservation is {marked.get(uid, NOTHING)}, want {want}"
        for uid, reservation in state_machine.state.reservations.copy().items()
        if (want := records.over_reservation_of(uid)) != marked.get(uid, NOTHING)
    ]


def _not_zero(state: ClusterState) -> list[str]:
    """The names of the columns that are not zero in some row without a node."""
    free = np.array([node is None for node in state.nodes.by_row], np.bool_)
    columns: NodeColumns = state.ledger.columns
    return [column.name for column in SCHEMA if getattr(columns, column.name)[:, : len(free)][:, free].any()]
