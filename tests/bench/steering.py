"""kube-scheduler alone, with Slackwater, and with Slackwater that tells pods where to go: a backlog, and pods over time.

A run is one fresh control plane. Nobody plays kubelets: on a cluster they have machines of their own. In the first part the
pods are there before the scheduler. It starts as soon as the service is ready. Or, "told first", it starts when all pods were
told, as behind a scheduling gate or after a pause of the scheduler. In the second part both are up, and pods are created at a
fixed rate, below and above what kube-scheduler alone sustains in the first.
kube-scheduler alone runs twice: as it comes, and with as few nodes to score as steering has it filter, which is a choice that
anybody has.
Time to bind is from the API server's answer to the creation to its answer to the binding, by its audit log.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from statistics import median
from typing import Any, Final

import anyio
import orjson

from slackwater.app.settings.steering import Steering
from tests.bench import contenders
from tests.bench.bindlog import BindLog
from tests.bench.contenders import ALONE, EXTENDER_USER, SCHEDULER_USER, Entrant
from tests.bench.contest import Contest, a_contest
from tests.bench.nominations import STEERED, ended, until_told
from tests.bench.objects import a_plain_pod, a_ready_node
from tests.bench.options import BenchFailed, Options, ServiceCommand, Tell
from tests.bench.report import Bounds, Goal, Measurement, Ratio, Report, ratio_of
from tests.bench.stage import PODS_PATH, Stage

NAME: Final = "steering"

_TOLD_FIRST: Final = "told first"
#: With the share of nodes that steering has kube-scheduler filter.
_FEW_NODES: Final = f"{ALONE}, few nodes"
_UNSTEERED: Final = ""
_UNBOUND: Final = "extender: {bind: false}\n"
#: What is said in the configuration file beside the addresses.
_WAYS: Final[Mapping[str, str]] = {
    "steering, kube-scheduler binds": STEERED + _UNBOUND,
    f"{_TOLD_FIRST}, kube-scheduler binds": STEERED + _UNBOUND,
    "steering": STEERED,
    "unsteered": _UNSTEERED,
}
#: Pods that come over time are for so long; their rate is that of kube-scheduler alone by these factors.
_ARRIVAL_SECONDS: Final = 10.0
#: kube-scheduler's Events about a backlog come after its binds: up to a second's work for the API server.
_REST_SECONDS: Final = 3.0
_RATES: Final = (("below", 0.6), ("above", 1.25))
_CREATORS: Final = 40
_GOAL: Final = Goal(at_least=1.5)
_BOUNDS: Final = Bounds(low=0.3, high=4.0, why="beyond that the two did not do the same")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contender:
    """A service with a configuration; None: kube-scheduler alone."""

    name: str
    command: ServiceCommand | None = None
    more: str = ""
    told_first: bool = False

    @property
    def binder(self) -> str:
        return SCHEDULER_USER if self.command is None or _UNBOUND in self.more else EXTENDER_USER

    @property
    def over_time(self) -> bool:
        """Whether pods come over time, too. Unsteered it takes a third of them, and the rest is a queue that grows."""
        return not self.told_first and (self.command is None or self.more != _UNSTEERED)

    def entrant(self, stage: Stage) -> Entrant | None:
        """None: no extender."""
        return None if self.command is None else contenders.service(stage, self.command, more=self.more)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What one run gave. `steered` is what the service says became of nominations."""

    pods_per_second: float
    cpu_seconds: Mapping[str, float]
    steered: Mapping[str, float]
    bind_seconds: Mapping[str, Sequence[float]]


async def measure(options: Options, tell: Tell) -> Report:
    """Interleaved: each round runs every contender once, every other round backwards. Who is to be faster than kube-scheduler
    alone runs next to it: the machine's speed drifts within minutes."""
    nodes = options.nodes or (300 if options.quick else 5000)
    pods = options.pods or (300 if options.quick else 4000)
    rounds = options.rounds or (1 if options.quick else 5)
    contenders_ = [_Contender(name=ALONE), *_services(options.services), _Contender(name=_FEW_NODES)]
    runs: dict[str, list[_Run]] = defaultdict(list)
    rate = 0.0
    for number in range(rounds):
        for contender in contenders_[:: -1 if number % 2 else 1]:
            run = await _run(contender, nodes=nodes, pods=pods, rate=rate, quick=options.quick)
            if contender.name == ALONE and not number:
                rate = run.pods_per_second
            runs[contender.name].append(run)
            tell(f"{NAME} round {number + 1}/{rounds}: {contender.name}: {_told(run)}")
    return Report(
        bench=NAME,
        quick=options.quick,
        parameters={"nodes": nodes, "pods": pods, "rounds": rounds},
        measurements=tuple(m for name, done in runs.items() for m in _measurements(name, done)),
        ratios=_ratios(runs),
        notes=(
            "CPU seconds of a run: from the scheduler's start to the last bind of the backlog.",
            f"Pods that come over time: {_ARRIVAL_SECONDS:g} s at the rate that kube-scheduler alone bound the backlog with, "
            f"times {' and '.join(f'{factor:g}' for _, factor in _RATES)}.",
        ),
    )


