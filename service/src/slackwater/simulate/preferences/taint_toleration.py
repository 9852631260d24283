"""Nodes with the fewest PreferNoSchedule taints that the pod does not tolerate (TaintToleration)."""

import numpy as np

from slackwater.model.columns import Int64, Rows
from slackwater.simulate.kindtable import Numbered
from slackwater.simulate.picture import Picture
from slackwater.simulate.predicates.taint_toleration import tolerated
from slackwater.simulate.preferences.normalizing import HIGHEST, by_the_highest

_EFFECT = "PreferNoSchedule"


def score_taint_toleration(picture: Picture, kind: Numbered, rows: Rows) -> Int64:
    tolerations = [toleration for toleration in kind.kind.tolerations if toleration.effect in ("", _EFFECT)]
    by_set = [
        sum(taint.effect == _EFFECT and not tolerated(taint, tolerations) for taint in taints)
        for taints in picture.facts.taint_sets
    ]
    if not any(by_set):
        return np.full(len(rows), HIGHEST, np.int64)
    return by_the_highest(np.array(by_set, np.int64)[picture.facts.taints[rows]], reverse=True)
