"""Scaling of raw scores to 0..100, in whole numbers as in kube-scheduler."""

from typing import Final

import numpy as np

from slackwater.model.columns import Int64

HIGHEST: Final = 100


def by_the_highest(raw: Int64, *, reverse: bool = False) -> Int64:
    """Scales scores so that the highest becomes 100; with `reverse` the highest becomes 0, and a score of 0 becomes 100."""
    highest = int(raw.max(initial=0))
    if highest == 0:
        return np.full(len(raw), HIGHEST if reverse else 0, np.int64)
    scaled: Int64 = HIGHEST * raw // highest
    return HIGHEST - scaled if reverse else scaled
