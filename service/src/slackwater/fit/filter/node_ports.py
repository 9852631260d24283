"""kube-scheduler's NodePorts: the host ports of the pod must be free on the node."""

import numpy as np

from slackwater.model.columns import Codes
from slackwater.model.reasons import Reason
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.row_journal import Selection, coded


def judge_node_ports(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Selection) -> Codes:
    taken = np.zeros(snapshot.n_rows, np.bool_)
    for port in kind.asks.host_ports:
        taken[[row for row in snapshot.attached.rows_with_port(port) if row < snapshot.n_rows]] = True
    return coded(taken[rows], Reason.HOST_PORTS)
