"""NodeResourcesFit (LeastAllocated over CPU and memory): prefers nodes with the most room left.

Containers without a request count as 100 millicores and 200 MiB here, so that pods without requests spread too.
"""

import numpy as np

from slackwater.fit.score.normalizing import HIGHEST
from slackwater.model.columns import Int64, Rows
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import Numbered
from slackwater.snapshot.node_facts import CPU, MEMORY


def score_node_resources_fit(snapshot: ClusterSnapshot, kind: Numbered, rows: Rows) -> Int64:
    asked = kind.asks.scored_before or kind.asks.scored or kind.kind.requests
    # A slice first: choosing two lines by a list would copy them whole, whatever the number of rows.
    capacity = snapshot.facts.allocatable[CPU : MEMORY + 1].take(rows, axis=1)
    wanted = snapshot.scored[CPU : MEMORY + 1].take(rows, axis=1) + np.array([[asked[CPU]], [asked[MEMORY]]], np.int64)
    # A resource without capacity has nothing left and is not counted.
    left = np.maximum(capacity - wanted, 0) * HIGHEST // np.maximum(capacity, 1)
    counted = (capacity > 0).sum(axis=0)
    found: Int64 = left.sum(axis=0) // np.maximum(counted, 1)
    return found
