"""The arrival log: for each class of pods with a start-time SLO, when its pods arrived, and whether each met the SLO.

    log = ArrivalLog(classes, now)
    log.restore(saved, now)              # what an earlier process saved, if anything
    log.seen(pod, now); log.gone(uid, now)  # as the watch shows them
    log.observed(now)                    # for the planner, and for people

A pod arrives in the minute in which it was created, and is counted once, in the first class to which it belongs. A pod is "in
time" if the watch shows it on a node within the SLO's `within` after its creation; it is "late" as soon as that time is
over. A pod that already had a node when it was first seen is counted as in time if it is younger than that, else as neither.

Memory: four integers for each class and minute of the last days, and an entry for each existing pod of a class. A restart loses
what was not saved: the pods that came and went since the last save, when pods went since then, and whether pods that came in
between were in time. Deliberately absent: where the log is saved, and how room is computed from it
(`controllers.slack.slo_sizing`).

`ArrivalWatch` feeds the log with the pods that the watch shows:

    arrival_watch = ArrivalWatch(state, classes, steady=steady)
    arrival_watch.after_event()          # after each event of the state machine; costs a comparison if no pod has changed
    arrival_watch.observed()             # before each plan

`after_event` processes a bounded number of pods, so the first list is spread over many calls.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from slackwater.cluster.cluster_state import ClusterState
from slackwater.model.columns import Int64
from slackwater.model.ids import PodUid, UnixTime
from slackwater.model.objects import Labels, Pod, created_at_of, is_daemon
from slackwater.model.pod_constraints import Kind
from slackwater.model.start_time_slo import KindShare, Observed, PodClass, SLOAttainment


class MinuteCounts:
    """Counts for each of the newest `most` minutes, in a ring. Minutes are numbered by Unix time; `begin` is the first one that
    was observed."""

    def __init__(self, most: int, begin: int) -> None:
        self._counts = np.zeros(most, np.int64)
        self.begin = begin
        #: The newest minute in the ring.
        self._newest = begin
        #: The last answer of `until`, and its minute.
        self._cached: tuple[int, Int64] | None = None

    def add(self, minute: int, count: int = 1) -> bool:
        """Adds to the count of a minute. False, and nothing is added, if the minute is older than the ring or than `begin`."""
        self._reach(minute)
        if minute < self._oldest():
            return False
        self._counts[minute % len(self._counts)] += count
        if self._cached is not None and minute < self._cached[0]:
            self._cached = None
        return True

    def at(self, minute: int) -> int:
        self._reach(minute)
        return int(self._counts[minute % len(self._counts)]) if minute >= self._oldest() else 0

    def until(self, minute: int) -> Int64:
        """The counts of the minutes in the ring before this one, the newest last; shape (minutes,). The caller must not change
        the array."""
        self._reach(minute)
        if self._cached is None or self._cached[0] != minute:
            self._cached = minute, self._counts[np.arange(self._oldest(), minute) % len(self._counts)]
        return self._cached[1]

    def restore(self, begin: int, counts: Sequence[int]) -> None:
        """Replaces all counts by these, which an earlier `until` returned, beginning at minute `begin`."""
        self._counts[:] = 0
        self._cached = None
        self.begin = self._newest = begin
        for minute, count in enumerate(counts, start=begin):
            self.add(minute, count)

    def _oldest(self) -> int:
        return max(self.begin, self._newest - len(self._counts) + 1)

    def _reach(self, minute: int) -> None:
        if minute > self._newest:
            size = len(self._counts)
            passed = min(minute - self._newest, size)
            self._counts[np.arange(minute - passed + 1, minute + 1) % size] = 0
            self._newest = minute


_DAY: Final = 1440
#: Enough for a forecast from three daily cycles, and for some more cycles on which the forecast is tried.
MOST_MINUTES: Final = 8 * _DAY
#: The number of a class's newest pods whose equivalence groups are remembered.
_MIX: Final = 256
#: The API server writes whole seconds: a pod that is first seen within one second of its creation counts as created now.
_SECOND: Final = 1.0


#: What is counted by minute, as it is saved.
_RINGS: Final = ("arrivals", "departures", "inTime", "late")


@dataclass(slots=True)
class _Class:
    """The log of one class of pods. `mix`: constraints and labels of the newest pods. `shares`: the mix as shares, None after a
    change of it. `waiting`: the number of pods that have no node yet and are not late. `all_in_time`, `all_late`: counts since
    the process began."""

    of: PodClass
    #: The counts by minute of each of `_RINGS`.
    rings: dict[str, MinuteCounts]
    mix: deque[tuple[Kind, Labels]] = field(default_factory=lambda: deque(maxlen=_MIX))
    shares: tuple[KindShare, ...] | None = None
    #: Pods that had no node when they were first seen, in that order. Some may have one by now.
    queue: deque["_TrackedPod"] = field(default_factory=deque)
    waiting: int = 0
    all_in_time: int = 0
    all_late: int = 0


@dataclass(slots=True)
class _TrackedPod:
    """A pod of a class. `waits`: it has no node yet and is not late. `over`: it has ended, and this was counted."""

    of: _Class
    created: UnixTime
    waits: bool = False
    over: bool = False


class ArrivalLog:
    """Counts, for each class and minute, the pods that arrived and departed, and those that met the SLO or did not. Times are
    Unix times."""

    def __init__(self, classes: Sequence[PodClass], now: UnixTime) -> None:
        self._classes = [_Class(of, {name: MinuteCounts(MOST_MINUTES, _minute(now)) for name in _RINGS}) for of in classes]
        #: Existing pods of a class.
        self._known: dict[PodUid, _TrackedPod] = {}
        #: Pods that were created before this time were counted by an earlier process, or by none.
        self._since = now

    def seen(self, pod: Pod, now: UnixTime) -> None:
        """Counts what has changed about a pod that the watch shows."""
        tracked = self._known.get(pod.uid)
        if tracked is None:
            of = next((each for each in self._classes if each.of.holds(pod)), None)
            if of is None or is_daemon(pod):
                return
            tracked = self._known[pod.uid] = self._arrived(of, pod, now)
        elif tracked.waits and (pod.node is not None or pod.ended):
            _judge(tracked, now, found=pod.node is not None)
        if pod.ended:
            _leave(tracked, now)

    def gone(self, uid: PodUid, now: UnixTime) -> None:
        """Counts the departure of a pod that is gone. A pod that still had no node counts as late if the SLO's time was
        over."""
        tracked = self._known.pop(uid, None)
        if tracked is not None:
            _judge(tracked, now, found=False)
            _leave(tracked, now)

    def observed(self, now: UnixTime) -> tuple[Observed, ...]:
        """What was observed of each class, in the order of the classes."""
        self._overdue(now)
        return tuple(_observed(each, _minute(now)) for each in self._classes)

    def saved(self, now: UnixTime) -> dict[str, Any]:
        """The log as JSON values for `restore`."""
        self._overdue(now)
        end = _minute(now) + 1
        classes = {
            each.of.name: {name: {"end": end, "counts": ring.until(end).tolist()} for name, ring in each.rings.items()}
            for each in self._classes
        }
        return {"at": now, "classes": classes}

    def restore(self, saved: Mapping[str, Any], now: UnixTime) -> None:
        """Restores the log that an earlier process saved; call it before any pod was seen. Raises AttributeError, KeyError,
        TypeError or ValueError if `saved` cannot be read; then nothing has changed."""
        at = min(UnixTime(float(saved["at"])), now)
        found: list[tuple[MinuteCounts, int, list[int]]] = []
        for each in self._classes:
            kept = saved["classes"].get(each.of.name, {})
            for name, ring in each.rings.items():
                if name in kept:
                    counts = [int(count) for count in kept[name]["counts"]]
                    found.append((ring, min(int(kept[name]["end"]), _minute(now) + 1) - len(counts), counts))
        for ring, begin, counts in found:
            ring.restore(begin, counts)
        self._since = at

    def _arrived(self, of: _Class, pod: Pod, now: UnixTime) -> _TrackedPod:
        """Counts the arrival of a pod that is seen for the first time. Returns its entry."""
        tracked = _TrackedPod(of, _created(pod, now))
        of.mix.append((pod.kind, pod.renewed_labels))
        of.shares = None
        is_new, is_young = tracked.created > self._since, now - tracked.created <= of.of.within
        if is_new:
            of.rings["arrivals"].add(_minute(tracked.created))
        else:
            tracked.over = pod.ended  # its end was counted by an earlier process, or not at all
        if pod.pending:
            # A pod that was late before this process began does not wait.
            tracked.waits = tracked.created + of.of.within > self._since
            if tracked.waits:
                of.queue.append(tracked)
                of.waiting += 1
        elif pod.node is not None and is_new and is_young:
            _note(of, now, in_time=True)
        return tracked

    def _overdue(self, now: UnixTime) -> None:
        for of in self._classes:
            while of.queue and (not of.queue[0].waits or now - of.queue[0].created > of.of.within):
                _judge(of.queue.popleft(), now, found=False)


def _judge(tracked: _TrackedPod, now: UnixTime, *, found: bool) -> None:
    """Counts a pod that waited as in time or late, and ends its wait. `found`: it has a node. A pod that goes before the SLO's
    time is over counts as neither."""
    if tracked.waits:
        tracked.waits = False
        tracked.of.waiting -= 1
        in_time = now - tracked.created <= tracked.of.of.within
        if found or not in_time:
            _note(tracked.of, now, in_time=in_time)


def _leave(tracked: _TrackedPod, now: UnixTime) -> None:
    if not tracked.over:
        tracked.over = True
        tracked.of.rings["departures"].add(_minute(now))


def _note(of: _Class, now: UnixTime, *, in_time: bool) -> None:
    of.all_in_time += in_time
    of.all_late += not in_time
    of.rings["inTime" if in_time else "late"].add(_minute(now))


def _observed(each: _Class, minute: int) -> Observed:
    arrivals, departures, in_time, late = (ring.until(minute) for ring in each.rings.values())
    now = {name: ring.at(minute) for name, ring in each.rings.items()}
    return Observed(
        of=each.of,
        minute=minute,
        arrivals=arrivals,
        departures=_as_long_as(arrivals, departures),
        in_time=_as_long_as(arrivals, in_time),
        late=_as_long_as(arrivals, late),
        moved=now["arrivals"] - now["departures"],
        mix=_shares(each),
        kept=SLOAttainment(
            in_time=int(in_time[1 - _DAY :].sum()) + now["inTime"],
            late=int(late[1 - _DAY :].sum()) + now["late"],
            waiting=each.waiting,
            all_in_time=each.all_in_time,
            all_late=each.all_late,
        ),
    )


def _shares(each: _Class) -> tuple[KindShare, ...]:
    """The equivalence groups of the newest pods, each with the labels of its newest one; the largest group first."""
    if each.shares is None:
        kinds = [id(kind) for kind, _ in each.mix]  # equal ones are one object: see `KindInterner`
        newest = dict(zip(kinds, each.mix, strict=True))
        each.shares = tuple(KindShare(*newest[kind], count) for kind, count in Counter(kinds).most_common())
    return each.shares


def _as_long_as(arrivals: Int64, counts: Int64) -> Int64:
    """The newest entries of `counts`, in an array of the length of `arrivals`; 0 for minutes before the first entry."""
    found, known = np.zeros(len(arrivals), np.int64), min(len(arrivals), len(counts))
    found[len(found) - known :] = counts[len(counts) - known :]
    return found


def _created(pod: Pod, now: UnixTime) -> UnixTime:
    """When the pod was created: `now` if it is not known, or if it was within the last second; never later than `now`."""
    if not pod.created_at:
        return now
    written = created_at_of(pod.created_at)
    return now if now - written < _SECOND else written


def _minute(at: UnixTime) -> int:
    return int(at // 60)


#: The most pods processed after one event: about half a millisecond of work.
_SLICE: Final = 200


class ArrivalWatch:
    """Keeps the arrival log of pods with a start-time SLO up to date."""

    def __init__(self, state: ClusterState, classes: Sequence[PodClass], *, steady: Callable[[], UnixTime]) -> None:
        self._pods = state.pods
        self._steady = steady
        self._arrival_log = ArrivalLog(classes, steady())
        self._changed: set[PodUid] = set()
        #: Changed pods to process. Moved out of `_changed` all at once, because iterating over a set passes over the slots of
        #: all entries removed before.
        self._waiting: list[PodUid] = []
        self._on = False

    def begin(self, saved: Mapping[str, Any] | None) -> None:
        """Restores the log that an earlier process saved (None: there is none), and follows the pods from now on. Raises the
        errors of `ArrivalLog.restore`."""
        if saved is not None:
            self._arrival_log.restore(saved, self._steady())
        self._changed.update(pod.uid for pod in self._pods)
        self._pods.journal.add_reader(self._changed)
        self._on = True

    def __len__(self) -> int:
        """The number of pods that are still to be processed."""
        return len(self._changed) + len(self._waiting)

    def after_event(self) -> None:
        if not self._waiting:
            if not self._changed:
                return
            self._waiting.extend(self._changed)
            self._changed.clear()
        part, self._waiting[-_SLICE:] = self._waiting[-_SLICE:], []
        now = self._steady()
        for uid in part:
            pod = self._pods.get(uid)
            if pod is None:
                self._arrival_log.gone(uid, now)
            else:
                self._arrival_log.seen(pod, now)

    def observed(self) -> tuple[Observed, ...]:
        """The observed arrivals of each class, in the order of the classes; empty before `begin`."""
        return self._arrival_log.observed(self._steady()) if self._on else ()

    def saved(self) -> dict[str, Any]:
        return self._arrival_log.saved(self._steady())
