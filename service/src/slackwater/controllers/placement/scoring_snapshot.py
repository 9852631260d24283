"""The scoring snapshot: a snapshot that follows the state machine, with cached scores, for the choice of a pod's node.

It is brought up to date in two ways: by the loop (`loop`), which yields to other tasks in between; and at once, when filter's
answer needs it and little has changed. Both never run at the same time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import anyio.lowlevel
import numpy as np
from msgspec import structs

from slackwater.fit.best_node import Best, Samples, Scoring
from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.columns import Rows
from slackwater.model.ids import Instant, NodeName
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import MOST_RULES, Kind, PodConstraints
from slackwater.ports.threads import in_thread, return_memory
from slackwater.runtime.change_collector import ChosenChangeCollector
from slackwater.runtime.state_machine import StateMachine
from slackwater.snapshot.snapshot_replica import SnapshotReplica

#: Changed objects that are collected before other tasks run: a few milliseconds of work.
_SLICE: Final = 200
#: Up to so many changed pods are applied to the replica by a shorter path, when filter asks.
_FEW: Final = 16
#: More changes than this, or new equivalence groups with more rules, are applied by a worker thread.
_MANY: Final = 2_000
#: A new equivalence group costs as much as so many changed pods.
_NEW: Final = 32
_NOT_KEPT: Final = -1


def is_scorable(pod: Pod, *, volumes_scored: bool) -> bool:
    """Can kube-scheduler's scores be computed here for the pod? Not if it has very many rules, or if they depend on which
    namespaces have certain labels; nor for a pod with claims if VolumeBinding scores (`volumes_scored`): no other score reads
    volumes."""
    if pod.kind.n_rules > MOST_RULES:
        return False
    asks = pod.kind.pod_constraints
    return asks is None or not (_scored_by_namespaces(asks) or (volumes_scored and bool(asks.claims)))


def _scored_by_namespaces(asks: PodConstraints) -> bool:
    """Does the score of a node depend on which namespaces have certain labels?"""
    return any(weighted.term.namespace_selector is not None for weighted in asks.preferred_pods)


class ScoringSnapshot:
    """A snapshot for choosing nodes, kept up to date with the state machine; with the cached scores.

    `scorings`: how kube-scheduler scores, by the `schedulerName` of its profiles. `volumes_scored`: VolumeBinding scores."""

    def __init__(self, state_machine: StateMachine, scorings: Mapping[str, Scoring], *, volumes_scored: bool) -> None:
        self.replica = SnapshotReplica()
        #: Whether nodes were chosen since `rest_at` was set, and when to drop what is cached if none were.
        self.used = False
        self.rest_at = Instant(0.0)
        self._state_machine = state_machine
        self._volumes_scored = volumes_scored
        self._samples = {name: Samples(scoring) for name, scoring in scorings.items()}
        self._collector = ChosenChangeCollector(state_machine)
        #: Collected changes that are not applied to the replica yet.
        self._nodes: list[NodeChange] = []
        self._pods: list[PodChange] = []
        #: Whether nothing is cached, because no node was chosen for long.
        self._rested = True
        #: Whether the loop is catching up now, or has never caught up.
        self._behind = True
        #: The snapshot's row for each row of the state machine.
        self._row_at: Rows = np.zeros(0, np.intp)
        self._row_at_is_of: tuple[int, int] = (-1, -1)

    def stop(self) -> None:
        """Stops the collection of changes."""
        self._collector.stop()

    def forget_scores(self) -> None:
        """Drops all scores. Called when our own score may have changed."""
        for samples in self._samples.values():
            samples.forget()

    async def rest(self, now: Instant, after_seconds: float) -> None:
        """Drops what is kept for groups of pods that are gone, or cached, if no node was chosen for `after_seconds`, and
        returns the memory."""
        if now < self.rest_at:
            return
        used, self.used, self.rest_at = self.used, False, Instant(now + after_seconds)
        if self._rested or used:
            self._rested = not used
            return
        self._rested = True
        self.forget_scores()
        self._behind = True
        await in_thread(self.replica.shed)
        self._behind = False
        await in_thread(return_memory)

    async def catch_up(self) -> None:
        """Brings the snapshot up to date with the state machine as of some instant during this call."""
        self._behind = True
        while len(self._collector) > _SLICE:
            nodes, pods = self._collector.some(_SLICE)
            self._nodes += nodes
            self._pods += pods
            await anyio.lowlevel.checkpoint()
        changes = self._rest()
        counted = replace(changes, pods=_counted(changes.pods))
        if len(changes.nodes) > _MANY or self._is_long_work(counted.pods):
            await in_thread(partial(self.replica.take, counted))
        else:
            self.replica.take(counted)
        self._behind = False

    @property
    def far_behind(self) -> bool:
        """Are there so many changes that filter would not apply them itself?"""
        return bool(self._pods or self._nodes) or len(self._collector) > _SLICE

    def best_of(self, pod: Pod, rows: Rows) -> Best | None:
        """The best of `rows`, which are rows of the state machine, for the pod. None: the scores of its profile are not known
        or cannot be computed, or the snapshot is not up to date, or lacks a row or a label that the pod's constraints read."""
        samples = self._samples.get(pod.kind.scheduler_name)
        if samples is None or not is_scorable(pod, volumes_scored=self._volumes_scored) or not self._caught_up():
            return None
        snapshot = self.replica.snapshot
        if not pod.kind.keys_read <= snapshot.kinds.keys:
            return None
        there = self._rows_there()[rows]
        if np.minimum.reduce(there) == _NOT_KEPT:
            return None
        self.used = True
        return samples.best_of(snapshot, snapshot.kind_id(pod.kind, pod.labels), there)

    def _caught_up(self) -> bool:
        if self._behind or self.far_behind:
            return False
        if (pods := self._collector.few(_FEW)) is not None:
            return self._took(pods)
        changes = self._rest()
        counted = _counted(changes.pods)
        if self._is_long_work(counted):  # the loop does it
            self._nodes, self._pods = list(changes.nodes), list(changes.pods)
            return False
        self.replica.take(replace(changes, pods=counted))
        return True

    def _took(self, pods: list[PodChange]) -> bool:
        counted = _counted(pods)
        if self._is_long_work(counted):
            self._pods = pods
            return False
        self.replica.take_pods(counted)
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

    def _is_long_work(self, changes: Sequence[PodChange]) -> bool:
        """Are there many changes, or groups with many rules? Or does the snapshot have to be built again: without groups that
        are not used any more, or with labels that these pods' selectors read?"""
        if self.replica.is_stale:
            return True
        kinds = self.replica.snapshot.kinds
        pods = {(id(pod.kind), id(pod.labels)): pod for _, pod, _ in changes if pod is not None}
        new = [pod.kind for pod in pods.values() if kinds.find(pod.kind, pod.labels, deleting=pod.deleting) is None]
        if len(changes) + sum(_NEW + kind.n_rules for kind in new) > _MANY:
            return True
        return any(not kind.keys_read <= kinds.keys for kind in new)


def _counted(changes: Sequence[PodChange]) -> Sequence[PodChange]:
    """The changes with pods of too many rules as if they had none: only their room counts in this snapshot. kube-scheduler
    knows the rules, and here they would only serve to rank nodes for other pods."""
    if all(pod is None or pod.kind.n_rules <= MOST_RULES for _, pod, _ in changes):
        return changes
    return [change if change.pod is None else PodChange(change.uid, _by_room(change.pod), change.seen) for change in changes]


def _by_room(pod: Pod) -> Pod:
    if pod.kind.n_rules <= MOST_RULES:
        return pod
    kind = Kind(namespace=pod.kind.namespace, requests=pod.kind.requests, scheduler_name=pod.kind.scheduler_name)
    return structs.replace(pod, kind=kind)
