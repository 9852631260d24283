"""Activates refused pods that fit by now and that kube-scheduler has not retried by itself.

kube-scheduler retries a pod when it sees room appear. If our watch is later than its own, it asks too early, is refused from
our older state, and does not retry for that event: the pod would wait for the next event or for five minutes. So a pod whose
refusal is older than kube-scheduler's retry takes is judged again, and activated if it fits. Among equally large pods, no more
are activated than fit.
"""

from collections import Counter, deque
from typing import Final

import numpy as np

from slackwater.cluster.cluster_state import ClusterState
from slackwater.controllers.policy import Policy
from slackwater.model.columns import vertical
from slackwater.model.effects import Effect
from slackwater.model.equivalence import Kind
from slackwater.model.ids import Instant
from slackwater.model.objects import Pod
from slackwater.model.resources import NOTHING, Amounts, amounts_of
from slackwater.runtime.flows.filter import Placing

#: How long the room counts as taken by the pods that were activated for it; by then filter has been asked about them.
_AWAITED_SECONDS: Final = 12.0
#: The most cached answers; the cache is valid as long as no room appears.
_MOST_KEPT: Final = 256


class MissedRoom:
    """Activates unschedulable pods for which there is room by now."""

    def __init__(self, cluster_state: ClusterState, placing: Placing) -> None:
        self._ledger = cluster_state.ledger
        self._nodes = cluster_state.nodes
        self._admitting = cluster_state.admitting
        self._unschedulable_pods = cluster_state.unschedulable_pods
        self._placing = placing
        #: The number of activated pods by their requests, and until when each counts.
        self._awaited: Counter[Amounts] = Counter()
        self._awaited_until: deque[tuple[Instant, Amounts]] = deque()
        #: Cache: for how many equal pods there is room, at `_version`.
        self._kept: dict[tuple[Kind, Amounts, int], int] = {}
        self._version = (0, 0)
        #: The most unreserved room of any node, per resource.
        self._largest = NOTHING

    def due(self, policy: Policy, now: Instant) -> list[Effect]:
        """Judges some of the pods whose refusal is old enough, and activates those that fit."""
        while self._awaited_until and self._awaited_until[0][0] <= now:
            self._awaited -= Counter((self._awaited_until.popleft()[1],))
        effects: list[Effect] = []
        for pod in self._unschedulable_pods.overdue(now):
            if self._awaited[pod.need] < self._room_for(pod, policy, now):
                effects += self._unschedulable_pods.wake_overdue(pod.uid)
                self._awaited[pod.need] += 1
                self._awaited_until.append((Instant(now + _AWAITED_SECONDS), pod.need))
        return effects

    def _room_for(self, pod: Pod, policy: Policy, now: Instant) -> int:
        """For how many pods with this pod's requests and constraints there is room; cached."""
        version = int(self._nodes.room_version.sum()), self._nodes.rules_version
        if version != self._version or len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
            self._version = version
            columns = self._ledger.columns
            self._largest = amounts_of((columns.total - columns.reserved).max(axis=1).tolist())
        if any(want > most for want, most in zip(pod.need, self._largest, strict=True) if want):
            return 0
        key = pod.kind, pod.need, pod.priority
        if key not in self._kept:
            self._kept[key] = self._counted(pod, policy, now)
        return self._kept[key]

    def _counted(self, pod: Pod, policy: Policy, now: Instant) -> int:
        rows = self._nodes.live_rows()
        rows = rows[self._placing.passing(pod, rows, policy, now)]
        if not len(rows):  # the usual case; the constraints of nodes cost more to check
            return 0
        rows = rows[self._admitting.of(pod.kind)[rows]]
        free, need = self._ledger.columns.free(rows), vertical(pod.need)
        # At least one: the pod is feasible there, perhaps on room of nominees with lower priority.
        fitting = np.where(need > 0, free // np.maximum(need, 1), np.iinfo(np.int64).max).min(axis=0, initial=1 << 20)
        return int(np.maximum(fitting, 1).sum())
