"""The nomination backlog: the pending pods that may be nominated in advance, in the order of kube-scheduler's queue.

    backlog.take(changes.pods)          # pods that arrived, changed or were deleted
    pods = backlog.some(64, now)        # removes and returns the first ones
    backlog.park(pods_without_a_place, now)

- `Eligibility`: which pods may be nominated, and for which of them filter may choose a node.
- `Backlog`: the eligible pods by priority, and by arrival within a priority.

In: changed pods. Out: the next pods to nominate. This module knows neither nodes nor what only the state machine knows about a
pod, such as its hold or its preemption.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final

from slackwater.model.changes import PodChange
from slackwater.model.exponential_backoff import ExponentialBackoff
from slackwater.model.ids import Instant, PodUid
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import MOST_RULES, NO_POD_CONSTRAINTS, PodConstraints
from slackwater_protocol.names import GATE

#: The pause before pods that fit nowhere are tried again.
_BACKOFF: Final = ExponentialBackoff(first_seconds=0.5, longest_seconds=8.0)

#: Placing the pods of one more equivalence group costs as much as evaluating so many rules.
_PER_GROUP: Final = 32

#: Heaps with at most so many entries are not cleared of outdated ones.
_FEW: Final = 64

#: A pod's place in kube-scheduler's queue: its priority, negative, and its arrival sequence number.
_Place = tuple[int, int]
_Heaps = tuple[list[tuple[int, int, PodUid]], ...]


class Backlog:
    """Pods that wait to be nominated, in the order of kube-scheduler's queue: by priority, and by arrival within a priority.

    `eligible` tells whether a pod may be in the backlog; `sequence_of` returns a pod's arrival sequence number. The arrival
    order is that of the first list or of the watch. kube-scheduler's queue has the same order for pods that its watch showed;
    it queues the pods that it listed at its start in no particular order. Pods that fit nowhere are parked and tried again
    after a pause. The pause doubles as long as no pod finds a place.
    """

    def __init__(self, eligible: Callable[[Pod], bool], sequence_of: Callable[[PodUid], int]) -> None:
        self._eligible = eligible
        self._sequence_of = sequence_of
        self._pods: dict[PodUid, Pod] = {}
        #: The place in the current heap entry of each pod. Heap entries of pods that have left, or whose place has changed, are
        #: skipped, and cleared out when they are the majority: most pods leave without being taken from a heap.
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
        """Updates the backlog with the present state of these pods. Pods that are gone or not eligible leave it."""
        for uid, pod, _ in changes:
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
        """Drops outdated entries. Each entry was pushed once, so the amortized cost of a push stays the same."""
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
        """Removes up to `most` pods, the first ones, and returns them; fewer if they have many rules. Before that, parked pods
        come back if their pause is over."""
        return self._some(most, now, self._heaps)

    def behind_gates(self, most: int, now: Instant) -> list[Pod]:
        """Removes up to `most` pods that have a scheduling gate, the first ones, and returns them. Parked pods come back as in
        `some`."""
        return self._some(most, now, (self._gated_heap,))

    def _some(self, most: int, now: Instant, heaps: _Heaps) -> list[Pod]:
        if self._parked and now >= self._unpark_at:
            self._unpark()
        found: list[Pod] = []
        rules: dict[int, int] = {}  # of each equivalence group, since its pods are placed together
        while len(found) < most and sum(rules.values()) < MOST_RULES and (pod := self._next(heaps)) is not None:
            found.append(pod)
            rules[id(pod.kind)] = _PER_GROUP + pod.kind.n_rules
        return found

    def _next(self, heaps: _Heaps) -> Pod | None:
        """Removes the first pod of these heaps and returns it; None if the heaps have no current entry."""
        while filled := [heap for heap in heaps if heap]:
            heap = min(filled)
            entry = heappop(heap)
            if self._is_current(entry, gated=heap is self._gated_heap):
                uid = entry[-1]
                del self._places[uid]
                return self._pods.pop(uid)
        return None

    def park(self, pods: Iterable[Pod], now: Instant) -> None:
        """Parks pods that `some` or `behind_gates` returned and that fit nowhere at present."""
        before = len(self._parked)
        for pod in pods:
            if pod.uid not in self._pods:
                self._pods[pod.uid] = pod
                self._parked[pod.uid] = None
        if self._parked and not before:
            self._failures += 1
            self._unpark_at = Instant(now + _BACKOFF.seconds(self._failures))

    def placed(self) -> None:
        """Resets the back-off, because a pod found a place: others may soon find one too."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Eligibility:
    """Decides which pending pods may be nominated in advance, and for which of them filter may choose a node.

    Not nominated are: pods of other schedulers; pods that another client has nominated; pods behind a scheduling gate of
    others; pods whose place depends on objects that the nomination snapshot lacks (volume claims, resource claims,
    namespaces by their labels, selectors of Services); and pods with more than `MOST_RULES` rules.

    Filter may choose a node for more pods than these. kube-scheduler's own filters have accepted the nodes that it offers, so
    Slackwater only has to know the scores. Only VolumeBinding's score reads volume claims; if that plug-in scores,
    kube-scheduler chooses the node for pods with claims.

    `gated`: pods with our own scheduling gate may be nominated. `missing_requests_refused`: our filter refuses every pod that
    lacks a CPU or memory request. `volumes_scored`: kube-scheduler's plug-in VolumeBinding scores.
    `spreads_by_default`: the scheduler's profile has hard spread constraints for pods that state none.
    """

    scheduler_name: str
    gated: bool = True
    missing_requests_refused: bool = True
    volumes_scored: bool = False
    spreads_by_default: bool = False

    def nominated(self, pod: Pod) -> bool:
        """May the pod be nominated in advance?"""
        return (
            self._may_place(pod)
            and pod.nominated_node is None
            and (not pod.gates or (self.gated and pod.gates == (GATE,)))
            and not (self.spreads_by_default and not (pod.kind.pod_constraints or NO_POD_CONSTRAINTS).spread)
            and (pod.kind.pod_constraints is None or not _depends_on_other_pods(pod.kind.pod_constraints))
        )

    def chosen(self, pod: Pod) -> bool:
        """May filter choose a node for the pod?"""
        asks = pod.kind.pod_constraints
        return self._may_place(pod) and (asks is None or not (_scored_by_namespaces(asks) or self._scored_by_claims(asks)))

    def _scored_by_claims(self, asks: PodConstraints) -> bool:
        return self.volumes_scored and bool(asks.claims)

    def _may_place(self, pod: Pod) -> bool:
        kind = pod.kind
        return (
            pod.node is None
            and not (pod.ended or pod.deleting)
            and kind.scheduler_name == self.scheduler_name
            and kind.n_rules <= MOST_RULES
            and pod.vertical_problem is None
            and pod.preempting is None
            and not (self.missing_requests_refused and kind.missing_request is not None)
        )


def _scored_by_namespaces(asks: PodConstraints) -> bool:
    """Does the score of a node depend on which namespaces have certain labels?"""
    return any(weighted.term.namespace_selector is not None for weighted in asks.preferred_pods)


def _depends_on_other_pods(asks: PodConstraints) -> bool:
    terms = (*asks.affinity, *asks.anti_affinity, *(weighted.term for weighted in asks.preferred_pods))
    return bool(
        asks.claims
        or asks.resource_claims
        or asks.node_name is not None
        or any(term.namespace_selector is not None for term in terms)
    )
