"""Pods that wait to be nominated: the most important first, and of equally important ones who came first.

    backlog.take(changes.pods)          # who came, changed or went
    pods = backlog.some(64, now)        # the first ones; they are no part of the backlog any more
    backlog.park(pods_without_a_place, now)

First come, first served is by the order in which the watch, or the first list, showed them: kube-scheduler's own queue has that
order too for all that its watch showed it. (What it listed at its start it takes in no order at all.) Pods that fit nowhere
are parked, and tried again after a while, a longer one each time, as long as none of them finds a place. Deliberately absent:
nodes.
"""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Final

from slackwater.controllers.nomination.eligible import Eligible
from slackwater.model.backoff import ExponentialBackoff
from slackwater.model.changes import PodChange
from slackwater.model.ids import Instant, PodUid
from slackwater.model.objects import Pod

#: How long pods that fit nowhere rest.
_BACKOFF: Final = ExponentialBackoff(first_seconds=0.5, longest_seconds=8.0)

#: A heap of fewer entries is not looked through for those that nobody needs any more.
_FEW: Final = 64

#: A pod's place in kube-scheduler's queue: its priority, negative, and its arrival sequence number.
_Place = tuple[int, int]
_Heaps = tuple[list[tuple[int, int, PodUid]], ...]


class Backlog:
    """Pods that wait to be nominated, in the order of the scheduling queue.

    `eligible` says which pods are part of it, `sequence_of` gives a pod's arrival sequence number."""

    def __init__(self, eligible: Eligible, sequence_of: Callable[[PodUid], int]) -> None:
        self._eligible = eligible
        self._sequence_of = sequence_of
        self._pods: dict[PodUid, Pod] = {}
        #: Each pod's entry in the heap. Entries of pods that have left, or have another place, are passed over, and thrown away
        #: when they are the larger part: most pods leave without ever being taken from a heap.
        self._places: dict[PodUid, _Place] = {}
        self._heap: list[tuple[int, int, PodUid]] = []
        #: Those of pods behind a gate, which kube-scheduler does not see.
        self._gated_heap: list[tuple[int, int, PodUid]] = []
        self._heaps: _Heaps = (self._heap, self._gated_heap)
        self._parked: dict[PodUid, None] = {}
        self._unpark_at = Instant(0.0)
        #: How often in a row pods were parked, and none was placed.
        self._failures = 0

    def take(self, changes: Iterable[PodChange]) -> None:
        """Pods as they are now."""
        for uid, pod in changes:
            if pod is None or not self._eligible(pod):
                self.discard(uid)
                continue
            before, self._pods[uid] = self._pods.get(uid), pod
            if before is None or bool(before.gates) != bool(pod.gates):
                self._push(pod)

    def _push(self, pod: Pod) -> None:
        place = self._places[pod.uid] = -pod.priority, self._sequence_of(pod.uid)
        heap = self._gated_heap if pod.gates else self._heap
        heappush(heap, (*place, pod.uid))
        if len(heap) > _FEW and len(heap) > 2 * len(self._pods):
            self._clear_out(heap)

    def _clear_out(self, heap: list[tuple[int, int, PodUid]]) -> None:
        """Keeps the entries that would be taken. Each one thrown away was pushed once, so a push costs the same as ever."""
        gated = heap is self._gated_heap
        heap[:] = [entry for entry in heap if self._is_current(entry, gated=gated)]
        heapify(heap)

    def _is_current(self, entry: tuple[int, int, PodUid], *, gated: bool) -> bool:
        *place, uid = entry
        pod = self._pods.get(uid)
        return pod is not None and uid not in self._parked and bool(pod.gates) is gated and self._places[uid] == tuple(place)

    def discard(self, uid: PodUid) -> None:
        """The pod is not to be told any more."""
        self._pods.pop(uid, None)
        self._places.pop(uid, None)
        self._parked.pop(uid, None)

    def some(self, most: int, now: Instant) -> list[Pod]:
        """Takes out up to `most` pods, the first first. Who was parked comes back when its time has come."""
        return self._some(most, now, self._heaps)

    def behind_gates(self, most: int, now: Instant) -> list[Pod]:
        """The same of pods behind a gate alone."""
        return self._some(most, now, (self._gated_heap,))

    def _some(self, most: int, now: Instant, heaps: _Heaps) -> list[Pod]:
        if self._parked and now >= self._unpark_at:
            self._unpark()
        found: list[Pod] = []
        while len(found) < most and (pod := self._next(heaps)) is not None:
            found.append(pod)
        return found

    def _next(self, heaps: _Heaps) -> Pod | None:
        """Takes the first one out."""
        while filled := [heap for heap in heaps if heap]:
            heap = min(filled)
            entry = heappop(heap)
            if self._is_current(entry, gated=heap is self._gated_heap):
                uid = entry[-1]
                del self._places[uid]
                return self._pods.pop(uid)
        return None

    def park(self, pods: Iterable[Pod], now: Instant) -> None:
        """Pods that were taken out, and fit nowhere as things are."""
        before = len(self._parked)
        for pod in pods:
            if pod.uid not in self._pods:
                self._pods[pod.uid] = pod
                self._parked[pod.uid] = None
        if self._parked and not before:
            self._failures += 1
            self._unpark_at = Instant(now + _BACKOFF.seconds(self._failures))

    def placed(self) -> None:
        """A pod found a place: others may, soon."""
        self._failures = 0

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
            self._push(self._pods[uid])
        self._parked.clear()
