"""Why the nodes reject a pod: each node counted by the first rule that rejects it, as kube-scheduler does."""

import numpy as np

from slackwater.explain import obstacles
from slackwater.explain.findings import Finding, PodQuery, of_wait_reason
from slackwater.fit.feasible_nodes import feasible
from slackwater.model.ids import Row
from slackwater.model.reasons import Reason, WaitReason


def why_nowhere(asked: PodQuery, *, leave_out: Row | None = None) -> list[Finding]:
    """Why each node rejects the pod: by the first rule that does, most nodes first. Nodes where it fits are left out, and
    the node of row `leave_out`."""
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
        found += obstacles.of_rows(asked, obstacles.Verdict(Reason(code), live[codes == code]))
    return sorted(found, key=lambda finding: -finding.nodes)
