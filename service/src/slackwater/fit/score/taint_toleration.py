"""TaintToleration: prefers nodes with the fewest PreferNoSchedule taints that the pod does not tolerate."""

import numpy as np

from slackwater.fit.filter.taint_toleration import tolerated
from slackwater.fit.score.normalizing import HIGHEST, by_the_highest
from slackwater.model.columns import Int64, Rows
from slackwater.model.kubernetes_rules import Rule
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import NumberedGroup

_EFFECT = "PreferNoSchedule"


def taints_differ(snapshot: ClusterSnapshot, kind: NumberedGroup) -> bool:
    return any(_untolerated(snapshot, kind))


def _untolerated(snapshot: ClusterSnapshot, kind: NumberedGroup) -> list[int]:
    """For each set of taints in `taint_sets`, how many of its taints the pod does not tolerate."""
    tolerations = [toleration for toleration in kind.kind.tolerations if toleration.effect in ("", _EFFECT)]
    comparing = snapshot.follows(Rule.COMPARING_TOLERATIONS)
    return [
        sum(taint.effect == _EFFECT and not tolerated(taint, tolerations, comparing=comparing) for taint in taints)
        for taints in snapshot.facts.taint_sets
    ]


def score_taint_toleration(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Rows) -> Int64:
    by_set = _untolerated(snapshot, kind)
    if not any(by_set):
        return np.full(len(rows), HIGHEST, np.int64)
    return by_the_highest(np.array(by_set, np.int64)[snapshot.facts.taints[rows]], reverse=True)
