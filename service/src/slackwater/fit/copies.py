"""How many pods of one equivalence group each row takes by amounts and host ports: one integer division for each resource.

Deliberately absent: rules about other pods (`fit.domain_limits`), and volumes, whose pods are placed one by one.
"""

import numpy as np

from slackwater.fit.filter.node_resources_fit import asked_lines
from slackwater.model.columns import Int64, Rows
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import Numbered
from slackwater.snapshot.node_facts import PODS


def copies_on(snapshot: ClusterSnapshot, kind: Numbered, rows: Rows) -> Int64:
    """How many copies each of `rows` takes, shape (len(rows),), >= 1. The rows must be feasible for the group."""
    if kind.asks.host_ports:
        return np.ones(len(rows), np.int64)
    copies: Int64 = snapshot.facts.allocatable[PODS][rows] - snapshot.used[PODS][rows]
    for line, amount in asked_lines(snapshot, kind):
        free = snapshot.facts.allocatable[line][rows] - snapshot.used[line][rows]
        np.minimum(copies, free // amount, out=copies)
    if snapshot.ledger is not None:
        columns = snapshot.ledger
        for resource, wanted in enumerate(kind.kind.requests):
            if wanted:
                free = (columns.total - columns.reserved - columns.held)[resource][rows]
                np.minimum(copies, free // wanted, out=copies)
    return copies
