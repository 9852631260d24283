"""Wakes refused pods for which there is room by now, and which kube-scheduler has not tried again by itself.

kube-scheduler tries a pod again when it sees room appear. Where our watch was behind its own, it asked too early, was refused
from our older cluster state, and has spent the event: without us the pod waits for the next one, or for five minutes. So a
refusal that has stood for longer than kube-scheduler takes is judged again, and the pod is woken if it fits. Of equally large
pods no more are woken than there is room for: the others would come in vain.
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

#: For so long the room is counted as taken by those that were woken for it: by then they have asked again.
_AWAITED_SECONDS: Final = 12.0
#: Answers that are kept as long as no room appears.
_MOST_KEPT: Final = 256


class MissedRoom:
    """Activates unschedulable pods for which there is room by now."""

    def __init__(self, cluster_state: ClusterState, placing: Placing) -> None:
        self._ledger = cluster_state.ledger
        self._nodes = cluster_state.nodes
        self._admitting = cluster_state.admitting
        self._unschedulable_pods = cluster_state.unschedulable_pods
        self._placing = placing
        #: Pods that were woken and may be on their way back, by what they ask for; and until when each is counted.
        self._awaited: Counter[Amounts] = Counter()
        self._awaited_until: deque[tuple[Instant, Amounts]] = deque()
        #: For how many pods there is room, as of a version of the nodes.
        self._kept: dict[tuple[Kind, Amounts, int], int] = {}
        self._version = (0, 0)
        #: The most that any node has beside what is Reserved.
        self._largest = NOTHING

    def due(self, policy: Policy, now: Instant) -> list[Effect]:
        """Looks at some of the pods whose time has come."""
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
        """For how many pods like this one there is room."""
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
        if not len(rows):  # mostly; what nodes say to the pod costs more to find out
            return 0
        rows = rows[self._admitting.of(pod.kind)[rows]]
        free, need = self._ledger.columns.free(rows), vertical(pod.need)
        # One at least: it passes there, perhaps in the place of less important nominees.
        fitting = np.where(need > 0, free // np.maximum(need, 1), np.iinfo(np.int64).max).min(axis=0, initial=1 << 20)
        return int(np.maximum(fitting, 1).sum())
