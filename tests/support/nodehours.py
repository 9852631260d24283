"""A cluster of whole nodes on virtual time, small enough to live through days of it in seconds: what room costs in node-hours.

A step is a loop's ten seconds. Pods take an eighth of a node and live three minutes; a node takes 110 s from the call for it,
and goes after a minute without pods and without placeholders. Pods and placeholders stand on the fullest nodes first. How much
room is kept is a number of pods, or what the real arrival history and the real sizing of SLOs say.
"""

from collections import deque
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from msgspec import structs

from slackwater.controllers.slack.pod_arrivals import ArrivalLog
from slackwater.controllers.slack.slo_sizing import SLORoom, size_for_slos
from slackwater.model.columns import Int64
from slackwater.model.ids import PPM, NodeName, UnixTime
from slackwater.model.objects import Pod
from slackwater.model.start_time_slo import PodClass
from tests.support.builders import a_pod

STEP = 10
STEPS = 60 // STEP
#: 95 % of the pods at once.
WEB = PodClass(name="web", share_ppm=950_000, within=5.0)
NODE_SECONDS, POD_SECONDS, UNNEEDED_SECONDS, PODS_OF_A_NODE = 110, 180, 60, 8
#: A Thursday, 2026-01-01.
BEGAN = 1_767_225_600


@dataclass(frozen=True, slots=True)
class Lived:
    """`node_hours` of all nodes, from the call for each until it is gone; `share` of the pods that had a node at once."""

    node_hours: float
    share: float

    @property
    def kept(self) -> bool:
        return self.share * PPM >= WEB.share_ppm


@dataclass(slots=True)
class _Machine:
    ready_at: int
    pods: int = 0
    idle_since: int | None = None


_PODS = attrgetter("pods")


class Book:
    """Says how much room is wanted: the service's own observation and planning, told of each pod."""

    def __init__(self) -> None:
        self._book = ArrivalLog([WEB], UnixTime(BEGAN))
        self._like = a_pod("web", cpu="500m", memory="1Gi")
        self._slos: dict[str, SLORoom] = {}
        self._made = 0

    def come(self, count: int, at_once: int, now: int) -> list[Pod]:
        pods = [self._pod(now, on="n" if number < at_once else None) for number in range(count)]
        for pod in pods:
            self._book.seen(pod, UnixTime(BEGAN + now))
        return pods

    def _pod(self, now: int, on: str | None) -> Pod:
        self._made += 1
        uid = type(self._like.uid)(str(self._made))
        return structs.replace(self._like, uid=uid, created_at="", node=None if on is None else NodeName(on))

    def go(self, pod: Pod, now: int) -> None:
        self._book.gone(pod.uid, UnixTime(BEGAN + now))

    def starts(self, pod: Pod, now: int) -> None:
        self._book.seen(structs.replace(pod, node=NodeName("n")), UnixTime(BEGAN + now))

    def __call__(self, now: int) -> int:
        lead = NODE_SECONDS + STEP
        seen = self._book.observed(UnixTime(BEGAN + now))
        self._slos = size_for_slos(seen, {WEB.name: lead}, self._slos, unneeded_seconds=UNNEEDED_SECONDS)
        return sum(each.count for room in self._slos.values() for each in room.pod_headroom)


def by_steps(arrivals: Int64, seed: int) -> Int64:
    """In which step of its minute each pod comes; shape (minutes, steps of a minute)."""
    return np.asarray(np.random.default_rng(seed).multinomial(arrivals, [1 / STEPS] * STEPS), np.int64)


def lived(arrivals: Int64, wanted: int | Book, *, judged: int) -> Lived:
    """Lives through the arrivals of `by_steps`, of which the last `judged` minutes count."""
    cluster = _Cluster(wanted)
    came = at_once = node_steps = 0
    for minute, steps in enumerate(arrivals.tolist()):
        for step, arriving in enumerate(steps):
            found = cluster.step(minute * 60 + step * STEP, arriving)
            if minute >= len(arrivals) - judged:
                came, at_once, node_steps = came + arriving, at_once + found, node_steps + len(cluster.machines)
    return Lived(node_steps * STEP / 3600, at_once / came if came else 1.0)


class _Cluster:
    def __init__(self, wanted: int | Book) -> None:
        self._wanted = wanted
        self.machines: list[_Machine] = []
        #: When pods end, on which machine.
        self._ends: deque[tuple[int, _Machine, Pod | None]] = deque()
        self._waiting: deque[Pod | None] = deque()

    def step(self, now: int, arriving: int) -> int:
        """Pods end, pods come, a loop passes; how many of those that came had a node at once."""
        while self._ends and self._ends[0][0] <= now:
            _, machine, pod = self._ends.popleft()
            machine.pods -= 1
            if pod is not None:
                assert isinstance(self._wanted, Book)
                self._wanted.go(pod, now)
        self._start_waiting(now)
        at_once = min(arriving, 0 if self._waiting else self._free(now))
        pods = self._wanted.come(arriving, at_once, now) if isinstance(self._wanted, Book) else [None] * arriving
        for pod in pods[:at_once]:
            self._place(pod, now)
        self._waiting.extend(pods[at_once:])
        self._loop(now)
        return at_once

    def _ready(self, now: int) -> list[_Machine]:
        """The fullest first."""
        return sorted((each for each in self.machines if each.ready_at <= now), key=_PODS, reverse=True)

    def _free(self, now: int) -> int:
        return sum(PODS_OF_A_NODE - each.pods for each in self.machines if each.ready_at <= now)

    def _start_waiting(self, now: int) -> None:
        for _ in range(min(len(self._waiting), self._free(now))):
            pod = self._waiting.popleft()
            if pod is not None:
                assert isinstance(self._wanted, Book)
                self._wanted.starts(pod, now)
            self._place(pod, now)

    def _place(self, pod: Pod | None, now: int) -> None:
        machine = max((m for m in self.machines if m.pods < PODS_OF_A_NODE and m.ready_at <= now), key=_PODS)
        machine.pods += 1
        self._ends.append((now + POD_SECONDS, machine, pod))

    def _loop(self, now: int) -> None:
        room = self._wanted if isinstance(self._wanted, int) else self._wanted(now)
        lacking = len(self._waiting) + room
        coming = [each for each in self.machines if each.ready_at > now]
        for machine in self._ready(now):
            taken = min(lacking, PODS_OF_A_NODE - machine.pods)
            lacking -= taken
            needed = machine.pods > 0 or taken > 0
            machine.idle_since = None if needed else machine.idle_since if machine.idle_since is not None else now
        self.machines = [each for each in self.machines if each.idle_since is None or now - each.idle_since < UNNEEDED_SECONDS]
        lacking -= PODS_OF_A_NODE * len(coming)
        self.machines += [_Machine(now + NODE_SECONDS) for _ in range(-(-max(lacking, 0) // PODS_OF_A_NODE))]


def smallest_static(arrivals: Int64, *, judged: int, most: int) -> tuple[int, Lived]:
    """The least room, the same at all times, that meets the SLO; and what came of it."""
    low, high, best = 0, most, None
    while low < high:
        middle = (low + high) // 2
        found = lived(arrivals, middle, judged=judged)
        if found.kept:
            high, best = middle, found
        else:
            low = middle + 1
    return low, best if best is not None else lived(arrivals, low, judged=judged)
