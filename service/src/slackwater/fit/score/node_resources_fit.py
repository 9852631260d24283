"""NodeResourcesFit: prefers nodes by how much of their CPU and memory is requested.

By default the node with the most room left is best (LeastAllocated). Containers without a request count as 100 millicores and
200 MiB here, so that pods without requests are spread too. The strategies follow k8s.io/kubernetes v1.36.3,
pkg/scheduler/framework/plugins/noderesources.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import numpy as np

from slackwater.fit.score.normalizing import HIGHEST
from slackwater.model.columns import Int64, Rows
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_facts import CPU, MEMORY


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceScoring:
    """The scoring strategy: `cpu` and `memory` are the resources' weights, 0 for one that is not scored.

    `shape` belongs to RequestedToCapacityRatio: points of utilization (0..100, rising) and score (0..10)."""

    strategy: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    cpu: int = 1
    memory: int = 1
    shape: tuple[tuple[int, int], ...] = ()


LEAST_ALLOCATED: Final = ResourceScoring()


def score_node_resources_fit(
    snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Rows, scoring: ResourceScoring = LEAST_ALLOCATED
) -> Int64:
    asked = kind.asks.scored_before or kind.asks.scored or kind.kind.requests
    # A slice first: choosing two resources by a list would copy their whole columns.
    capacity = snapshot.facts.allocatable[CPU : MEMORY + 1].take(rows, axis=1)
    wanted = snapshot.scored[CPU : MEMORY + 1].take(rows, axis=1) + np.array([[asked[CPU]], [asked[MEMORY]]], np.int64)
    # A resource without capacity is not counted.
    weights: Int64 = np.where(capacity > 0, np.array([[scoring.cpu], [scoring.memory]], np.int64), 0)
    match scoring.strategy:
        case "LeastAllocated":
            each = np.maximum(capacity - wanted, 0) * HIGHEST // np.maximum(capacity, 1)
        case "MostAllocated":
            each = np.minimum(wanted, capacity) * HIGHEST // np.maximum(capacity, 1)
        case "RequestedToCapacityRatio":
            used = np.minimum(wanted, capacity) * HIGHEST // np.maximum(capacity, 1)
            each = by_utilization(scoring.shape)[used]
            weights = weights * (each > 0)
            mean = _sum(each * weights) / np.maximum(_sum(weights), 1)
            rounded: Int64 = np.floor(mean + 0.5).astype(np.int64)
            return rounded
    found: Int64 = _sum(each * weights) // np.maximum(_sum(weights), 1)
    return found


def _sum(of_each: Int64) -> Int64:
    """The sum over both resources, shape (rows,). numpy needs twice the time to reduce over so short an axis."""
    found: Int64 = of_each[0] + of_each[1]
    return found


def by_utilization(shape: tuple[tuple[int, int], ...]) -> Int64:
    """The score for each utilization from 0 to 100: linear between the points, with division toward zero as in Go; shape
    (101,)."""
    points = [(utilization, score * HIGHEST // 10) for utilization, score in shape]
    found = np.full(HIGHEST + 1, points[-1][1], np.int64)
    found[: points[0][0] + 1] = points[0][1]
    for (low, first), (high, second) in pairwise(points):
        for at in range(low + 1, high + 1):
            found[at] = first + int((second - first) * (at - low) / (high - low))
    return found
