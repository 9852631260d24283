"""Nodes that match preferred node selector terms, by weight (NodeAffinity)."""

import numpy as np

from slackwater.model.columns import Int64, Rows
from slackwater.simulate.kindtable import Numbered
from slackwater.simulate.picture import Picture
from slackwater.simulate.predicates.node_affinity import rows_of_term
from slackwater.simulate.preferences.normalizing import by_the_highest


def tells_nodes_apart(_picture: Picture, kind: Numbered) -> bool:
    return bool(kind.asks.preferred_nodes)


def score_node_affinity(picture: Picture, kind: Numbered, rows: Rows) -> Int64:
    raw = np.zeros(len(rows), np.int64)
    if not kind.asks.preferred_nodes:
        return raw
    for weighted in kind.asks.preferred_nodes:
        raw += weighted.weight * rows_of_term(picture.facts, weighted.term, rows)
    return by_the_highest(raw)
