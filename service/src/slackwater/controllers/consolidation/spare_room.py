"""Proposes present nodes for pods, so that no resource of the free room is left over.

In: a snapshot without the nodes that go, and the pods in the order in which they are placed. Out: a node for as many pods as
room suffices for, by amounts. Each pod goes where the scarcest resource has the most left, as a share of the node: first-fit
fills a node with pods of one size, and leaves what these do not need. Rules about other pods are judged where the proposal is
used.
"""

from collections.abc import Sequence

import numpy as np

from slackwater.controllers.scaleup.packing.problem import Floats
from slackwater.fit.feasible_nodes import feasible
from slackwater.model.columns import Rows
from slackwater.model.ids import NodeName, PodUid
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.running_pods import RunningPod


def proposed_nodes(snapshot: ClusterSnapshot, pods: Sequence[RunningPod]) -> dict[PodUid, NodeName]:
    """The proposed node of each pod, as far as there is room."""
    n_lines, n_rows = len(snapshot.facts.resource), snapshot.n_rows
    has: Floats = np.maximum(snapshot.facts.allocatable[:n_lines, :n_rows].T, 1).astype(np.float64)
    free: Floats = 1 - snapshot.used[:n_lines, :n_rows].T / has
    by_kind: dict[KindId, list[PodUid]] = {}
    for each in pods:
        by_kind.setdefault(each.kind, []).append(each.pod.uid)
    found: dict[PodUid, NodeName] = {}
    for kind, uids in by_kind.items():
        requests = snapshot.kinds.requests[:n_lines, kind]
        rows, lines = feasible(snapshot, kind).rows, np.flatnonzero(requests)
        at = np.ix_(rows, lines)
        left = free[at]
        taken = _taken(left, requests[lines] / has[at], len(uids))
        free[at] = left
        found.update((uid, snapshot.facts.nodes[row].name) for uid, row in zip(uids, rows[taken].tolist(), strict=False))
    return found


def _taken(left: Floats, shares: Floats, count: int) -> Rows:
    """The position of a node for each of so many equal pods, as far as they fit. `left`: shares of each node, shape (nodes,
    lines), from which they are taken off; `shares`: what a pod takes of it."""
    taken: list[int] = []
    if not left.size:
        return np.array(taken, np.intp)
    rest = (left - shares).min(axis=1)
    for _ in range(count):
        best = int(rest.argmax())
        if rest[best] < 0:
            break
        left[best] -= shares[best]
        rest[best] = (left[best] - shares[best]).min()
        taken.append(best)
    return np.array(taken, np.intp)
