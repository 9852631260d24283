"""Finds why nodes reject a pod. Counts each node for the first rule that rejects it, as kube-scheduler does."""

import numpy as np

from slackwater.explain import obstacles
from slackwater.explain.findings import Finding, PodQuery, of_wait_reason
from slackwater.fit.feasible_nodes import feasible
from slackwater.model.ids import Row
from slackwater.model.reasons import Reason, WaitReason


def why_nowhere(asked: PodQuery, *, leave_out: Row | None = None) -> list[Finding]:
    """The reasons for which nodes reject the pod, each with the number of nodes that a rule rejects for it before any other
    rule. The most frequent reason comes first. Nodes that fit the pod, and the node of row `leave_out`, are not counted."""
    snapshot = asked.snapshot
    verdicts = feasible(snapshot, asked.kind)
    live = np.flatnonzero(snapshot.facts.live[: snapshot.n_rows])
    if leave_out is not None:
        live = live[live != leave_out]
    if not len(live):
        return [of_wait_reason(WaitReason.NO_NODES)] if leave_out is None else []
    if verdicts.refusal is not None:
        return [obstacles.of_refusal(asked, verdicts.refusal)]
    codes = verdicts.codes[live]
    found = []
    for code in np.unique(codes[codes != 0]).tolist():
        found += obstacles.of_rows(asked, Reason(code), live[codes == code])
    return sorted(found, key=lambda finding: -finding.nodes)
