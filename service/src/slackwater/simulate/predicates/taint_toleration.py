"""A node's NoSchedule and NoExecute taints must be tolerated (kube-scheduler's TaintToleration)."""

from collections.abc import Sequence

from slackwater.model.kinds import Kind, Toleration
from slackwater.model.objects import Node, Taint
from slackwater.model.reasons import Reason


def judge_taint_toleration(kind: Kind, node: Node) -> Reason:
    for taint in node.taints:
        if taint.effect in {"NoSchedule", "NoExecute"} and not tolerated(taint, kind.tolerations):
            return Reason.TAINT_NOT_TOLERATED
    return Reason.OK


def tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in {"", taint.effect} or toleration.key not in {"", taint.key}:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in {"", "Equal"} and toleration.value == taint.value
