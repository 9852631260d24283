"""Load shapes: forty, five loads, each with and without slack, on four kinds of node groups; and some more that mix what these
leave apart.

    for shape in (*all_shapes(seed), *further_shapes(seed)): print(shape.name, shape.load.events)

A load is a list of events: from a time on a workload wants so many replicas, is rolled out again, or a batch of pods comes that
ends by itself. Sizes, periods and numbers follow the seed. Deliberately absent: what plays them (`play`).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random
from typing import Final, Literal

HOUR: Final = 3600
HOURS: Final = 12

LoadName = Literal["constant", "wave", "sine", "batch", "rolling", "edge"]
#: plain: machines that work. odd: one node made by hand, and pods that would fit on no other. failing: some machines never
#: arrive, some die. minimum: a group that must keep more nodes than the load needs, of which some fail. mixed: three groups,
#: nodes of 2, 4 and 8 CPU, each with a minimum of one. spread: one workload has at most one pod on a node.
GroupName = Literal["plain", "odd", "failing", "minimum", "mixed", "spread"]
#: bare: none. slack: a quarter of the capacity. v1: the same, sized by the average node alone. rules: a tenth, and amounts for
#: the nodes of 4 CPU. annotated: room for three more pods of one workload, and a tenth.
SlackName = Literal["bare", "slack", "v1", "rules", "annotated"]
LOADS: Final[tuple[LoadName, ...]] = ("constant", "wave", "sine", "batch", "rolling")
GROUPS: Final[tuple[GroupName, ...]] = ("plain", "odd", "failing", "minimum")
_RATES: Final[dict[SlackName, int]] = {"bare": 0, "slack": 250_000, "v1": 250_000, "rules": 100_000, "annotated": 100_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """Pods of one workload: milliCPU, bytes, how many of them a budget keeps ready, whether a node takes only one of them, and
    their annotation `slackwater.dev/slack`."""

    cpu: int
    memory: int
    least: int | None = None
    alone: bool = False
    slack: str = ""


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
    """One of the shapes. `steady`: the load is constant, or stays within the slack, so nothing that was bought may be removed
    within an hour."""

    load_name: LoadName
    group: GroupName
    slack: SlackName
    seed: int
    load: Load = field(repr=False)

    @property
    def name(self) -> str:
        return f"{self.load_name}-{self.group}-{self.slack}"

    @property
    def slack_ppm(self) -> int:
        """Millionths of the capacity kept as slack."""
        return _RATES[self.slack]

    @property
    def steady(self) -> bool:
        return self.load_name == "constant" or (self.slack in {"slack", "v1"} and self.load_name != "batch")


def all_shapes(seed: int, *, hours: int = HOURS) -> Iterator[Shape]:
    for load in LOADS:
        for group in GROUPS:
            yield a_shape(load, group, "bare", seed=seed, hours=hours)
            yield a_shape(load, group, "slack", seed=seed, hours=hours)


def further_shapes(seed: int, *, hours: int = HOURS) -> Iterator[Shape]:
    loads: tuple[LoadName, ...] = ("constant", "edge", "batch", "rolling")
    groups: tuple[GroupName, ...] = ("mixed", "spread")
    slacks: tuple[SlackName, ...] = ("v1", "rules", "annotated")
    for load, group, slack in product(loads, groups, slacks):
        yield a_shape(load, group, slack, seed=seed, hours=hours)


def a_shape(load: LoadName, group: GroupName, slack: SlackName, *, seed: int, hours: int = HOURS) -> Shape:
    rng = Random(f"{seed} {load} {group} {_RATES[slack] if slack in {'bare', 'slack'} else slack}")
    made = _MAKERS[load](rng, hours * HOUR)
    if slack == "annotated":
        name = rng.choice(sorted(made.workloads))
        made = replace(made, workloads={**made.workloads, name: replace(made.workloads[name], slack="3")})
    if group == "spread":
        alone = Replicas(cpu=rng.choice((500, 1500)), memory=_GIB, alone=True, slack="2" if slack == "annotated" else "")
        begin = LoadEvent(at=0, workload="alone", replicas=rng.randint(3, 8))
        made = Load(workloads={**made.workloads, "alone": alone}, events=(begin, *made.events))
    return Shape(load_name=load, group=group, slack=slack, seed=seed, load=made)


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


def _edge(rng: Random, seconds: int) -> Load:
    """Every other half hour so many more pods that they take the slack of a quarter, but for a pod."""
    half, low = rng.choice((1200, 1800, 2700)), rng.randint(18, 30)
    events = [
        LoadEvent(at=at, workload="wave", replicas=low + (low // 3 - 1) * (number % 2))
        for number, at in enumerate(range(0, seconds, half))
    ]
    return _load(_a_mix(rng, 4), events, wave=Replicas(cpu=rng.choice((500, 1000)), memory=_GIB))


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
    "edge": _edge,
}
