"""How many pods a second kube-scheduler binds: alone, and with Slackwater as installed, in clusters of several sizes.

A run is one fresh control plane with the API server's default flags. Its nodes are ready from the start and have no kubelets,
which have machines of their own in a cluster. The pods wait before kube-scheduler starts; it starts as soon as the extender is
ready. What is timed is the span from the first bind to the last in the API server's audit log. Then pods are created at a
fixed rate, below and above what kube-scheduler alone sustained. Their time to bind is from the API server's answer to the
creation to its answer to the binding. Creating a pod costs the API server and etcd more than binding it, so the machine may be
out of cores below that rate, too: how many cores all processes took says which part measures the scheduler, and which a queue.

kube-scheduler alone with as few nodes to score as Slackwater has it filter is the honest reference for node choice: anybody
may configure that. An extender that answers any one node shows what the protocol costs.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import count
from statistics import median
from time import process_time
from typing import Any, Final

import anyio
import orjson

from slackwater.app.settings.serving import Extender
from tests.bench import contenders
from tests.bench.bindlog import BindLog
from tests.bench.choices import choices
from tests.bench.contenders import ALL_NODES, ALONE, EXTENDER_USER, SCHEDULER_USER, Entrant
from tests.bench.contest import Contest, a_contest
from tests.bench.objects import a_plain_pod, a_ready_node
from tests.bench.options import BenchFailed, Options, ServiceCommand, WriteFrame
from tests.bench.report import Bounds, Goal, Measurement, Ratio, Report, ratio_of
from tests.bench.stage import PODS_PATH, Stage

NAME: Final = "scheduler-throughput"

_SIZES: Final = (20, 100, 1000, 5000)
#: Backlog and pods over time fit on 20 nodes of this size.
_CPU, _MEMORY, _PODS_OF_A_NODE = "384", "1536Gi", 1000
_ONE_NODE: Final = "answers any one node"
#: With the share of nodes that Slackwater has kube-scheduler filter.
_FEW_NODES: Final = f"{ALONE}, few nodes"
_BINDS: Final = "bind: true, all nodes"
#: The size at which Slackwater's own bind runs, too.
_LARGE_NODES: Final = 5000
#: kube-scheduler filters so many nodes, or all if there are fewer, whatever share it is told to score.
_FEWEST_NODES: Final = 100
#: Pods over time, and contenders that only explain the others, take part in the first rounds: nine of everything take hours.
_FIRST_ROUNDS: Final = 3
#: Pods that come over time are for so long; their rate is that of kube-scheduler alone by these factors.
_ARRIVAL_SECONDS: Final = 10.0
#: kube-scheduler's Events about a backlog come after its binds: up to a second's work for the API server.
_REST_SECONDS: Final = 3.0
_RATES: Final = (("far below", 0.2), ("below", 0.6), ("above", 1.25))
_CREATORS: Final = 40
_BOUNDS: Final = Bounds(
    low=0.15,
    high=6.0,
    why="one short run beside other load moves by a third; beyond that something waits for a time-out or a retry, "
    "or the two did not do the same",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contender:
    """What runs beside kube-scheduler; `entrant` is None for kube-scheduler alone."""

    name: str
    entrant: Callable[[Stage], Entrant] | None = None
    binder: str = SCHEDULER_USER
    of_service: bool = False

    @property
    def explains(self) -> bool:
        """Whether it only explains the others: no goal is about it."""
        return self.name == _BINDS

    def runs_on(self, nodes: int) -> bool:
        """Whether it runs in a cluster of that size. On few nodes, few nodes to score are all of them."""
        if self.name == _FEW_NODES:
            return nodes > _FEWEST_NODES
        return not self.explains or nodes >= _LARGE_NODES

    @property
    def over_time(self) -> bool:
        """Whether pods come over time, too. The goals about them compare the service with kube-scheduler alone; an extender
        that answers any one node shows how much of the difference is the protocol's."""
        return self.name in (ALONE, _ONE_NODE) or (self.of_service and not self.explains)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What one run gave. `choices` is what the service counted of its node choices."""

    pods_per_second: float
    cpu_ms_per_pod: Mapping[str, float]
    choices: Mapping[str, float]
    bind_seconds: Mapping[str, Sequence[float]]
    busy_cores: Mapping[str, float]  #: of all processes, this one included, by part


async def measure(options: Options, tell: WriteFrame) -> Report:
    """Interleaved: each round runs every contender once, every other round backwards. The machine's speed drifts within
    minutes, so that contenders that are compared run next to each other."""
    sizes = (options.nodes,) if options.nodes else (200,) if options.quick else _SIZES
    rounds = options.rounds or (1 if options.quick else 9)
    measurements: list[Measurement] = []
    ratios: list[Ratio] = []
    for nodes in sizes:
        pods = options.pods or (600 if options.quick else min(4000, 100 * nodes))
        runs = await _runs(options, tell, nodes=nodes, pods=pods, rounds=rounds)
        for name, done in runs.items():
            measurements += _measurements(f"{nodes} nodes: {name}", done)
        ratios += _ratios(nodes, runs)
    return Report(
        bench=NAME,
        quick=options.quick,
        parameters={"nodes": " ".join(map(str, sizes)), "pods": options.pods or "100 a node, at most 4000", "rounds": rounds},
        measurements=tuple(measurements),
        ratios=tuple(ratios),
        notes=(
            "CPU of a pod: from the scheduler's start to the last bind of the backlog, by the pods of the backlog.",
            f"Pods over time and {_BINDS} are of the first {_FIRST_ROUNDS} rounds.",
            f"Pods that come over time: {_ARRIVAL_SECONDS:g} s at the rate that kube-scheduler alone bound the backlog with, "
            f"times {' and '.join(f'{factor:g}' for _, factor in _RATES)}. Cores: the CPU seconds of all processes in a second,"
            " with those of the creator of the pods. Where they reach the machine's, pods wait for the machine.",
        ),
    )


async def _runs(options: Options, tell: WriteFrame, *, nodes: int, pods: int, rounds: int) -> dict[str, list[_Run]]:
    subjects = [each for each in _contenders(options.services) if options.quick or each.runs_on(nodes)]
    runs: dict[str, list[_Run]] = defaultdict(list)
    rate = 0.0
    for number in range(rounds):
        first = number < _FIRST_ROUNDS
        for subject in subjects[:: -1 if number % 2 else 1]:
            if subject.explains and not first:
                continue
            over_time = subject.over_time and first and not options.quick
            run = await _run(subject, nodes=nodes, pods=pods, rate=rate, over_time=over_time)
            if subject.name == ALONE and not number:
                rate = run.pods_per_second
            runs[subject.name].append(run)
            tell(f"{NAME}, {nodes} nodes, round {number + 1}/{rounds}: {subject.name}: {_summary(run)}")
    return runs


def _contenders(commands: Sequence[ServiceCommand]) -> list[_Contender]:
    def of_service(command: ServiceCommand, name: str, more: str = "", binder: str = SCHEDULER_USER) -> _Contender:
        entrant = partial(contenders.service, command=command, more=more)
        return _Contender(name=name, entrant=entrant, binder=binder, of_service=True)

    installed = [of_service(command, command.name) for command in commands]
    return [
        _Contender(name=ALONE),
        *installed,
        _Contender(name=_ONE_NODE, entrant=partial(contenders.decides_nothing, one_node=True)),
        _Contender(name=_FEW_NODES),
        of_service(commands[0], _BINDS, ALL_NODES, EXTENDER_USER),
    ]


def _summary(run: _Run) -> str:
    late = {
        name: f"{1000 * median(seconds):.0f} with {run.busy_cores[name]:.1f} cores busy"
        for name, seconds in run.bind_seconds.items()
    }
    spent = {name: round(value, 2) for name, value in run.cpu_ms_per_pod.items()}
    return f"{run.pods_per_second:.0f} pods/s; p50 ms {late}; {dict(run.choices)}; CPU ms a pod {spent}"


def _measurements(subject: str, runs: Sequence[_Run]) -> list[Measurement]:
    found = [
        Measurement(subject=subject, quantity="throughput", unit="pods/s", samples=tuple(run.pods_per_second for run in runs))
    ]
    for process in sorted(runs[0].cpu_ms_per_pod):
        samples = tuple(run.cpu_ms_per_pod[process] for run in runs)
        found.append(Measurement(subject=subject, quantity=f"{process} CPU", unit="ms/pod", samples=samples))
    for part, _ in _RATES:
        for share in (50, 99):
            times = [run.bind_seconds[part] for run in runs if part in run.bind_seconds]
            samples = tuple(1000 * _percentile(seconds, share) for seconds in times)
            if samples:
                found.append(Measurement(subject=subject, quantity=f"{part}: bind p{share}", unit="ms", samples=samples))
        if cores := tuple(run.busy_cores[part] for run in runs if part in run.busy_cores):
            found.append(Measurement(subject=subject, quantity=f"{part}: busy", unit="cores", samples=cores))
    return found


def _percentile(values: Sequence[float], share: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * share // 100)]


def _ratios(nodes: int, runs: Mapping[str, Sequence[_Run]]) -> list[Ratio]:
    speeds = {name: [run.pods_per_second for run in done] for name, done in runs.items()}
    services = [name for name in speeds if name not in (ALONE, _FEW_NODES, _ONE_NODE, _BINDS)]
    goal = Goal(at_least=1.3 if nodes >= _LARGE_NODES else 1.0)
    found = [
        ratio_of(
            f"{nodes} nodes: {name} / {ALONE}",
            speed,
            speeds[ALONE][: len(speed)],
            bounds=_BOUNDS,
            goal=goal if name in services else None,
        )
        for name, speed in speeds.items()
        if name != ALONE
    ]
    for reference, share in ((_ONE_NODE, 0.95), (_FEW_NODES, 0.8)):
        if reference not in speeds:
            continue
        wanted = Goal(at_least=share) if nodes >= _LARGE_NODES else None
        found += [
            ratio_of(f"{nodes} nodes: {name} / {reference}", speeds[name], speeds[reference], goal=wanted) for name in services
        ]
    for part, _ in _RATES:
        for share in (50, 99):
            if part in runs[ALONE][0].bind_seconds:
                late = {
                    name: [_percentile(run.bind_seconds[part], share) for run in done if part in run.bind_seconds]
                    for name, done in runs.items()
                }
                most = Goal(at_most=1.0 if part == "above" else 1.1)
                found += [
                    ratio_of(
                        f"{nodes} nodes, {part}, p{share}: {name} / {ALONE}",
                        times,
                        late[ALONE],
                        goal=most if name in services else None,
                    )
                    for name, times in late.items()
                    if times and name != ALONE
                ]
    return found


async def _run(contender: _Contender, *, nodes: int, pods: int, rate: float, over_time: bool) -> _Run:
    """`rate`: what kube-scheduler alone bound in a second; 0 where this is it, for the first time."""
    async with a_contest(
        contender.entrant or (lambda _stage: None),
        nodes=(a_ready_node(number, cpu=_CPU, memory=_MEMORY, pods=_PODS_OF_A_NODE) for number in range(nodes)),
        pods=map(a_plain_pod, range(pods)),
        kwok=False,
        edit=_few_nodes if contender.name == _FEW_NODES else None,
    ) as contest:
        log = contest.log
        await contest.until_bound(pods)
        spent, speed = contest.spent(), (pods - 1) / log.span_seconds()
        waited: dict[str, Sequence[float]] = {}
        busy: dict[str, float] = {}
        if over_time:
            await anyio.sleep(_REST_SECONDS)
            for part, factor in _RATES:
                begun_at, before = anyio.current_time(), _cpu_seconds(contest)
                waited[part] = await _arrivals(contest, first=len(log.binds) * 2, rate=(rate or speed) * factor)
                busy[part] = (_cpu_seconds(contest) - before) / (anyio.current_time() - begun_at)
        _check(contender, log)
        found = await choices(contest.entrant) if contender.of_service and contest.entrant is not None else {}
        of_a_pod = {process: 1000 * seconds / pods for process, seconds in spent.items()}
        return _Run(pods_per_second=speed, cpu_ms_per_pod=of_a_pod, choices=found, bind_seconds=waited, busy_cores=busy)


def _cpu_seconds(contest: Contest) -> float:
    """What all processes have spent, and this one, which creates the pods."""
    return sum(contest.spent().values()) + process_time()


def _few_nodes(document: dict[str, Any]) -> None:
    for profile in document["profiles"]:
        profile["percentageOfNodesToScore"] = Extender().percentage_of_nodes_to_score


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
    if others:
        raise BenchFailed(f"{NAME}: {contender.name}: binds came from {others} too, want {contender.binder} alone")
    if twice := sorted(pod for pod, times in Counter(bound).items() if times > 1):
        raise BenchFailed(
            f"{NAME}: {contender.name}: {len(twice)} pods were bound twice, {twice[0]} among them, want once each"
        )
