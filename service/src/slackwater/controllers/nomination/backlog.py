"""The backlog: pods that wait to be nominated, by priority, and by arrival within a priority.

    backlog.take(changes.pods)          # pods that arrived, changed or were deleted
    pods = backlog.some(64, now)        # takes the first ones out
    backlog.park(pods_without_a_place, now)

Pods of one priority come in the order in which the first list or the watch showed them. kube-scheduler's own queue has the same
order for pods that its watch showed; those that it listed at its start it queues in no particular order. Pods that fit nowhere
are parked and tried again after a pause. The pause doubles as long as no pod finds a place. Deliberately absent: nodes.
"""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Final

from slackwater.model.backoff import ExponentialBackoff
from slackwater.model.changes import PodChange
from slackwater.model.ids import Instant, PodUid
from slackwater.model.objects import Pod

#: How long pods that fit nowhere rest.
_BACKOFF: Final = ExponentialBackoff(first_seconds=0.5, longest_seconds=8.0)

#: Heaps with at most so many entries are not cleared of outdated ones.
_FEW: Final = 64

#: A pod's place in kube-scheduler's queue: its priority, negative, and its arrival sequence number.
_Place = tuple[int, int]
_Heaps = tuple[list[tuple[int, int, PodUid]], ...]


class Backlog:
    """Pods that wait to be nominated, in the order of the scheduling queue.

    `eligible` says which pods belong to it; `sequence_of` gives a pod's arrival sequence number."""

    def __init__(self, eligible: Callable[[Pod], bool], sequence_of: Callable[[PodUid], int]) -> None:
        self._eligible = eligible
        self._sequence_of = sequence_of
        self._pods: dict[PodUid, Pod] = {}
        #: The current heap entry of each pod. Entries of pods that have left, or whose place has changed, are skipped, and
        #: cleared out when they are the majority: most pods leave without being taken from a heap.
        self._places: dict[PodUid, _Place] = {}
        self._heap: list[tuple[int, int, PodUid]] = []
        #: The entries of pods behind a scheduling gate, which kube-scheduler does not see.
        self._gated_heap: list[tuple[int, int, PodUid]] = []
        self._heaps: _Heaps = (self._heap, self._gated_heap)
        self._parked: dict[PodUid, None] = {}
        self._unpark_at = Instant(0.0)
        #: How often in a row pods were parked, and none was placed.
        self._failures = 0

    def take(self, changes: Iterable[PodChange]) -> None:
        """Takes in the present state of pods; those that are gone or not eligible leave the backlog."""
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
        """Drops outdated entries. Each of them was pushed once, so the amortized cost of a push stays the same."""
        gated = heap is self._gated_heap
        heap[:] = [entry for entry in heap if self._is_current(entry, gated=gated)]
        heapify(heap)

    def _is_current(self, entry: tuple[int, int, PodUid], *, gated: bool) -> bool:
        *place, uid = entry
        pod = self._pods.get(uid)
        return pod is not None and uid not in self._parked and bool(pod.gates) is gated and self._places[uid] == tuple(place)

    def discard(self, uid: PodUid) -> None:
        """Removes a pod that need not be nominated any more."""
        self._pods.pop(uid, None)
        self._places.pop(uid, None)
        self._parked.pop(uid, None)

    def some(self, most: int, now: Instant) -> list[Pod]:
        """Takes out up to `most` pods, the first ones. Parked pods come back before that if their pause is over."""
        return self._some(most, now, self._heaps)

    def behind_gates(self, most: int, now: Instant) -> list[Pod]:
        """Takes out up to `most` pods behind a scheduling gate; otherwise as `some`."""
        return self._some(most, now, (self._gated_heap,))

    def _some(self, most: int, now: Instant, heaps: _Heaps) -> list[Pod]:
        if self._parked and now >= self._unpark_at:
            self._unpark()
        found: list[Pod] = []
        while len(found) < most and (pod := self._next(heaps)) is not None:
            found.append(pod)
        return found

    def _next(self, heaps: _Heaps) -> Pod | None:
        """Takes out the first pod of these heaps."""
        while filled := [heap for heap in heaps if heap]:
            heap = min(filled)
            entry = heappop(heap)
            if self._is_current(entry, gated=heap is self._gated_heap):
                uid = entry[-1]
                del self._places[uid]
                return self._pods.pop(uid)
        return None

    def park(self, pods: Iterable[Pod], now: Instant) -> None:
        """Parks pods that were taken out and fit nowhere at present."""
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
        """The number of pods that are not parked."""
        return len(self._pods) - len(self._parked)

    def due(self, now: Instant) -> bool:
        """Is there any pod to try now?"""
        return self.ready > 0 or (bool(self._parked) and now >= self._unpark_at)

    def __len__(self) -> int:
        return len(self._pods)

    def _unpark(self) -> None:
        for uid in self._parked:
            self._push(self._pods[uid])
        self._parked.clear()
