"""Pods that must stand together or apart, by the values of a node label (kube-scheduler's InterPodAffinity).

Three rules, in this order. The pod's own affinity: each term needs a value where a pod stands that matches all its terms;
the first of a series, which matches its own terms while nobody else does, is let in. Its own anti-affinity: no matching
pod at the same value. The anti-affinity of pods that stand there already: none of their terms matches this pod.
"""

import numpy as np

from slackwater.model.columns import Codes, Int64, Mask
from slackwater.model.pod_constraints import PodTerm
from slackwater.model.reasons import Reason
from slackwater.model.selectors import selects
from slackwater.snapshot.cluster_snapshot import Picture
from slackwater.snapshot.counters import Carrying, Counter, PodsMatching
from slackwater.snapshot.equivalence_groups import Numbered
from slackwater.snapshot.node_facts import ABSENT
from slackwater.snapshot.selection import Selection


def judge_inter_pod_affinity(picture: Picture, kind: Numbered, rows: Selection) -> Codes:
    codes = np.zeros(picture.n_rows, np.uint8)
    for counter in repelling_counters(picture, kind):
        assert isinstance(counter.of, Carrying)
        codes[_at_a_value_with(picture, counter.of.term.topology_key, counter)] = Reason.EXISTING_ANTI_AFFINITY
    for term in kind.asks.anti_affinity:
        there = _at_a_value_with(picture, term.topology_key, term_counter(picture, term))
        codes[there] = Reason.POD_ANTI_AFFINITY
    if kind.asks.affinity:
        codes[~_affinity_met(picture, kind)] = Reason.POD_AFFINITY
    return codes[rows]


def repelling_counters(picture: Picture, kind: Numbered) -> list[Counter]:
    """Counters of placed pods whose required anti-affinity matches pods of the kind."""
    key = ("repelling", kind.id)
    known = picture.kept.get(key)
    if isinstance(known, tuple) and known[0] == picture.counters.terms_version:
        found: list[Counter] = known[1]
        return found
    found = picture.counters.about(kind, "anti")
    picture.kept[key] = (picture.counters.terms_version, found)
    return found


def term_counter(picture: Picture, *terms: PodTerm) -> Counter:
    """Counts the pods that all of the incoming pod's terms match."""
    parts = tuple((picture.namespaces.of_incoming(term), term.selector) for term in terms)
    return picture.counters.matching(PodsMatching(parts))


def matches_all_its_terms(picture: Picture, kind: Numbered) -> bool:
    """Would the pod count for its own affinity?"""
    for term in kind.asks.affinity:
        namespaces = picture.namespaces.of_incoming(term)
        if namespaces is not None and kind.kind.namespace not in namespaces:
            return False
        if not selects(term.selector, kind.labels):
            return False
    return True


def pods_by_value(picture: Picture, topology_key: str, counter: Counter) -> Int64:
    """What the counter counts at each value of the label, over the nodes that are there; shape (values,)."""
    column, n_rows = picture.facts.label(topology_key), picture.n_rows
    counted = (column.ids[:n_rows] != ABSENT) & picture.facts.live[:n_rows]
    pods = picture.counters.read(counter)[:n_rows][counted]
    return np.bincount(column.ids[:n_rows][counted], weights=pods, minlength=len(column.values)).astype(np.int64)


def _at_a_value_with(picture: Picture, topology_key: str, counter: Counter) -> Mask:
    """Rows at whose value of the label the counter counts somebody."""
    if not picture.counters.read(counter)[: picture.n_rows].any():
        return np.zeros(picture.n_rows, np.bool_)
    ids = picture.facts.label(topology_key).ids[: picture.n_rows]
    return np.append(pods_by_value(picture, topology_key, counter) > 0, False)[ids]


def _affinity_met(picture: Picture, kind: Numbered) -> Mask:
    terms = kind.asks.affinity
    counter = term_counter(picture, *terms)
    labelled = np.ones(picture.n_rows, np.bool_)
    together = np.ones(picture.n_rows, np.bool_)
    anybody = False
    for term in terms:
        pods = pods_by_value(picture, term.topology_key, counter)
        ids = picture.facts.label(term.topology_key).ids[: picture.n_rows]
        labelled &= ids != ABSENT
        together &= np.append(pods > 0, False)[ids]
        anybody = anybody or bool(pods.any())
    if not anybody and matches_all_its_terms(picture, kind):
        return labelled
    return labelled & together


def affinity_stamp(picture: Picture, kind: Numbered) -> tuple[int, ...]:
    """Moves whenever the verdicts of this predicate for the kind may have changed."""
    counters = repelling_counters(picture, kind) + [term_counter(picture, term) for term in kind.asks.anti_affinity]
    if kind.asks.affinity:
        counters.append(term_counter(picture, *kind.asks.affinity))
    versions = tuple(counter.version for counter in counters)
    return (picture.facts.journal.position, picture.counters.terms_version, *versions)
