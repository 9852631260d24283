"""InterPodAffinity: prefers nodes near pods that the pod prefers, or that prefer the pod, and avoids nodes near pods that repel
it.

A required affinity term of an existing pod counts as a preference of weight 1, unless the profile says otherwise.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.fit.filter.inter_pod_affinity import pods_by_value, term_counter
from slackwater.fit.score.normalizing import HIGHEST
from slackwater.model.columns import Int64, Rows
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.counted_pods import Role
from slackwater.snapshot.counters import Counter
from slackwater.snapshot.equivalence_groups import NumberedGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAffinityScoring:
    """Settings of the score. `hard_weight` is the weight of a required affinity term of an existing pod, 0..100.

    `ignores_existing`: the preferences of existing pods do not matter for a pod that has none itself
    (`ignorePreferredTermsOfExistingPods`).
    """

    hard_weight: int = 1
    ignores_existing: bool = False


BY_DEFAULT: Final = PodAffinityScoring()


def affinities_differ(snapshot: ClusterSnapshot, kind: NumberedGroup) -> bool:
    counters = snapshot.counters
    return bool(kind.asks.preferred_pods or counters.about(kind, "affinity") or counters.about(kind, "preferred"))


def score_inter_pod_affinity(
    snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Rows, scoring: PodAffinityScoring = BY_DEFAULT
) -> Int64:
    raw = np.zeros(len(rows), np.int64)
    if not affinities_differ(snapshot, kind) or (scoring.ignores_existing and not kind.asks.preferred_pods):
        return raw
    for weighted in kind.asks.preferred_pods:
        counter = term_counter(snapshot, weighted.term)
        raw += weighted.weight * _by_row(snapshot, weighted.term.topology_key, counter, rows)
    # Existing pods whose affinity terms or preferences match the pod.
    roles: tuple[tuple[Role, int], ...] = (("affinity", scoring.hard_weight), ("preferred", 1))
    for role, weight in roles:
        for topology_key, counter in snapshot.counters.sums_about(kind, role).items():
            raw += weight * _by_row(snapshot, topology_key, counter, rows)
    lowest, highest = int(raw.min(initial=0)), int(raw.max(initial=0))
    if len(raw):
        lowest, highest = int(raw.min()), int(raw.max())
    if lowest == highest:
        return np.zeros(len(rows), np.int64)
    return (float(HIGHEST) * ((raw - lowest).astype(np.float64) / float(highest - lowest))).astype(np.int64)


def _by_row(snapshot: ClusterSnapshot, topology_key: str, counter: Counter, rows: Rows) -> Int64:
    sums: Int64 = np.append(pods_by_value(snapshot, topology_key, counter), 0)
    return sums[snapshot.facts.label(topology_key).ids[rows]]
