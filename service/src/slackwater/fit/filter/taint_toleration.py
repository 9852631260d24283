"""kube-scheduler's TaintToleration: the pod must tolerate a node's NoSchedule and NoExecute taints.

Deliberately absent: the operators Gt and Lt, which are off in 1.36 and tolerate nothing.
"""

from collections.abc import Sequence

import numpy as np

from slackwater.model.columns import Codes, Mask
from slackwater.model.equivalence import Kind, Toleration
from slackwater.model.objects import Taint
from slackwater.model.reasons import Reason
from slackwater.snapshot.node_facts import NodeFacts
from slackwater.snapshot.selection import Selection, coded


def judge_taint_toleration(facts: NodeFacts, kind: Kind, rows: Selection) -> Codes:
    return coded(repelled(facts, kind)[facts.taints[: facts.n_rows][rows]], Reason.TAINT_NOT_TOLERATED)


def repelled(facts: NodeFacts, kind: Kind) -> Mask:
    """Which sets of taints repel pods of the equivalence group, shape (len(facts.taint_sets),)."""
    return np.array([_repels(taints, kind.tolerations) for taints in facts.taint_sets], np.bool_)


def _repels(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> bool:
    return any(taint.effect in {"NoSchedule", "NoExecute"} and not tolerated(taint, tolerations) for taint in taints)


def tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in {"", taint.effect} or toleration.key not in {"", taint.key}:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in {"", "Equal"} and toleration.value == taint.value
