"""Pods that wait to be told where to go: the most important first, and of equally important ones who came first.

    backlog.take(changes.pods)          # who came, changed or went
    pods = backlog.some(64, now)        # the first ones; they are no part of the backlog any more
    backlog.park(pods_without_a_place, now)

First come, first served is by the order in which the watch, or the first list, showed them: kube-scheduler's own queue has that
order too, so what is told first is what it asks for first. Pods that fit nowhere are parked, and tried again after a while, a
longer one each time, as long as none of them finds a place. Deliberately absent: nodes.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

from slackwater.decide.steering.eligible import Eligible
from slackwater.model.changes import PodChange
from slackwater.model.ids import Instant, PodUid
from slackwater.model.objects import Pod

_FIRST_REST_SECONDS: Final = 0.5
_LONGEST_REST_SECONDS: Final = 8.0


class Backlog:
    """See the module. `eligible` says who is part of it."""

    def __init__(self, eligible: Eligible) -> None:
        self._eligible = eligible
        self._pods: dict[PodUid, Pod] = {}
        #: Entries of pods that have left meanwhile are passed over.
        self._heap: list[tuple[int, int, PodUid]] = []
        #: When a pod came, as a number: kept while it waits, also while it is parked.
        self._came: dict[PodUid, int] = {}
        self._parked: dict[PodUid, None] = {}
        self._next = 0
        self._unpark_at = Instant(0.0)
        self._rest_seconds = _FIRST_REST_SECONDS

    def take(self, changes: Iterable[PodChange]) -> None:
        """Pods as they are now: in the order in which they came, as far as several came at once."""
        for uid, pod in changes:
            if pod is None or not self._eligible(pod):
                self.discard(uid)
                continue
            known = uid in self._pods
            self._pods[uid] = pod
            if not known:
                self._came[uid] = self._next
                self._next += 1
                heappush(self._heap, (-pod.priority, self._came[uid], uid))

    def discard(self, uid: PodUid) -> None:
        """The pod is not to be told any more."""
        self._pods.pop(uid, None)
        self._came.pop(uid, None)
        self._parked.pop(uid, None)

    def some(self, most: int, now: Instant) -> list[Pod]:
        """Takes out up to `most` pods, the first first. Who was parked comes back when its time has come."""
        if self._parked and now >= self._unpark_at:
            self._unpark()
        found: list[Pod] = []
        while self._heap and len(found) < most:
            _, came, uid = heappop(self._heap)
            if self._came.get(uid) == came and uid not in self._parked:
                found.append(self._pods.pop(uid))
                del self._came[uid]
        return found

    def park(self, pods: Iterable[Pod], now: Instant) -> None:
        """Pods that were taken out, and fit nowhere as things are."""
        before = len(self._parked)
        for pod in pods:
            if pod.uid not in self._pods:
                self._pods[pod.uid] = pod
                self._came[pod.uid] = self._next
                self._next += 1
                self._parked[pod.uid] = None
        if self._parked and not before:
            self._unpark_at = Instant(now + self._rest_seconds)
            self._rest_seconds = min(2 * self._rest_seconds, _LONGEST_REST_SECONDS)

    def placed(self) -> None:
        """A pod found a place: others may, soon."""
        self._rest_seconds = _FIRST_REST_SECONDS

    @property
    def ready(self) -> int:
        """How many wait that are not parked."""
        return len(self._pods) - len(self._parked)

    def due(self, now: Instant) -> bool:
        """Is anybody to be looked at now?"""
        return self.ready > 0 or (bool(self._parked) and now >= self._unpark_at)

    def __len__(self) -> int:
        return len(self._pods)

    def _unpark(self) -> None:
        for uid in self._parked:
            heappush(self._heap, (-self._pods[uid].priority, self._came[uid], uid))
        self._parked.clear()
