"""Chooses the target node of a migrating machine: one of the rows that admit it, with room for it below the watermark."""

import numpy as np

from slackwater.fit.filter.ledger_fit import judge_ledger
from slackwater.model.columns import Mask, NodeColumns, Rows, vertical
from slackwater.model.ids import Row
from slackwater.model.reasons import Reason
from slackwater.model.resources import Amounts


def choose_target_node(need: Amounts, columns: NodeColumns, rows: Rows, *, above_watermark: bool = False) -> Row | None:
    """The row that is least full once the machine is there; None if it fits on none.

    `rows` are those that the other rules allow. A target above its watermark would only move the pressure, and then the machine
    again. It is allowed for machines that migrate whatever the pressure is (`above_watermark`).
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
