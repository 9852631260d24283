"""The nomination snapshot: a snapshot that follows the state machine, the backlog of pods, and the rankings of their groups.

The snapshot is brought up to date in two ways: by the loop, which yields to other tasks in between; and at once, when filter's
answer needs it and little has changed. Both never run at the same time.
"""

import sys
from collections.abc import Sequence
from typing import Final

import anyio.lowlevel
import anyio.to_thread
import numpy as np

from slackwater.controllers.nomination.backlog import Backlog, Eligibility
from slackwater.controllers.nomination.node_ranking import Chooser
from slackwater.fit.best_node import Best, Samples, Scoring
from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.columns import Rows
from slackwater.model.ids import Instant, NodeName
from slackwater.model.objects import Pod
from slackwater.runtime.change_collector import NominatedChangeCollector
from slackwater.runtime.state_machine import StateMachine
from slackwater.snapshot.equivalence_groups import keys_read
from slackwater.snapshot.snapshot_replica import SnapshotReplica

#: Changed objects that are collected before other tasks run: a few milliseconds of work.
_SLICE: Final = 200
#: Up to so many changed pods are applied to the replica by a shorter path, when filter asks.
_FEW: Final = 16
#: More changes than this are applied by a worker thread.
_MANY: Final = 2_000
#: Python's thread switch interval while that worker thread runs, instead of 5 ms: the event loop waits so long for its turn.
_SWITCH_SECONDS: Final = 1e-4
_NOT_KEPT: Final = -1


class NominationSnapshot:
    """A snapshot for choosing nodes, kept up to date with the state machine; with the backlog and the cached scores. It exists
    while nominations are enabled."""

    def __init__(self, state_machine: StateMachine, eligible: Eligibility, scoring: Scoring) -> None:
        self.backlog = Backlog(eligible.nominated, state_machine.advance_nominations.sequence_of)
        self.chooser = Chooser(scoring)
        self.replica = SnapshotReplica()
        self.rescore_at = Instant(0.0)
        self._state_machine = state_machine
        self._eligible = eligible
        self._samples = Samples(scoring)
        self._collector = NominatedChangeCollector(state_machine)
        #: Collected changes that are not applied to the replica yet.
        self._nodes: list[NodeChange] = []
        self._pods: list[PodChange] = []
        #: Whether the loop is catching up now, or has never caught up.
        self._behind = True
        #: The snapshot's row for each row of the state machine.
        self._row_at: Rows = np.zeros(0, np.intp)
        self._row_at_is_of: tuple[int, int] = (-1, -1)

    def stop(self) -> None:
        """Stops the collection of changes."""
        self._collector.stop()

    def forget_scores(self) -> None:
        """Drops all scores. Called when data may have changed that the scores read and no journal shows."""
        self.chooser.forget()
        self._samples.forget()

    async def catch_up(self) -> None:
        """Brings the snapshot up to date with the state machine as of some instant during this call."""
        self._behind = True
        while len(self._collector) > _SLICE:
            nodes, pods = self._collector.some(_SLICE)
            self._nodes += nodes
            self._pods += pods
            await anyio.lowlevel.checkpoint()
        changes = self._rest()
        if len(changes.pods) > _MANY or len(changes.nodes) > _MANY or self._reads_more(changes.pods):
            await _in_thread(self.replica, changes)
        else:
            self.replica.take(changes)
        self.backlog.take(changes.pods)
        self._behind = False

    def best_of(self, pod: Pod, rows: Rows) -> Best | None:
        """The best of `rows`, which are rows of the state machine, for the pod. None: the snapshot is not up to date, lacks a
        row or a label that the pod's constraints read, or filter may not choose a node for the pod."""
        if not self._eligible.chosen(pod) or not self._caught_up():
            return None
        snapshot = self.replica.snapshot
        if pod.kind.pod_constraints is not None and not keys_read(pod.kind) <= snapshot.kinds.keys:
            return None
        there = self._rows_there()[rows]
        if np.minimum.reduce(there) == _NOT_KEPT:
            return None
        return self._samples.best_of(snapshot, snapshot.kind_id(pod.kind, pod.labels), there)

    def _caught_up(self) -> bool:
        if self._behind or self._pods or self._nodes or len(self._collector) > _SLICE:
            return False
        if (pods := self._collector.few(_FEW)) is not None:
            return self._took(pods)
        changes = self._rest()
        if self._reads_more(changes.pods):  # the loop builds the snapshot again
            self._nodes, self._pods = list(changes.nodes), list(changes.pods)
            return False
        self.replica.take(changes)
        self.backlog.take(changes.pods)
        return True

    def _took(self, pods: list[PodChange]) -> bool:
        if self._reads_more(pods):
            self._pods = pods
            return False
        self.replica.take_pods(pods)
        self.backlog.take(pods)
        return True

    def _rest(self) -> Changes:
        changes = self._collector.rest((self._nodes, self._pods))
        self._nodes, self._pods = [], []
        return changes

    def _rows_there(self) -> Rows:
        nodes, snapshot = self._state_machine.state.nodes, self.replica.snapshot
        key = nodes.names_version, self.replica.builds
        if key != self._row_at_is_of:
            row_of = snapshot.facts.row_of
            names = ("" if node is None else node.name for node in nodes.by_row)
            found = [*(row_of.get(NodeName(name), _NOT_KEPT) for name in names), _NOT_KEPT]  # the last one is for `NO_ROW`
            self._row_at = np.array(found, np.intp)
            self._row_at_is_of = key
        return self._row_at

    def _reads_more(self, changes: Sequence[PodChange]) -> bool:
        """Do these pods have selectors on labels that the snapshot was built without? Then the loop has to rebuild it."""
        kinds = {id(pod.kind): pod.kind for _, pod, _ in changes if pod is not None and pod.kind.pod_constraints is not None}
        return any(not keys_read(kind) <= self.replica.snapshot.kinds.keys for kind in kinds.values())


async def _in_thread(replica: SnapshotReplica, changes: Changes) -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        await anyio.to_thread.run_sync(replica.take, changes)
    finally:
        sys.setswitchinterval(before)
