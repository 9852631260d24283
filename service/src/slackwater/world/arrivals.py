"""The pods of each class that has a promise: when they came, and whether they had a node in time.

    book = ArrivalBook(classes, now)
    book.restore(saved, now)             # what an earlier process saved, if anything
    book.seen(pod, now); book.gone(uid)  # as the watch shows them
    book.observed(now)                   # for the planner, and for people

A pod arrives in the minute in which it was created, and is counted once, for the first class that it is of. It is in time where
the watch shows it on a node so soon after its creation as was promised, and late as soon as it cannot be any more. Of pods
that were on a node when they were first seen nobody knows how long they waited, unless they are younger than that.

Memory: two integers for each class and minute of the last days, and an entry for each pod of a class that exists. A restart
loses what was not saved: pods that came and went since the last save, and whether pods that came in between were in time.
Deliberately absent: where it is saved, and what is made of it (`decide.slack.promised`).
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from slackwater.decide.scaleup.pending import unix_time
from slackwater.model.ids import PodUid, UnixTime
from slackwater.model.kinds import Kind
from slackwater.model.objects import Labels, Pod
from slackwater.model.promises import Kept, KindShare, Observed, PodClass
from slackwater.world.minutes import Minutes

_DAY: Final = 1440
#: Enough for a cycle of days that three cycles before it foretell, and some more to judge by.
MOST_MINUTES: Final = 8 * _DAY
#: Of so many of a class's newest pods the kinds are remembered.
_MIX: Final = 256
#: What the API server writes has whole seconds: a pod first seen within one was created just then.
_SECOND: Final = 1.0


@dataclass(slots=True)
class _Class:
    """What is remembered of one class."""

    of: PodClass
    arrivals: Minutes
    in_time: Minutes
    late: Minutes
    mix: deque[tuple[Kind, Labels]] = field(default_factory=lambda: deque(maxlen=_MIX))
    #: Pods without a node, with their creation: those that were seen first come first. Some may have gone on.
    queue: deque[tuple[PodUid, UnixTime]] = field(default_factory=deque)
    waiting: int = 0
    all_in_time: int = 0
    all_late: int = 0


class ArrivalBook:
    """See the module. Times are Unix times."""

    def __init__(self, classes: Sequence[PodClass], now: UnixTime) -> None:
        self._classes = [_a_class(of, _minute(now)) for of in classes]
        #: Pods of a class that exist: the class and the creation of those that wait, None for all others.
        self._known: dict[PodUid, tuple[_Class, UnixTime] | None] = {}
        #: Pods that were created before were counted by an earlier process, or by nobody.
        self._since = now

    def seen(self, pod: Pod, now: UnixTime) -> None:
        """The pod as the watch shows it."""
        if pod.uid not in self._known:
            of = next((each for each in self._classes if each.of.holds(pod)), None)
            if of is not None and not _comes_with_a_node(pod):
                self._arrived(of, pod, now)
            return
        waits = self._known[pod.uid]
        if waits is not None and (pod.node is not None or pod.ended):
            self._judge(pod.uid, *waits, now, found=pod.node is not None)

    def gone(self, uid: PodUid, now: UnixTime) -> None:
        """The pod is gone. One that waited in vain counts as late once the time was over."""
        waits = self._known.get(uid)
        if waits is not None:
            self._judge(uid, *waits, now, found=False)
        self._known.pop(uid, None)

    def observed(self, now: UnixTime) -> tuple[Observed, ...]:
        """Of each class, in their order."""
        self._overdue(now)
        return tuple(_observed(each, _minute(now)) for each in self._classes)

    def saved(self, now: UnixTime) -> dict[str, Any]:
        """JSON values for `restore`."""
        self._overdue(now)
        end = _minute(now) + 1
        classes = {
            each.of.name: {
                name: {"end": end, "counts": ring.until(end).tolist()}
                for name, ring in (("arrivals", each.arrivals), ("inTime", each.in_time), ("late", each.late))
            }
            for each in self._classes
        }
        return {"at": now, "classes": classes}

    def restore(self, saved: Mapping[str, Any], now: UnixTime) -> None:
        """Takes up what an earlier process saved, before any pod was seen. Raises KeyError, TypeError or ValueError where it
        cannot be read; then nothing of it is taken."""
        at = min(UnixTime(float(saved["at"])), now)
        found: list[tuple[Minutes, int, list[int]]] = []
        for each in self._classes:
            for name, ring in (("arrivals", each.arrivals), ("inTime", each.in_time), ("late", each.late)):
                kept = saved["classes"].get(each.of.name, {}).get(name)
                if kept is not None:
                    counts = [int(count) for count in kept["counts"]]
                    found.append((ring, min(int(kept["end"]), _minute(now) + 1) - len(counts), counts))
        for ring, begin, counts in found:
            ring.restore(begin, counts)
        self._since = at

    # --- one pod ----------------------------------------------------------------------------------------------------------

    def _arrived(self, of: _Class, pod: Pod, now: UnixTime) -> None:
        created = _created(pod, now)
        self._known[pod.uid] = None
        of.mix.append((pod.kind, pod.labels))
        if created > self._since:
            of.arrivals.add(_minute(created))
        if pod.node is None and not pod.ended:
            if created + of.of.within_seconds > self._since:  # else it was late before our time
                self._known[pod.uid] = of, created
                of.queue.append((pod.uid, created))
                of.waiting += 1
        elif pod.node is not None and created > self._since and now - created <= of.of.within_seconds:
            _note(of, now, in_time=True)

    def _judge(self, uid: PodUid, of: _Class, created: UnixTime, now: UnixTime, *, found: bool) -> None:
        self._known[uid] = None
        of.waiting -= 1
        in_time = now - created <= of.of.within_seconds
        if found or not in_time:
            _note(of, now, in_time=in_time)

    def _overdue(self, now: UnixTime) -> None:
        for of in self._classes:
            while of.queue and now - of.queue[0][1] > of.of.within_seconds:
                uid, _ = of.queue.popleft()
                waits = self._known.get(uid)
                if waits is not None:
                    self._judge(uid, *waits, now, found=False)


def _a_class(of: PodClass, minute: int) -> _Class:
    return _Class(of=of, arrivals=Minutes(MOST_MINUTES, minute), in_time=Minutes(_DAY, minute), late=Minutes(_DAY, minute))


def _note(of: _Class, now: UnixTime, *, in_time: bool) -> None:
    of.all_in_time += in_time
    of.all_late += not in_time
    (of.in_time if in_time else of.late).add(_minute(now))


def _observed(each: _Class, minute: int) -> Observed:
    shares = Counter(kind for kind, _ in each.mix)
    labels = dict(each.mix)
    return Observed(
        of=each.of,
        minute=minute,
        arrivals=each.arrivals.until(minute),
        mix=tuple(KindShare(kind, labels[kind], count) for kind, count in shares.most_common()),
        kept=Kept(
            in_time=int(each.in_time.until(minute + 1).sum()),
            late=int(each.late.until(minute + 1).sum()),
            waiting=each.waiting,
            all_in_time=each.all_in_time,
            all_late=each.all_late,
        ),
    )


def _comes_with_a_node(pod: Pod) -> bool:
    owner = pod.ties.owner
    return pod.ties.mirror or pod.ties.daemon or (owner is not None and owner.kind == "DaemonSet")


def _created(pod: Pod, now: UnixTime) -> UnixTime:
    """When the pod was created, as exactly as can be told; never later than now."""
    if not pod.created_at:
        return now
    written = unix_time(pod.created_at)
    return now if now - written < _SECOND else written


def _minute(at: UnixTime) -> int:
    return int(at // 60)
