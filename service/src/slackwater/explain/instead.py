"""Compares a placed pod's node with the other nodes: which would take the pod, with what score, and why the rest would not.

    found = placed_instead(explain_input, pod)        # None if the pod's node is unknown

The comparison is made of the present cluster when somebody asks; nothing is remembered of the moment at which the pod was
placed. A trial removes the pod from its node first, so that the node is scored as it was for the pod.
"""

from dataclasses import replace
from typing import Final

import numpy as np
from msgspec import structs

from slackwater.explain.explain_input import ExplainInput, after
from slackwater.explain.findings import Finding, Instead, OtherNode, PodQuery, of_reason
from slackwater.explain.remedies import PodLeaves
from slackwater.explain.why_nowhere import why_nowhere
from slackwater.fit.feasible_nodes import feasible
from slackwater.fit.node_scores import scores
from slackwater.fit.scoring import room_on
from slackwater.model.columns import Int64, Rows
from slackwater.model.ids import NodeName, Row
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason

#: The most other nodes that are named.
_MOST_NODES: Final = 5
#: The name under which our own score is given, beside kube-scheduler's plug-ins.
_OURS: Final = "Slackwater"


def placed_instead(explain_input: ExplainInput, pod: Pod, *, quarantined: frozenset[NodeName] = frozenset()) -> Instead | None:
    """Compares the node of a placed pod with the other nodes; None if the pod's node is unknown. `quarantined` nodes take no
    pod now."""
    row = None if pod.node is None else explain_input.row_of(pod.node)
    if row is None:
        return None
    with after(explain_input, [PodLeaves(words="", pod=pod, row=row)]) as then:
        unplaced = structs.replace(pod, node=None)
        asked = PodQuery(replace(then, pending={**then.pending, pod.uid: unplaced}), unplaced)
        found = feasible(asked.snapshot, asked.kind).rows
        closed = [at for name in quarantined if (at := explain_input.row_of(name)) is not None]
        others: Rows = found[(found != row) & ~np.isin(found, closed)]
        points = _points(asked, np.append(others, row))
        findings = [*why_nowhere(asked, leave_out=row)]
        if shut := int((np.isin(found, closed) & (found != row)).sum()):
            findings.append(of_reason(Reason.NODE_QUARANTINED, nodes=shut))
        return _compared(asked, others, points, tuple(findings))


def _points(asked: PodQuery, rows: Rows) -> dict[str, Int64]:
    """For each plug-in, the weighted score of each row; shape (len(rows),)."""
    explain_input, snapshot = asked.explain_input, asked.snapshot
    weights = explain_input.profile.plugins(snapshot.facts.kubernetes)
    found = scores(snapshot, asked.kind, rows, explain_input.profile)
    points = {name: weights[name].weight * score for name, score in found.items()}
    if explain_input.own_score is not None:
        points[_OURS] = explain_input.own_score(room_on(snapshot, rows), asked.numbered)
    return points


def _compared(asked: PodQuery, others: Rows, points: dict[str, Int64], findings: tuple[Finding, ...]) -> Instead:
    """Makes the answer. `points` have the scores of `others`, and at the end that of the pod's own node."""
    total = np.sum(list(points.values()), axis=0)
    names = [asked.name_of(Row(row)) for row in others.tolist()]
    best = sorted(range(len(names)), key=lambda at: (-int(total[at]), names[at]))[:_MOST_NODES]
    nodes = tuple(
        OtherNode(
            node=names[at],
            score=int(total[at]),
            difference={name: int(each[at] - each[-1]) for name, each in points.items() if each[at] != each[-1]},
        )
        for at in best
    )
    return Instead(score=int(total[-1]), feasible=len(names), nodes=nodes, reasons=findings)
