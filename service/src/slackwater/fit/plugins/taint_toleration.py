"""kube-scheduler's TaintToleration: the pod must tolerate a node's NoSchedule and NoExecute taints.

The score prefers nodes with the fewest PreferNoSchedule taints that the pod does not tolerate.

The operators Gt and Lt compare integers where `Rule.COMPARING_TOLERATIONS` holds; elsewhere they tolerate nothing.
"""

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from slackwater.fit.plugins import Predicate
from slackwater.fit.scoring import HIGHEST, by_the_highest
from slackwater.model.columns import Codes, Int64, Mask, Rows
from slackwater.model.kubernetes_rules import Rule
from slackwater.model.objects import Taint
from slackwater.model.pod_constraints import Kind, Toleration
from slackwater.model.reasons import Reason
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_facts import NodeFacts
from slackwater.snapshot.row_journal import Selection, coded

#: Integers as kube-scheduler reads them in taints and tolerations: no sign "+", no leading zero.
_INTEGER: Final = re.compile(r"-?[1-9][0-9]{0,18}|0", re.ASCII)
_INT64: Final = range(-(2**63), 2**63)


def judge_taint_toleration(facts: NodeFacts, kind: Kind, rows: Selection) -> Codes:
    return coded(repelled(facts, kind)[facts.taints.ids[: facts.n_rows][rows]], Reason.TAINT_NOT_TOLERATED)


def repelled(facts: NodeFacts, kind: Kind) -> Mask:
    """Which sets of taints repel pods of the equivalence group, shape (len(facts.taints.values),)."""
    comparing = facts.kubernetes.follows(Rule.COMPARING_TOLERATIONS)
    return np.array([_repels(taints, kind.tolerations, comparing) for taints in facts.taints.values], np.bool_)


def _repels(taints: Sequence[Taint], tolerations: Sequence[Toleration], comparing: bool) -> bool:
    return any(
        taint.effect in {"NoSchedule", "NoExecute"} and not tolerated(taint, tolerations, comparing=comparing)
        for taint in taints
    )


def tolerated(taint: Taint, tolerations: Sequence[Toleration], *, comparing: bool) -> bool:
    """Whether one of the tolerations tolerates the taint. `comparing`: this version knows the operators Gt and Lt."""
    return any(_tolerates(toleration, taint, comparing) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint, comparing: bool) -> bool:
    if toleration.effect not in {"", taint.effect} or toleration.key not in {"", taint.key}:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == taint.value
        case "Gt" | "Lt" if comparing:
            limit, value = _integer(toleration.value), _integer(taint.value)
            if limit is None or value is None:
                return False
            return value > limit if toleration.operator == "Gt" else value < limit
        case _:
            return False


def _integer(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    found = int(text)
    return found if found in _INT64 else None


_EFFECT = "PreferNoSchedule"


def taints_differ(snapshot: ClusterSnapshot, kind: NumberedGroup) -> bool:
    return any(_untolerated(snapshot, kind))


def _untolerated(snapshot: ClusterSnapshot, kind: NumberedGroup) -> list[int]:
    """For each set of taints in `NodeFacts.taints`, how many of its taints the pod does not tolerate."""
    tolerations = [toleration for toleration in kind.kind.tolerations if toleration.effect in ("", _EFFECT)]
    comparing = snapshot.follows(Rule.COMPARING_TOLERATIONS)
    return [
        sum(taint.effect == _EFFECT and not tolerated(taint, tolerations, comparing=comparing) for taint in taints)
        for taints in snapshot.facts.taints.values
    ]


def score_taint_toleration(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Rows) -> Int64:
    by_set = _untolerated(snapshot, kind)
    if not any(by_set):
        return np.full(len(rows), HIGHEST, np.int64)
    return by_the_highest(np.array(by_set, np.int64)[snapshot.facts.taints.ids[rows]], reverse=True)


TAINT_TOLERATION: Final = Predicate(
    name="TaintToleration",
    part=lambda _, kind: kind.kind.tolerations,
    judge=lambda snapshot, kind, rows: judge_taint_toleration(snapshot.facts, kind.kind, rows),
    reads="facts",
)