def _services(commands: Sequence[ServiceCommand]) -> list[_Contender]:
    several = len(commands) > 1
    return [
        _Contender(
            name=f"{command.name}, {way}" if several else way,
            command=command,
            more=more,
            told_first=way.startswith(_TOLD_FIRST),
        )
        for command in commands
        for way, more in _WAYS.items()
    ]


def _told(run: _Run) -> str:
    late = {name: f"{1000 * median(seconds):.0f}" for name, seconds in run.bind_seconds.items()}
    return f"{run.pods_per_second:.0f} pods/s; p50 ms {late}; {dict(run.steered)}; CPU s {_rounded(run.cpu_seconds)}"


def _rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 1) for name, value in seconds.items()}


def _measurements(subject: str, runs: Sequence[_Run]) -> list[Measurement]:
    found = [
        Measurement(subject=subject, quantity="throughput", unit="pods/s", samples=tuple(run.pods_per_second for run in runs))
    ]
    for process in sorted(runs[0].cpu_seconds):
        samples = tuple(run.cpu_seconds[process] for run in runs)
        found.append(Measurement(subject=subject, quantity=f"{process} CPU", unit="s", samples=samples))
    for part, _ in _RATES:
        for share in (50, 99):
            times = [run.bind_seconds[part] for run in runs if part in run.bind_seconds]
            samples = tuple(1000 * _percentile(seconds, share) for seconds in times)
            if samples:
                found.append(Measurement(subject=subject, quantity=f"{part}: bind p{share}", unit="ms", samples=samples))
    for what in sorted({what for run in runs for what in run.steered}):
        counts = tuple(run.steered.get(what, 0.0) for run in runs)
        quantity = what if what.startswith("chosen") else f"nominations {what}"
        found.append(Measurement(subject=subject, quantity=quantity, unit="", samples=counts))
    return found


def _percentile(values: Sequence[float], share: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * share // 100)]


def _ratios(runs: Mapping[str, Sequence[_Run]]) -> tuple[Ratio, ...]:
    speeds = {name: [run.pods_per_second for run in done] for name, done in runs.items()}
    return tuple(
        ratio_of(
            f"{name} / {ALONE}",
            speed,
            speeds[ALONE],
            bounds=_BOUNDS,
            goal=_GOAL if name not in (_FEW_NODES, "unsteered") else None,
        )
        for name, speed in speeds.items()
        if name != ALONE
    )


async def _run(contender: _Contender, *, nodes: int, pods: int, rate: float, quick: bool) -> _Run:
    """`rate`: what kube-scheduler alone bound in a second; 0 where this is it, for the first time."""
    before = until_told if contender.told_first else None
    async with a_contest(
        contender.entrant,
        nodes=map(a_ready_node, range(nodes)),
        pods=map(a_plain_pod, range(pods)),
        before=before,
        kwok=False,
        edit=_few_nodes if contender.name == _FEW_NODES else None,
    ) as contest:
        log = contest.log
        await contest.until_bound(pods)
        spent, speed = contest.spent(), (pods - 1) / log.span_seconds()
        waited: dict[str, Sequence[float]] = {}
        if not quick and contender.over_time:
            await anyio.sleep(_REST_SECONDS)
            for part, factor in _RATES:
                waited[part] = await _arrivals(contest, first=len(log.binds) * 2, rate=(rate or speed) * factor)
        _check(contender, log)
        steered = {} if contest.entrant is None else await ended(contest.entrant)
        return _Run(pods_per_second=speed, cpu_seconds=spent, steered=steered, bind_seconds=waited)


def _few_nodes(document: dict[str, Any]) -> None:
    for profile in document["profiles"]:
        profile["percentageOfNodesToScore"] = Steering().percentage_of_nodes_to_score


async def _arrivals(contest: Contest, *, first: int, rate: float) -> list[float]:
    """Pods created at a fixed rate; how long each waited for its bind, in seconds."""
    stage, log = contest.stage, contest.log
    made: dict[str, datetime] = {}
    total = int(rate * _ARRIVAL_SECONDS)
    numbers = count()
    begun = anyio.current_time()

    async def create() -> None:
        while (number := next(numbers)) < total:
            await anyio.sleep_until(begun + number / rate)
            pod = a_plain_pod(first + number)
            async with stage.api.post(
                PODS_PATH, data=orjson.dumps(pod), headers={"Content-Type": "application/json"}
            ) as answer:
                if answer.status != 201:
                    raise BenchFailed(f"creating {pod['metadata']['name']}: {answer.status}, want 201")
                await answer.read()
            made[pod["metadata"]["name"]] = datetime.now(UTC)

    before = len({bind.pod for bind in log.binds if bind.status == 201})
    async with anyio.create_task_group() as group:
        for _ in range(_CREATORS):
            group.start_soon(create)
    await contest.until_bound(before + total)
    return [(bind.ended_at - made[bind.pod]).total_seconds() for bind in log.binds if bind.status == 201 and bind.pod in made]


def _check(contender: _Contender, log: BindLog) -> None:
    """The right one bound, each pod once."""
    bound = [bind.pod for bind in log.binds if bind.status == 201]
    others = sorted({bind.user for bind in log.binds if bind.status == 201} - {contender.binder})
    if others or len(bound) != len(set(bound)):
        raise BenchFailed(f"{NAME}: {contender.name}: binds came from {others} too, want {contender.binder} alone, once each")
