"""kube-scheduler's NodeAffinity: nodeSelector, required node affinity, and the affinity that the pod's profile adds."""

import numpy as np

from slackwater.model.columns import Codes, Mask
from slackwater.model.pod_constraints import Kind
from slackwater.model.reasons import Reason
from slackwater.model.scheduler_profile import profile_of
from slackwater.snapshot.node_facts import ABSENT, NodeFacts
from slackwater.snapshot.node_selector import NAME_FIELD, rows_of_terms
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
