"""kube-scheduler's NodeResourcesFit: requests must fit into what is allocatable and not yet requested.

It covers CPU, memory, ephemeral storage, huge pages, extended resources, and the count of pods. A resource that the pod does
not request is not judged. Nodes that are too small even when empty get another reason: evicting pods does not help there.
"""

import numpy as np

from slackwater.model.columns import Codes
from slackwater.model.ids import Row
from slackwater.model.reasons import Reason
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import Numbered
from slackwater.snapshot.node_facts import PODS
from slackwater.snapshot.selection import Selection


def judge_node_resources_fit(snapshot: ClusterSnapshot, kind: Numbered, rows: Selection) -> Codes:
    allocatable, used = snapshot.facts.allocatable, snapshot.used
    full = used[PODS, : snapshot.n_rows][rows] + 1 > allocatable[PODS, : snapshot.n_rows][rows]
    short: Codes = full.astype(np.uint8) * np.uint8(Reason.RESOURCES_SHORT)
    for line, amount in asked_lines(snapshot, kind):
        total = allocatable[line, : snapshot.n_rows][rows]
        lacking = total - used[line, : snapshot.n_rows][rows] < amount
        if lacking.any():
            short[lacking & (short == 0)] = Reason.RESOURCES_SHORT
            short[lacking & (total < amount)] = Reason.RESOURCES_ABOVE_NODE
    return short


def asked_lines(snapshot: ClusterSnapshot, kind: Numbered) -> list[tuple[int, int]]:
    """(line, amount) of the resources that the pod requests, without the count of pods."""
    asked = snapshot.kinds.requests[:, kind.id].tolist()
    return [(line, amount) for line, amount in enumerate(asked) if amount and line != PODS]


def short_resources(snapshot: ClusterSnapshot, kind: Numbered, row: Row) -> list[str]:
    """kube-scheduler's texts for what is short on a row, in its order."""
    allocatable, used = snapshot.facts.allocatable[:, row], snapshot.used[:, row]
    words = ["Too many pods"] if used[PODS] + 1 > allocatable[PODS] else []
    names = list(snapshot.facts.resource)
    return words + [
        f"Insufficient {names[line]}" for line, amount in asked_lines(snapshot, kind) if allocatable[line] - used[line] < amount
    ]
