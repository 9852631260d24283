"""Nodes with the most room left (NodeResourcesFit, LeastAllocated over CPU and memory).

Containers without a request count as 100 millicores and 200 MiB here, so that pods which ask nothing spread too.
"""

import numpy as np

from slackwater.model.columns import Int64, Rows
from slackwater.simulate.kindtable import Numbered
from slackwater.simulate.nodefacts import CPU, MEMORY
from slackwater.simulate.picture import Picture
from slackwater.simulate.preferences.normalizing import HIGHEST


def score_node_resources_fit(picture: Picture, kind: Numbered, rows: Rows) -> Int64:
    asked = kind.asks.scored_before or kind.asks.scored or kind.kind.requests
    total = np.zeros(len(rows), np.int64)
    counted = np.zeros(len(rows), np.int64)
    for line in (CPU, MEMORY):
        capacity = picture.facts.allocatable[line, rows]
        wanted = picture.scored[line, rows] + asked[line]
        left = np.maximum(capacity - wanted, 0)
        total += np.where(capacity > 0, left * HIGHEST // np.maximum(capacity, 1), 0)
        counted += capacity > 0
    return total // np.maximum(counted, 1)
