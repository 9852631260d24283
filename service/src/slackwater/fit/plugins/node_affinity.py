"""kube-scheduler's NodeAffinity: nodeSelector, required node affinity, and the affinity that the pod's profile adds.

The score prefers nodes that match preferred node selector terms, by weight.
"""

from collections.abc import Hashable
from typing import Final

import numpy as np

from slackwater.fit.plugins import Predicate, Refusal
from slackwater.fit.scoring import by_the_highest
from slackwater.model.columns import Codes, Int64, Mask, Rows
from slackwater.model.ids import NodeName
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


def _part(snapshot: ClusterSnapshot, kind: NumberedGroup) -> Hashable | None:
    part = kind.kind.node_selector, kind.kind.node_affinity, profile_of(snapshot.facts.profiles, kind.kind).added_affinity
    return None if part == ((), None, None) else part


def _refuse(_snapshot: ClusterSnapshot, kind: NumberedGroup) -> Refusal | None:
    conflict = kind.kind.node_affinity is not None and names_asked(kind.kind) == frozenset()
    return Refusal(Reason.AFFINITY_CONFLICT, Reason.AFFINITY_CONFLICT.text) if conflict else None


def _judge_left_out(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Selection) -> Codes:
    """Rejects nodes that the affinity does not list, if it lists nodes by name: kube-scheduler looks at no others."""
    row_of = snapshot.facts.row_of
    named = [row_of[NodeName(name)] for name in names_asked(kind.kind) or () if NodeName(name) in row_of]
    return coded(~np.isin(np.arange(snapshot.n_rows)[rows], named), Reason.NODE_LEFT_OUT)


NODE_AFFINITY: Final = Predicate(
    name="NodeAffinity",
    part=_part,
    judge=lambda snapshot, kind, rows: judge_node_affinity(snapshot.facts, kind.kind, rows),
    reads="facts",
    refuse=_refuse,
)
LEFT_OUT: Final = Predicate(
    name="LeftOut",
    part=lambda _, kind: kind.kind.node_affinity if names_asked(kind.kind) else None,
    judge=_judge_left_out,
    reads="facts",
)
