"""Chooses the node that a virtual machine migrates to, and limits concurrent migrations by source and by target."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from slackwater.controllers.policy import MigrationPolicy
from slackwater.fit.plugins.node_accounting import judge_ledger
from slackwater.model.columns import Mask, NodeColumns, Rows, vertical
from slackwater.model.ids import NodeName, Row
from slackwater.model.reasons import Reason
from slackwater.model.resources import Amounts

#: Source node and target node of a migration; each is None if not known.
Route = tuple[NodeName | None, NodeName | None]


def room_at_source(running: Iterable[Route], source: NodeName, policy: MigrationPolicy) -> bool:
    """Do the limits on running migrations allow one more that leaves the node `source`?"""
    sources = [route[0] for route in running]
    return len(sources) < policy.max_concurrent and sources.count(source) < policy.max_per_source


def full_targets(running: Iterable[Route], policy: MigrationPolicy) -> set[NodeName]:
    """The nodes at which so many migrations arrive that no other may."""
    arriving = Counter(target for _, target in running if target is not None)
    return {node for node, count in arriving.items() if count >= policy.max_per_target}


def choose_target_node(need: Amounts, columns: NodeColumns, rows: Rows, *, above_watermark: bool = False) -> Row | None:
    """The target row for a machine that needs `need`: the row that would be least full with it; None if it fits on none.

    `rows`: the rows that the other rules allow. Unless `above_watermark` is set, rows that the machine would take above their
    watermark are left out, since pressure there would soon move the machine again. Set it for machines that migrate whatever
    the pressure is.
    """
    fitting = rows[judge_ledger(need, columns, rows) == Reason.OK]
    after = columns.reserved[:, fitting] + columns.held[:, fitting] + vertical(need)
    if not above_watermark:
        below: Mask = np.asarray((after <= columns.watermark[:, fitting]).all(axis=0))
        fitting, after = fitting[below], after[:, below]
    if not len(fitting):
        return None
    fullness = (after / np.maximum(columns.total[:, fitting], 1)).max(axis=0)
    return Row(int(fitting[np.lexsort((fitting, fullness))[0]]))
