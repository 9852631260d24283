"""kube-scheduler's NodeAffinity: nodeSelector, required node affinity, and the affinity that the pod's profile adds.

The score prefers nodes that match preferred node selector terms, by weight.
"""

import numpy as np

from slackwater.fit.scoring import by_the_highest
from slackwater.model.columns import Codes, Int64, Mask, Rows
from slackwater.model.pod_constraints import Kind
from slackwater.model.reasons import Reason
from slackwater.model.scheduler_profile import profile_of
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_facts import ABSENT, NodeFacts
from slackwater.snapshot.node_selector import NAME_FIELD, rows_of_term, rows_of_terms
from slackwater.snapshot.row_journal import Selection, coded


def judge_node_affinity(facts: NodeFacts, kind: Kind, rows: Selection) -> Codes:
    codes = coded(~matching_rows(facts, kind, rows), Reason.NODE_AFFINITY)
    added = profile_of(facts.profiles, kind).added_affinity
    if added is not None:
        codes[~rows_of_terms(facts, added, rows)] = Reason.NODE_AFFINITY_ENFORCED
    return codes


def matching_rows(facts: NodeFacts, kind: Kind, rows: Selection) -> Mask:
    """Which rows the nodeSelector and the required affinity accept."""
    matching = np.ones(facts.n_rows, np.bool_)[rows]
    for key, value in kind.node_selector:
        column = facts.label(key)
        number = column.known(value)
        matching &= (column.ids[: facts.n_rows][rows] == number) if number != ABSENT else False
        if not matching.any():
            return matching
    if kind.node_affinity is not None:
        matching &= rows_of_terms(facts, kind.node_affinity, rows)
    return matching


def names_asked(kind: Kind) -> frozenset[str] | None:
    """The nodes that the affinity lists by name (kube-scheduler looks at no others); None if it does not restrict names.

    An empty set means that every term contradicts itself: the pod fits nowhere.
    """
    names: frozenset[str] = frozenset()
    for term in kind.node_affinity or ():
        asked = [frozenset(f.values) for f in term.fields if f.key == NAME_FIELD and f.operator == "In"]
        if not asked:
            return None
        names |= frozenset.intersection(*asked)
    return names if kind.node_affinity else None


def preferences_differ(_snapshot: ClusterSnapshot, kind: NumberedGroup) -> bool:
    return bool(kind.asks.preferred_nodes)


def score_node_affinity(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Rows) -> Int64:
    raw = np.zeros(len(rows), np.int64)
    if not kind.asks.preferred_nodes:
        return raw
    for weighted in kind.asks.preferred_nodes:
        raw += weighted.weight * rows_of_term(snapshot.facts, weighted.term, rows)
    return by_the_highest(raw)
