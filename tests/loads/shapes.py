"""Forty load shapes: five loads, each with and without slack, on four kinds of node groups.

    for shape in all_shapes(seed): print(shape.name, shape.load.events)

A load is a list of events: from a time on a workload wants so many replicas, is rolled out again, or a batch of pods comes that
ends by itself. Sizes, periods and numbers follow the seed. Deliberately absent: what plays them (`play`).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal

HOUR: Final = 3600
HOURS: Final = 12

LoadName = Literal["constant", "wave", "sine", "batch", "rolling"]
#: plain: machines that work. odd: one node made by hand, and pods that would fit on no other. failing: some machines never
#: arrive, some die. minimum: a group that must keep more nodes than the load needs, of which some fail.
GroupName = Literal["plain", "odd", "failing", "minimum"]
LOADS: Final[tuple[LoadName, ...]] = ("constant", "wave", "sine", "batch", "rolling")
GROUPS: Final[tuple[GroupName, ...]] = ("plain", "odd", "failing", "minimum")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """Pods of one workload: milliCPU, bytes, and how many of them a budget keeps ready."""

    cpu: int
    memory: int
    least: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadEvent:
    """From `at` on, in seconds: the workload wants `replicas`; None: it is rolled out again. `runs_for`: its pods end by
    themselves after so many seconds, and do not come again."""

    at: int
    workload: str
    replicas: int | None = None
    runs_for: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    workloads: dict[str, Replicas]
    events: tuple[LoadEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One of the forty. `slack_ppm`: millionths of the capacity kept as slack. `steady`: the load is constant, or stays within
    the slack, so nothing that was bought may be removed within an hour."""

    load_name: LoadName
    group: GroupName
    slack_ppm: int
    seed: int
    load: Load = field(repr=False)

    @property
    def name(self) -> str:
        return f"{self.load_name}-{self.group}-{'slack' if self.slack_ppm else 'bare'}"

    @property
    def steady(self) -> bool:
        return self.load_name == "constant" or (self.slack_ppm > 0 and self.load_name in {"wave", "sine", "rolling"})


def all_shapes(seed: int, *, hours: int = HOURS) -> Iterator[Shape]:
    for load in LOADS:
        for group in GROUPS:
            for slack_ppm in (0, 250_000):
                yield a_shape(load, group, slack_ppm=slack_ppm, seed=seed, hours=hours)


def a_shape(load: LoadName, group: GroupName, *, slack_ppm: int, seed: int, hours: int = HOURS) -> Shape:
    rng = Random(f"{seed} {load} {group} {slack_ppm}")
    return Shape(load_name=load, group=group, slack_ppm=slack_ppm, seed=seed, load=_MAKERS[load](rng, hours * HOUR))


_GIB: Final = 1 << 30


def _a_mix(rng: Random, cores: int) -> dict[str, tuple[Replicas, int]]:
    """Workloads that request about so many cores together, with their numbers of replicas."""
    found: dict[str, tuple[Replicas, int]] = {}
    left = cores * 1000
    while left > 0:
        cpu = rng.choice((250, 500, 700, 1000, 1500, 2000, 2500))
        count = max(min(rng.randint(2, 12), left // cpu), 1)
        least = count - 1 if count > 2 and rng.random() < 0.2 else None
        found[f"app-{len(found)}"] = (Replicas(cpu=cpu, memory=rng.choice((1, 2, 3)) * _GIB // 2, least=least), count)
        left -= cpu * count
    return found


def _load(mix: dict[str, tuple[Replicas, int]], events: list[LoadEvent], **more: Replicas) -> Load:
    begin = [LoadEvent(at=0, workload=name, replicas=count) for name, (_, count) in mix.items()]
    workloads = {name: replicas for name, (replicas, _) in mix.items()} | more
    return Load(workloads=workloads, events=tuple(sorted([*begin, *events], key=lambda event: event.at)))


def _constant(rng: Random, _seconds: int) -> Load:
    return _load(_a_mix(rng, rng.randint(20, 60)), [])


def _wave(rng: Random, seconds: int) -> Load:
    """A fifth more pods every other half hour."""
    half, low = rng.choice((1200, 1800, 2700)), 20
    events = [
        LoadEvent(at=at, workload="wave", replicas=low + 4 * (number % 2)) for number, at in enumerate(range(0, seconds, half))
    ]
    return _load(_a_mix(rng, 8), events, wave=Replicas(cpu=rng.choice((1000, 2000)), memory=_GIB))


def _sine(rng: Random, seconds: int) -> Load:
    """A fifth more and less than the mean, in two to six hours, a step every five minutes."""
    period, mean = rng.uniform(2, 6) * HOUR, rng.randint(20, 40)
    events = [
        LoadEvent(at=at, workload="sine", replicas=round(mean * (1 + 0.1 * math.sin(math.tau * at / period))))
        for at in range(0, seconds, 300)
    ]
    return _load(_a_mix(rng, 8), events, sine=Replicas(cpu=rng.choice((500, 1000)), memory=_GIB))


def _batch(rng: Random, seconds: int) -> Load:
    events, at = [], 600
    while at < seconds:
        events.append(LoadEvent(at=at, workload="job", replicas=rng.randint(8, 24), runs_for=rng.randint(300, 1500)))
        at += rng.randint(1800, 5400)
    return _load(_a_mix(rng, 16), events, job=Replicas(cpu=1000, memory=_GIB))


def _rolling(rng: Random, seconds: int) -> Load:
    mix = _a_mix(rng, 30)
    events, at = [], HOUR
    while at < seconds:
        events.append(LoadEvent(at=at, workload=rng.choice(sorted(mix))))
        at += rng.randint(1800, 5400)
    return _load(mix, events)


_MAKERS: Final[dict[LoadName, Callable[[Random, int], Load]]] = {
    "constant": _constant,
    "wave": _wave,
    "sine": _sine,
    "batch": _batch,
    "rolling": _rolling,
}
