"""DynamicResources: prefers nodes where claims get the earlier ones of their alternatives (`firstAvailable`)."""

from typing import Final

import numpy as np

from slackwater.fit.devices.allocator import Allocator
from slackwater.fit.devices.extended import backed_resources
from slackwater.fit.devices.search import Unallocatable
from slackwater.fit.filter.dynamic_resources import claims_of, specs_on
from slackwater.fit.score.normalizing import by_the_highest
from slackwater.model.columns import Int64, Rows
from slackwater.model.devices import Allocation, ClaimSpec
from slackwater.model.ids import Row
from slackwater.model.kubernetes_rules import Rule
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import NumberedGroup

#: The API's limit of alternatives in a request. A request scores this number for its first alternative, and one less for each
#: later one.
_MOST_ALTERNATIVES: Final = 8


def alternatives_differ(snapshot: ClusterSnapshot, kind: NumberedGroup) -> bool:
    return any(request.alternatives for claim in claims_of(snapshot, kind) for request in claim.spec.requests)


def score_dynamic_resources(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Rows) -> Int64:
    if not snapshot.facts.kubernetes.follows(Rule.DEVICES_SCORED) or not alternatives_differ(snapshot, kind):
        return np.zeros(len(rows), np.int64)
    return by_the_highest(np.array([_score(snapshot, kind, Row(row)) for row in rows.tolist()], np.int64))


def _score(snapshot: ClusterSnapshot, kind: NumberedGroup, row: Row) -> int:
    """The raw score of a feasible row. As in kube-scheduler, only pods with a claim that may still have to be allocated get a
    score above 0."""
    specs, _ = specs_on(snapshot, kind, row)
    if not specs and not backed_resources(snapshot.devices, kind.asks.container_devices):
        return 0
    found = Allocator.of(snapshot).allocations(snapshot.facts, row, specs)
    if isinstance(found, Unallocatable):
        return 0
    allocations = iter(found)
    claims = claims_of(snapshot, kind)
    return sum(_score_claim(claim.spec, claim.allocation or next(allocations)) for claim in claims)


def _score_claim(spec: ClaimSpec, allocation: Allocation) -> int:
    given = {each.request for each in allocation.devices}
    return sum(
        _MOST_ALTERNATIVES - at
        for request in spec.requests
        if request.alternatives
        for at, ask in enumerate(request.asks)
        if f"{request.name}/{ask.name}" in given
    )
