"""Slack in scale-down plans: placeholders are put on their nodes like pods that would have to move, after all pods.

They do not count in which nodes may be tried, nor in a removal's score: kept room is no use of a node, and moving it disturbs
no pod. But no node goes unless its placeholders fit elsewhere. Pods of nodes under removal, and evicted ones, are placed before
them. A placeholder for which they leave no room is not placed: no removal makes that worse.
"""

from collections.abc import Sequence

import numpy as np

from slackwater.fit.packing import NOWHERE, Hints, place_pods
from slackwater.model.columns import Rows
from slackwater.model.ids import NodeName, Row
from slackwater.model.objects import Pod
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.running_pods import RunningPod, Standing


class PlaceholderPods:
    """The pods of each row, with placeholders once `put` has placed them."""

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self._put: dict[int, list[RunningPod]] = {}

    def on(self, row: Row) -> list[RunningPod]:
        return [*self._standing.on(row), *self._put.get(row, ())]

    def put(self, snapshot: ClusterSnapshot, pods: Sequence[Pod], rows: Rows) -> None:
        """Places placeholders where they were, or on the first of `rows` that takes them."""
        if not pods:
            return
        row_of, nowhere = snapshot.facts.row_of, NodeName("")
        kinds = snapshot.number(pods)
        order = np.argsort(kinds, kind="stable")
        hints = np.fromiter((row_of.get(pod.node or nowhere, NOWHERE) for pod in pods), np.intp, len(pods))
        open_rows = rows[snapshot.facts.live[rows]]
        found = place_pods(snapshot, kinds[order], rows=open_rows, hints=Hints(pods=hints[order])).rows
        for at, row in zip(order.tolist(), found.tolist(), strict=True):
            if row != NOWHERE:
                self._put.setdefault(row, []).append(RunningPod(pods[at], KindId(int(kinds[at]))))
