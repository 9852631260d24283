"""How many pods a second a real kube-scheduler binds: alone, with an extender that decides nothing, with Slackwater.

One run is one fresh control plane: nodes and pods are created while no scheduler runs, KWOK makes the nodes ready, the
extender starts and lists, then the scheduler starts; what is timed is the span from the first bind to the last in the API
server's audit log.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from tests.bench import contenders
from tests.bench.bindlog import BindLog
from tests.bench.contenders import ALONE, EXTENDER_USER, NOTHING, SCHEDULER_USER, Entrant
from tests.bench.contest import a_contest
from tests.bench.objects import a_node, a_plain_pod
from tests.bench.options import BenchFailed, Options, ServiceCommand, Tell
from tests.bench.report import Bounds, Goal, Measurement, Ratio, Report, ratio_of
from tests.bench.stage import Stage

NAME: Final = "scheduler-throughput"

_GOAL: Final = Goal(at_least=0.95)
_BOUNDS: Final = Bounds(
    low=0.4,
    high=2.5,
    why="one short run beside other load moves by a third; beyond that something waits for a time-out or a retry, "
    "or the two did not do the same",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What one run gave."""

    pods_per_second: float
    refused: int
    cpu_seconds: Mapping[str, float]


async def measure(options: Options, tell: Tell) -> Report:
    """Interleaved: each round runs every contender once, every other round backwards: a machine that gets slower under load
    favours nobody."""
    nodes = options.nodes or (200 if options.quick else 1000)
    pods = options.pods or (600 if options.quick else 6000)
    rounds = options.rounds or (1 if options.quick else 5)
    subjects: dict[str, ServiceCommand | None] = {ALONE: None, NOTHING: None, **{s.name: s for s in options.services}}
    runs: dict[str, list[_Run]] = defaultdict(list)
    for number in range(rounds):
        for subject, command in list(subjects.items())[:: -1 if number % 2 else 1]:
            run = await _run(subject, command, nodes=nodes, pods=pods)
            runs[subject].append(run)
            tell(f"{NAME} round {number + 1}/{rounds}: {subject}: {run.pods_per_second:.0f} pods/s")
    return Report(
        bench=NAME,
        quick=options.quick,
        parameters={"nodes": nodes, "pods": pods, "rounds": rounds},
        measurements=tuple(m for subject, done in runs.items() for m in _measurements(subject, done)),
        ratios=_ratios({subject: [r.pods_per_second for r in done] for subject, done in runs.items()}),
        notes=("CPU seconds of a run: from the scheduler's start to the last bind.",),
    )


def _measurements(subject: str, runs: list[_Run]) -> list[Measurement]:
    speed = tuple(run.pods_per_second for run in runs)
    found = [Measurement(subject=subject, quantity="throughput", unit="pods/s", samples=speed)]
    for process in ("kube-scheduler", "extender", "kube-apiserver", "etcd", "kwok"):
        if process in runs[0].cpu_seconds:
            spent = tuple(run.cpu_seconds[process] for run in runs)
            found.append(Measurement(subject=subject, quantity=f"{process} CPU", unit="s", samples=spent))
    refused = tuple(float(run.refused) for run in runs)
    return [*found, Measurement(subject=subject, quantity="binds refused", unit="", samples=refused)]


def _ratios(speeds: Mapping[str, list[float]]) -> tuple[Ratio, ...]:
    alone, nothing = speeds[ALONE], speeds[NOTHING]
    services = {name: speed for name, speed in speeds.items() if name not in {ALONE, NOTHING}}
    return (
        *(ratio_of(f"{name} / {NOTHING}", speed, nothing, bounds=_BOUNDS, goal=_GOAL) for name, speed in services.items()),
        ratio_of(f"{NOTHING} / {ALONE}", nothing, alone),
        *(ratio_of(f"{name} / {ALONE}", speed, alone) for name, speed in services.items()),
    )


async def _run(subject: str, command: ServiceCommand | None, *, nodes: int, pods: int) -> _Run:
    choose = partial(_entrant, subject, command)
    async with a_contest(choose, nodes=map(a_node, range(nodes)), pods=map(a_plain_pod, range(pods))) as contest:
        await contest.until_bound(pods)
        log, spent = contest.log, contest.spent()
        _check(subject, log, pods)
        refused = sum(bind.status != 201 for bind in log.binds)
        return _Run(pods_per_second=(pods - 1) / log.span_seconds(), refused=refused, cpu_seconds=spent)


def _entrant(subject: str, command: ServiceCommand | None, stage: Stage) -> Entrant | None:
    if command is not None:
        return contenders.service(stage, command)
    return contenders.decides_nothing(stage) if subject == NOTHING else None


def _check(subject: str, log: BindLog, pods: int) -> None:
    """The right one bound, each pod once."""
    want = SCHEDULER_USER if subject == ALONE else EXTENDER_USER
    bound = [bind.pod for bind in log.binds if bind.status == 201 and bind.user == want]
    if len(bound) != pods or len(set(bound)) != pods:
        users = sorted({bind.user for bind in log.binds})
        raise BenchFailed(f"{NAME}: {subject}: {len(set(bound))} pods bound by {want}, want {pods}; binds came from {users}")
