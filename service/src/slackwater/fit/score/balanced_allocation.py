"""NodeResourcesBalancedAllocation: prefers nodes where the pod makes the use of CPU and memory more even; before 1.36, nodes
where the use is most even with the pod."""

import numpy as np
import numpy.typing as npt

from slackwater.fit.score.normalizing import HIGHEST
from slackwater.model.columns import Int64, Rows
from slackwater.model.kubernetes_rules import Rule
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_facts import CPU, MEMORY


def score_balanced_allocation(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Rows) -> Int64:
    requests = kind.kind.requests
    if not any(requests):
        return np.zeros(len(rows), np.int64)
    # A slice first: choosing two resources by a list would copy their whole columns.
    capacity = snapshot.facts.allocatable[CPU : MEMORY + 1].take(rows, axis=1)
    used = snapshot.used[CPU : MEMORY + 1].take(rows, axis=1)
    asked = np.array([[requests.cpu], [requests.memory]], np.int64)
    if not snapshot.follows(Rule.BALANCE_BY_IMPROVEMENT):
        return _evenness(used + asked, capacity)
    half = HIGHEST // 2
    # Both at once: mostly a few rows are scored, and then the number of calls counts.
    both = _evenness(np.concatenate([used + asked, used], axis=1), np.concatenate([capacity, capacity], axis=1))
    after, before = both[: len(rows)], both[len(rows) :]
    found: Int64 = half + (half + after - before) // 2
    return found


def _evenness(used: Int64, capacity: Int64) -> Int64:
    """How evenly CPU and memory of each row are used: 100 if both shares are equal, 50 if one is full and the other empty. A
    node that lacks one of the resources counts as even."""
    shares: npt.NDArray[np.float64] = np.minimum(used / np.maximum(capacity, 1), 1.0)
    there = capacity > 0
    deviation = np.where(there[0] & there[1], np.abs((shares[0] - shares[1]) / 2), 0.0)
    return ((1 - deviation) * float(HIGHEST)).astype(np.int64)
