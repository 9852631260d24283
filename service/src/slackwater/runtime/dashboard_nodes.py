"""All nodes as one matrix of integers: what the dashboard draws, and which nodes changed since it last looked.

    after = take_nodes(world, before)          # a copy; `before` saves reading again what did not change
    rows = changed(before, after)              # None: other nodes than before, so that positions mean something else

5,000 nodes take a few milliseconds, whatever the number of pods. Deliberately absent: text, JSON, and time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.model.columns import Int64, Rows
from slackwater.model.ids import NodeName
from slackwater.model.objects import Node
from slackwater.model.resources import RESOURCES
from slackwater.runtime.state_machine import StateMachine
from slackwater_protocol.names import NODE_GROUP

#: The columns of each resource, in the names of `/dumpstate`.
_COLUMNS: Final = (
    ("total", "total"),
    ("watermark", "watermark"),
    ("reserved", "reserved"),
    ("buffer", "buffer"),
    ("capacityPressure", "capacity_pressure"),
    ("pressureAccountedFor", "pressure_accounted_for"),
    ("held", "held"),
)
#: What each line of `DashboardNodes.numbers` means: `cpu.total` and so on (milliCPU, bytes), then how many pods, then flags.
LINES: Final = (*(f"{resource}.{name}" for resource in RESOURCES for name, _ in _COLUMNS), "pods", "flags")
NOT_READY: Final = 1
CORDONED: Final = 2
QUARANTINED: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardNodes:
    """`numbers` has shape (len(LINES), nodes); `nodes` in the order of rows, `group` is each one's index in `groups`."""

    version: int
    nodes: Sequence[Node]
    names: Sequence[NodeName]
    groups: Sequence[str]
    group: Sequence[int]
    numbers: Int64


def take_nodes(state_machine: StateMachine, before: DashboardNodes | None) -> DashboardNodes:
    """The nodes as they are now."""
    version = state_machine.nodes.names_version
    nodes = [node for node in state_machine.nodes.by_row if node is not None]
    rows = np.fromiter((row for row, node in enumerate(state_machine.nodes.by_row) if node is not None), np.intp, len(nodes))
    same = before is not None and before.version == version
    if same and before is not None and _unchanged(before.nodes, nodes):
        names, groups, group = before.names, before.groups, before.group
        flags = before.numbers[-1] & ~QUARANTINED
    else:
        names = [node.name for node in nodes]
        labels = [node.labels.get(NODE_GROUP, "") for node in nodes]
        groups = sorted(set(labels))
        index = {label: number for number, label in enumerate(groups)}
        group = [index[label] for label in labels]
        flags = np.array([NOT_READY * (not node.ready) + CORDONED * node.unschedulable for node in nodes], np.int64)
    flags = flags | QUARANTINED * np.isin(rows, state_machine.quarantine.rows)
    columns = state_machine.ledger.columns
    amounts = [getattr(columns, column)[r, rows] for r in range(len(RESOURCES)) for _, column in _COLUMNS]
    pods = np.array([state_machine.reservations.count_on(name) for name in names], np.int64)
    numbers = np.vstack([*amounts, pods, flags]) if nodes else np.zeros((len(LINES), 0), np.int64)
    return DashboardNodes(version=version, nodes=nodes, names=names, groups=groups, group=group, numbers=numbers)


def _unchanged(before: Sequence[Node], now: Sequence[Node]) -> bool:
    """A node that changed is another object."""
    return len(before) == len(now) and all(map(_is, before, now))


def _is(one: Node, other: Node) -> bool:
    return one is other


def changed(before: DashboardNodes, after: DashboardNodes) -> Rows | None:
    """Positions whose numbers differ; None where the nodes or their groups are others."""
    if before.version != after.version or before.names != after.names or before.group != after.group:
        return None
    if before.groups != after.groups:
        return None
    return np.flatnonzero((before.numbers != after.numbers).any(axis=0))
