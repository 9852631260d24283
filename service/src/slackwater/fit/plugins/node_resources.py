"""kube-scheduler's plug-ins for resources: NodeResourcesFit (filter and score) and NodeResourcesBalancedAllocation (score).

The pod's requests must fit into what is allocatable and not yet requested: CPU, memory, ephemeral storage, huge pages, extended
resources, and the count of pods. A resource that the pod does not request, or that its scheduler's profile ignores, is not
judged. Nodes that are too small even when empty get another reason, because evicting pods does not help there. An extended
resource that a DeviceClass backs is left to DynamicResources on nodes that do not offer it themselves.

The score of NodeResourcesFit prefers nodes by how much of their CPU and memory is requested; by default the node with the most
room left is best (LeastAllocated). Containers without a request count as 100 millicores and 200 MiB there, so that pods without
requests are spread too. NodeResourcesBalancedAllocation prefers nodes where the pod makes the use of CPU and memory more even;
before 1.36, nodes where the use is most even with the pod. The scores follow k8s.io/kubernetes v1.36.3,
pkg/scheduler/framework/plugins/noderesources.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal

import numpy as np

from slackwater.fit.plugins import Predicate
from slackwater.fit.scoring import HIGHEST, Arithmetic, Pair, Room, Value
from slackwater.model.columns import Codes, Int64
from slackwater.model.ids import Row
from slackwater.model.reasons import Reason
from slackwater.model.scheduler_profile import DEFAULT_PROFILE, profile_of
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_facts import CPU, MEMORY, PODS
from slackwater.snapshot.row_journal import Selection, n_selected


def judge_node_resources_fit(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Selection) -> Codes:
    allocatable, used = snapshot.facts.allocatable, snapshot.used_against(kind.kind)
    if lacking_everywhere(snapshot, kind):
        return np.full(n_selected(rows), Reason.RESOURCES_ABOVE_NODE, np.uint8)
    full = used[PODS, : snapshot.n_rows][rows] + 1 > allocatable[PODS, : snapshot.n_rows][rows]
    backed = _backed_lines(snapshot, kind) if kind.asks.container_devices else ()
    short: Codes = full.astype(np.uint8) * np.uint8(Reason.RESOURCES_SHORT)
    for line, amount in asked_lines(snapshot, kind):
        total = allocatable[line, : snapshot.n_rows][rows]
        lacking = total - used[line, : snapshot.n_rows][rows] < amount
        if lacking.any() and line in backed:
            lacking &= total > 0
        if lacking.any():
            short[lacking & (short == 0)] = Reason.RESOURCES_SHORT
            short[lacking & (total < amount)] = Reason.RESOURCES_ABOVE_NODE
    return short


def unoffered(snapshot: ClusterSnapshot, kind: NumberedGroup) -> list[tuple[str, int]]:
    """What the pod requests of resources that no node offers, and that are judged for it."""
    asked = snapshot.kinds.unoffered.get(kind.id, ())
    left_out = ignored(snapshot, kind) if asked else ()
    return [pair for pair in asked if pair[0] not in left_out]


def lacking_everywhere(snapshot: ClusterSnapshot, kind: NumberedGroup) -> list[str]:
    """The resources that the pod requests and that no node offers, unless a DeviceClass backs them."""
    asked = unoffered(snapshot, kind)
    backed = {each.resource for each in kind.asks.container_devices} if asked else ()
    return [name for name, _ in asked if name not in backed or snapshot.devices.class_of(name) is None]


def _backed_lines(snapshot: ClusterSnapshot, kind: NumberedGroup) -> frozenset[int]:
    """The resources that a DeviceClass backs, as indexes in resource columns."""
    line, class_of = snapshot.facts.resource, snapshot.devices.class_of
    backed = {each.resource for each in kind.asks.container_devices if class_of(each.resource) is not None}
    return frozenset(line[resource] for resource in backed if resource in line)


def asked_lines(snapshot: ClusterSnapshot, kind: NumberedGroup) -> list[tuple[int, int]]:
    """The resources that are judged for the pod, as (index in resource columns, amount) pairs, without the count of pods."""
    asked, ignored = snapshot.kinds.requests_of[kind.id], ignored_lines(snapshot, kind)
    return [(line, amount) for line, amount in asked if line != PODS and line not in ignored]


def ignored(snapshot: ClusterSnapshot, kind: NumberedGroup) -> frozenset[str]:
    """The resources of the pod that its scheduler's profile does not judge."""
    profile = profile_of(snapshot.facts.profiles, kind.kind)
    return frozenset() if profile is DEFAULT_PROFILE else frozenset(filter(profile.ignores, dict(kind.asks.scalars)))


def ignored_lines(snapshot: ClusterSnapshot, kind: NumberedGroup) -> frozenset[int]:
    """The same as indexes in resource columns, of those that have one."""
    line = snapshot.facts.resource
    return frozenset(line[name] for name in ignored(snapshot, kind) if name in line)


def short_resources(snapshot: ClusterSnapshot, kind: NumberedGroup, row: Row) -> list[str]:
    """kube-scheduler's messages for the resources that are short on a row, in kube-scheduler's order."""
    allocatable, used = snapshot.facts.allocatable[:, row], snapshot.used_against(kind.kind)[:, row]
    words = ["Too many pods"] if used[PODS] + 1 > allocatable[PODS] else []
    names, backed = list(snapshot.facts.resource), _backed_lines(snapshot, kind)
    short = [
        names[line]
        for line, amount in asked_lines(snapshot, kind)
        if allocatable[line] - used[line] < amount and not (line in backed and allocatable[line] <= 0)
    ]
    return words + [f"Insufficient {name}" for name in (*short, *lacking_everywhere(snapshot, kind))]


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


def score_balanced_allocation(room: Room, kind: NumberedGroup, *, by_improvement: bool = True) -> Value:
    """The score of each row. `by_improvement`: `Rule.BALANCE_BY_IMPROVEMENT` holds."""
    requests, used = kind.kind.requests, room.used
    if not any(requests):
        return 0 * used[CPU]
    after = _evenness((used[CPU] + requests.cpu, used[MEMORY] + requests.memory), room.capacity, room.of)
    if not by_improvement:
        return after
    half = HIGHEST // 2
    return half + (half + after - _evenness(used, room.capacity, room.of)) // 2


def _evenness(used: Pair, capacity: Pair, of: Arithmetic) -> Value:
    """How evenly CPU and memory of each row are used: 100 if both shares are equal, 50 if one is full and the other empty. A
    node that lacks one of the resources counts as even."""
    cpu = of.smaller(used[CPU] / of.larger(capacity[CPU], 1), 1.0)
    memory = of.smaller(used[MEMORY] / of.larger(capacity[MEMORY], 1), 1.0)
    deviation = of.where((capacity[CPU] > 0) & (capacity[MEMORY] > 0), abs((cpu - memory) / 2), 0.0)
    return of.whole((1 - deviation) * float(HIGHEST))


RESOURCES_FIT: Final = Predicate(
    name="NodeResourcesFit",
    part=lambda snapshot, kind: (
        kind.kind.requests,
        kind.asks.scalars,
        ignored(snapshot, kind),
        snapshot.yielding is not None and not kind.kind.preempts,
    ),
    judge=judge_node_resources_fit,
    reads="room",
)
