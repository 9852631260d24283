"""kube-scheduler's InterPodAffinity: pods that must be placed together or apart, by the values of a node label.

It has three rules, in this order. The incoming pod's affinity: for each term the node's value of the label must have a pod that
matches all terms; if no pod in the cluster matches, a pod that matches its own terms is accepted, as the first of its series.
The incoming pod's anti-affinity: no matching pod has the node's value. The anti-affinity of existing pods: none of their terms
matches the incoming pod.

Its score prefers nodes near pods that the pod prefers, or that prefer the pod, and avoids nodes near pods that repel it. A
required affinity term of an existing pod counts as a preference of weight 1, unless the profile says otherwise.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.fit.plugins import Predicate
from slackwater.fit.scoring import HIGHEST
from slackwater.model.columns import Codes, Int64, Mask, Rows
from slackwater.model.pod_constraints import PodTerm
from slackwater.model.reasons import Reason
from slackwater.model.selectors import selects
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.counted_pods import PodsMatching, Role
from slackwater.snapshot.counters import Counter
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_facts import ABSENT
from slackwater.snapshot.row_journal import Selection


def judge_inter_pod_affinity(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Selection) -> Codes:
    codes = np.zeros(snapshot.n_rows, np.uint8)
    for topology_key, counter in snapshot.counters.sums_about(kind, "anti").items():
        codes[_at_a_value_with(snapshot, topology_key, counter)] = Reason.EXISTING_ANTI_AFFINITY
    for term in kind.asks.anti_affinity:
        there = _at_a_value_with(snapshot, term.topology_key, term_counter(snapshot, term))
        codes[there] = Reason.POD_ANTI_AFFINITY
    if kind.asks.affinity:
        codes[~_affinity_met(snapshot, kind)] = Reason.POD_AFFINITY
    return codes[rows]


def repelling_counters(snapshot: ClusterSnapshot, kind: NumberedGroup) -> list[Counter]:
    """The counters of placed pods whose required anti-affinity matches pods of the equivalence group."""
    return snapshot.counters.about(kind, "anti")


def term_counter(snapshot: ClusterSnapshot, *terms: PodTerm) -> Counter:
    """The counter of the pods that match all these terms of the incoming pod."""
    return snapshot.counters.matching(pods_of_terms(snapshot, *terms))


def pods_of_terms(snapshot: ClusterSnapshot, *terms: PodTerm) -> PodsMatching:
    """The pods that match all these terms of the incoming pod."""
    return PodsMatching(tuple((snapshot.namespaces.of_incoming(term), term.selector) for term in terms))


def matches_all_its_terms(snapshot: ClusterSnapshot, kind: NumberedGroup) -> bool:
    """Whether the pod matches all of its own affinity terms."""
    for term in kind.asks.affinity:
        namespaces = snapshot.namespaces.of_incoming(term)
        if namespaces is not None and kind.kind.namespace not in namespaces:
            return False
        if not selects(term.selector, kind.labels):
            return False
    return True


def pods_by_value(snapshot: ClusterSnapshot, topology_key: str, counter: Counter) -> Int64:
    """The counter's sum over the live nodes for each value of the label `topology_key`; shape (values,)."""
    column, n_rows = snapshot.facts.label(topology_key), snapshot.n_rows
    counted = (column.ids[:n_rows] != ABSENT) & snapshot.facts.live[:n_rows]
    pods = snapshot.counters.read(counter)[:n_rows][counted]
    return np.bincount(column.ids[:n_rows][counted], weights=pods, minlength=len(column.values)).astype(np.int64)


def _at_a_value_with(snapshot: ClusterSnapshot, topology_key: str, counter: Counter) -> Mask:
    """Which rows have a value of the label `topology_key` at which the counter counts a pod."""
    if not snapshot.counters.read(counter)[: snapshot.n_rows].any():
        return np.zeros(snapshot.n_rows, np.bool_)
    ids = snapshot.facts.label(topology_key).ids[: snapshot.n_rows]
    return np.append(pods_by_value(snapshot, topology_key, counter) > 0, False)[ids]


def _affinity_met(snapshot: ClusterSnapshot, kind: NumberedGroup) -> Mask:
    terms = kind.asks.affinity
    counter = term_counter(snapshot, *terms)
    labelled = np.ones(snapshot.n_rows, np.bool_)
    together = np.ones(snapshot.n_rows, np.bool_)
    any_match = False
    for term in terms:
        pods = pods_by_value(snapshot, term.topology_key, counter)
        ids = snapshot.facts.label(term.topology_key).ids[: snapshot.n_rows]
        labelled &= ids != ABSENT
        together &= np.append(pods > 0, False)[ids]
        any_match = any_match or bool(pods.any())
    return labelled if not any_match and matches_all_its_terms(snapshot, kind) else labelled & together


def affinity_stamp(snapshot: ClusterSnapshot, kind: NumberedGroup) -> tuple[int, ...]:
    """Version numbers that change whenever the verdicts of this predicate for the equivalence group may have changed."""
    counters = [*snapshot.counters.sums_about(kind, "anti").values()]
    counters += [term_counter(snapshot, term) for term in kind.asks.anti_affinity]
    if kind.asks.affinity:
        counters.append(term_counter(snapshot, *kind.asks.affinity))
    versions = tuple(counter.version for counter in counters)
    return (snapshot.facts.journal.position, snapshot.counters.terms_version, *versions)


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
    if not len(raw) or (lowest := int(raw.min())) == (highest := int(raw.max())):
        return np.zeros(len(rows), np.int64)
    return (float(HIGHEST) * ((raw - lowest).astype(np.float64) / float(highest - lowest))).astype(np.int64)


def _by_row(snapshot: ClusterSnapshot, topology_key: str, counter: Counter, rows: Rows) -> Int64:
    sums: Int64 = np.append(pods_by_value(snapshot, topology_key, counter), 0)
    return sums[snapshot.facts.label(topology_key).ids[rows]]


def _part(snapshot: ClusterSnapshot, kind: NumberedGroup) -> Hashable | None:
    asks = kind.asks.affinity or kind.asks.anti_affinity
    return kind.id if asks or repelling_counters(snapshot, kind) else None


POD_AFFINITY: Final = Predicate(
    name="InterPodAffinity", part=_part, judge=judge_inter_pod_affinity, reads="anywhere", stamp=affinity_stamp
)
