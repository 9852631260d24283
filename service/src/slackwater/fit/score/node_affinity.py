"""NodeAffinity: prefers nodes that match preferred node selector terms, by weight."""

import numpy as np

from slackwater.fit.score.normalizing import by_the_highest
from slackwater.model.columns import Int64, Rows
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_selector import rows_of_term


def preferences_differ(_snapshot: ClusterSnapshot, kind: NumberedGroup) -> bool:
    return bool(kind.asks.preferred_nodes)


def score_node_affinity(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Rows) -> Int64:
    raw = np.zeros(len(rows), np.int64)
    if not kind.asks.preferred_nodes:
        return raw
    for weighted in kind.asks.preferred_nodes:
        raw += weighted.weight * rows_of_term(snapshot.facts, weighted.term, rows)
    return by_the_highest(raw)
