"""The pods on each row. A snapshot itself has only the number of pods of each equivalence group."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from slackwater.model.ids import NodeName, Row
from slackwater.model.objects import Pod
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.counters import summed
from slackwater.snapshot.equivalence_groups import KindId


class RunningPod(NamedTuple):
    """A pod, and the number of its equivalence group in the snapshot."""

    pod: Pod
    kind: KindId


class PodsByRow(Protocol):
    """Gives the pods on each row: `RunningPods`, built once, or `snapshot.snapshot_replica.SnapshotReplica`, which follows the
    cluster."""

    def on(self, row: Row) -> list[RunningPod]:
        """The pods of a row."""
        ...


class NotedPods(PodsByRow, Protocol):
    """The pods on each row, with notes of readers."""

    def notes(self, key: Hashable) -> dict[NodeName, Any]:
        """What a reader, which `key` names, notes of the pods on nodes. The note on a node is dropped when its pods change, so
        it may say only what follows from these pods and the key."""
        ...


class RunningPods:
    """The pods that a snapshot was built from, by row. For 150,000 pods this is built in about 0.3 s."""

    def __init__(self, snapshot: ClusterSnapshot, pods: Sequence[Pod]) -> None:
        """Leaves out pods that have no node, are on unknown nodes or have ended, as the snapshot does."""
        row_of = snapshot.facts.row_of
        found = [(pod, row_of[pod.node]) for pod in pods if pod.node in row_of and not pod.ended]
        rows = np.fromiter((row for _, row in found), np.intp, len(found))
        order = np.argsort(rows, kind="stable")
        self._pods = [found[index][0] for index in order.tolist()]
        self._kinds = snapshot.number(self._pods)
        self._starts = np.searchsorted(rows[order], np.arange(snapshot.n_rows + 1))
        self._notes: dict[Hashable, dict[NodeName, Any]] = {}

    def notes(self, key: Hashable) -> dict[NodeName, Any]:
        """As of `NotedPods`; the pods here do not change."""
        return self._notes.setdefault(key, {})

    def on(self, row: Row) -> list[RunningPod]:
        """The pods of a row, in the order of the constructor's argument. Rows that were added later have none."""
        if row >= len(self._starts) - 1:
            return []
        start, end = int(self._starts[row]), int(self._starts[row + 1])
        kinds = self._kinds[start:end].tolist()
        return [RunningPod(pod, KindId(kind)) for pod, kind in zip(self._pods[start:end], kinds, strict=True)]


def let_yield(snapshot: ClusterSnapshot, placed: Sequence[tuple[KindId, Row]]) -> None:
    """Makes placed pods, each given by its equivalence group and row, expendable (`ClusterSnapshot.let_yield`)."""
    if not placed:
        return
    table = np.array(placed, np.intp)
    kinds, rows, counts = summed(table[:, 0], table[:, 1], np.ones(len(table), np.int64))
    for kind in np.unique(kinds).tolist():
        snapshot.let_yield(KindId(kind), rows[kinds == kind], counts[kinds == kind])


class AtLeast:
    """The pods on each row that are not expendable, for this priority cutoff."""

    def __init__(self, running_pods: NotedPods, priority: int) -> None:
        self._running_pods = running_pods
        self._priority = priority

    def notes(self, key: Hashable) -> dict[NodeName, Any]:
        """As of `NotedPods`."""
        return self._running_pods.notes((key, self._priority))

    def on(self, row: Row) -> list[RunningPod]:
        """The pods of a row."""
        return [running_pod for running_pod in self._running_pods.on(row) if not running_pod.pod.expendable(self._priority)]
