"""NodeResourcesFit: prefers nodes by how much of their CPU and memory is requested.

By default the node with the most room left is best (LeastAllocated). Containers without a request count as 100 millicores and
200 MiB here, so that pods without requests are spread too. The strategies follow k8s.io/kubernetes v1.36.3,
pkg/scheduler/framework/plugins/noderesources.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal

import numpy as np

from slackwater.fit.score.normalizing import HIGHEST
from slackwater.fit.score.room import Arithmetic, Room, Value
from slackwater.model.columns import Int64
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


def score_node_resources_fit(room: Room, kind: NumberedGroup, *, scoring: ResourceScoring = LEAST_ALLOCATED) -> Value:
    """The score of each row."""
    asked, of = kind.asks.scored_before or kind.asks.scored or kind.kind.requests, room.of
    total: Value = 0
    weights: Value = 0
    for resource, weight in ((CPU, scoring.cpu), (MEMORY, scoring.memory)):
        capacity = room.capacity[resource]
        score = _score_of(room.scored[resource] + asked[resource], capacity, scoring, of)
        counts = capacity > 0  # a resource without capacity is not counted
        if scoring.strategy == "RequestedToCapacityRatio":
            counts = counts & (score > 0)
        weight_there = of.where(counts, weight, 0)
        total = total + score * weight_there
        weights = weights + weight_there
    if scoring.strategy == "RequestedToCapacityRatio":
        return of.whole(total / of.larger(weights, 1) + 0.5)  # to the nearest whole number, halves up
    return total // of.larger(weights, 1)


def _score_of(wanted: Value, capacity: Value, scoring: ResourceScoring, of: Arithmetic) -> Value:
    """The score of one resource, of which `wanted` would be requested with the pod."""
    if scoring.strategy == "LeastAllocated":
        return of.larger(capacity - wanted, 0) * HIGHEST // of.larger(capacity, 1)
    used = of.smaller(wanted, capacity) * HIGHEST // of.larger(capacity, 1)
    return used if scoring.strategy == "MostAllocated" else by_utilization(scoring.shape)[used]


@lru_cache(maxsize=8)
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
