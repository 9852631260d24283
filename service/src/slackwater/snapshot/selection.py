"""Row selections: the rows that a predicate judges, either all of them as a slice (nothing is copied), or some by number."""

import numpy as np

from slackwater.model.columns import Codes, Mask, Rows
from slackwater.model.reasons import Reason

Selection = slice | Rows


def n_selected(rows: Selection) -> int:
    return int(rows.stop - rows.start) if isinstance(rows, slice) else len(rows)


def coded(rejected: Mask, reason: Reason) -> Codes:
    """The reason where a row is rejected, OK elsewhere; one code for each judged row."""
    return rejected.astype(np.uint8) * np.uint8(reason)


def all_ok(rows: Selection) -> Codes:
    return np.zeros(n_selected(rows), np.uint8)
