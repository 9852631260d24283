"""The real cluster's demand, as pods that arrive and end whatever node they run on.

A pod that is evicted and the pod that its controller makes for it are one and the same demand. So pods of one controller fill
places: a new pod takes the place that another one of its controller left a short while ago, and only a place that stays empty
has ended. For that the demand is known only `LAG` seconds later. A pod of a StatefulSet takes the place with its name. Pods of
DaemonSets and mirror pods are no demand: they belong to nodes.

In: changes of pods, with their times. Out: `Arrived`, `Changed` and `Ended`, in the order of their times. Each place has the
UID of its first pod.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from slackwater.model.auxiliary import ControllerKey, controller_key
from slackwater.model.changes import PodChange
from slackwater.model.ids import PodUid, UnixTime
from slackwater.model.objects import Pod, created_at_of, is_daemon

#: For so many seconds a place waits for the next pod of its controller.
LAG: Final = 30.0
_STATEFUL_SET: Final = ("apps", "StatefulSet")
_JOB: Final = ("batch", "Job")


@dataclass(frozen=True, slots=True)
class Arrived:
    """New demand. `pod` is the real pod; `place` is its UID."""

    at: UnixTime
    place: PodUid
    pod: Pod


@dataclass(frozen=True, slots=True)
class Changed:
    """The pod of a place changed, or is another one now."""

    at: UnixTime
    place: PodUid
    pod: Pod


@dataclass(frozen=True, slots=True)
class Ended:
    """Demand ended. `pod`: the last real pod of the place. `ran`: for how many seconds the pod of a Job ran; None for other
    pods, which end when they are no longer wanted."""

    at: UnixTime
    place: PodUid
    pod: Pod
    ran: float | None = None


DemandEvent = Arrived | Changed | Ended


@dataclass(slots=True, eq=False)
class _Place:
    """`pod`: the newest pod; `since`: since when it has had a node. `left_at`: since when the place has been empty."""

    name: PodUid
    pod: Pod
    since: UnixTime | None = None
    left_at: UnixTime | None = None


@dataclass(slots=True)
class Demand:
    """The places of all pods that are wanted."""

    _by_pod: dict[PodUid, _Place] = field(default_factory=dict)
    #: The places of each controller that are empty, in the order in which they were left.
    _empty: dict[ControllerKey, deque[_Place]] = field(default_factory=dict)
    _due: list[tuple[UnixTime, int, DemandEvent]] = field(default_factory=list)
    #: Pods that are gone, and when.
    _gone: deque[tuple[UnixTime, PodUid]] = field(default_factory=deque)
    #: Places that were left, and when.
    _left: deque[tuple[UnixTime, _Place]] = field(default_factory=deque)
    _number: int = 0

    def begin(self, pods: Sequence[Pod], at: UnixTime) -> None:
        """The pods that are there when the counterfactual begins; they arrive nowhere."""
        for pod in pods:
            if not (is_daemon(pod) or pod.deleting):
                self._by_pod[pod.uid] = _Place(pod.uid, pod, None if pod.node is None else at)

    def take(self, changes: Sequence[PodChange], at: UnixTime) -> None:
        """Notes the changes of one moment. Pods that left come before those that take their places."""
        for uid, pod, _ in changes:
            place = self._by_pod.get(uid)
            if place is not None and place.pod.uid == uid and place.left_at is None and _leaves(pod):
                self._leave(place, at)
        for _, pod, _ in changes:
            if pod is not None and not is_daemon(pod):
                self._see(pod, at)
        self._gone += ((at, uid) for uid, pod, _ in changes if pod is None and uid in self._by_pod)

    def place_of(self, uid: PodUid) -> PodUid:
        """The place of a pod that is there, or went less than `LAG` ago; its own UID if it has none."""
        place = self._by_pod.get(uid)
        return uid if place is None else place.name

    def due(self, until: UnixTime) -> Iterator[DemandEvent]:
        """What is known to have happened by `until`, which is at least `LAG` ago, in order."""
        while self._gone and self._gone[0][0] <= until:
            self._by_pod.pop(self._gone.popleft()[1], None)
        while self._left and self._left[0][0] <= until:
            left_at, place = self._left.popleft()
            if place.left_at == left_at:  # else it was taken again
                self._end(place, left_at)
        while self._due and self._due[0][0] <= until:
            yield heapq.heappop(self._due)[2]

    def _see(self, pod: Pod, at: UnixTime) -> None:
        if pod.deleting:
            return  # it changes no more
        place = self._by_pod.get(pod.uid)
        if place is None:
            place = self._by_pod[pod.uid] = self._place_for(pod, at)
        if place.pod.uid != pod.uid:
            return  # another pod has the place now
        if pod.node is not None and place.since is None:
            place.since = at
        if place.pod is not pod:
            place.pod = pod
            self._note(Changed(at, place.name, pod))

    def _place_for(self, pod: Pod, at: UnixTime) -> _Place:
        """The place of a new pod: one that is empty, or a new one."""
        place = self._taken(pod)
        if place is None:
            place = _Place(pod.uid, pod)
            self._note(Arrived(at, place.name, pod))
            return place
        place.pod, place.since, place.left_at = pod, None, None
        self._note(Changed(at, place.name, pod))
        return place

    def _taken(self, pod: Pod) -> _Place | None:
        controller = controller_key(pod)
        empty = None if controller is None else self._empty.get(controller)
        if not empty:
            return None
        # An evicted pod's successor comes at once, so the place that was left last is its.
        found = next((place for place in reversed(empty) if place.pod.key == pod.key or not _named(pod)), None)
        if found is not None:
            empty.remove(found)
        return found

    def _leave(self, place: _Place, at: UnixTime) -> None:
        place.left_at = at
        controller = controller_key(place.pod)
        if controller is not None:
            self._empty.setdefault(controller, deque()).append(place)
        self._left.append((at, place))

    def _end(self, place: _Place, at: UnixTime) -> None:
        controller = controller_key(place.pod)
        if controller is not None:
            empty = self._empty[controller]
            empty.remove(place)
            if not empty:
                del self._empty[controller]
        ran = at - place.since if is_job(place.pod) and place.since is not None else None
        self._note(Ended(at, place.name, place.pod, ran))

    def _note(self, event: DemandEvent) -> None:
        self._number += 1
        heapq.heappush(self._due, (event.at, self._number, event))


def _leaves(pod: Pod | None) -> bool:
    """A controller makes the next pod as soon as one is being deleted; a StatefulSet only when that one is gone."""
    return pod is None or (pod.deleting and not _named(pod))


def _named(pod: Pod) -> bool:
    owner = pod.eviction_facts.owner
    return owner is not None and (owner.group, owner.kind) == _STATEFUL_SET


def made_at(pod: Pod) -> UnixTime:
    """When the pod was made. The API server says it in whole seconds, which is half a second too early in the mean."""
    return UnixTime(created_at_of(pod.created_at) + 0.5)


def arrivals(events: Iterable[Arrived], came: Sequence[tuple[UnixTime, int]]) -> Iterator[tuple[UnixTime, list[Arrived]]]:
    """New pods, with the time at which each came. They came in the order in which the API server wrote them. `came`: as in
    `Observation`; it counts other pods too, so the part of all pods decides. Without it, pods came when they were made."""
    ordered = sorted(events, key=lambda event: (event.pod.created_at, event.pod.resource_version))
    if not came:
        for made, group in groupby(ordered, lambda event: made_at(event.pod)):
            yield made, list(group)
        return
    total, done = came[-1][1], 0
    for at, count in came:
        until = round(count / total * len(ordered))
        if until > done:
            yield at, ordered[done:until]
        done = max(done, until)


def is_job(pod: Pod) -> bool:
    """True if the pod has an end of its own."""
    owner = pod.eviction_facts.owner
    return owner is not None and (owner.group, owner.kind) == _JOB
