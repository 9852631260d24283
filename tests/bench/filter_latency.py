"""How long filter and prioritize take over 5,000 node names, on a real socket of the running service.

As installed, filter names one node, once for each pod: each question is about another pod. With `extender.bind: true` it names
every node that passes, also when it is asked about the same pods again. Beside them, in the same run: a server on the same
stack that parses nothing and answers as many bytes. All requests go over one keep-alive connection each, in short blocks in
turn. The pods are in the API server, so the service knows them as it does in a cluster; half of the nodes are too small for
the large ones.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import anyio.to_thread
import orjson

from tests.bench import contenders
from tests.bench.keepalive import KeepAlive, a_request
from tests.bench.objects import a_node, a_realistic_pod, node_name
from tests.bench.options import BenchFailed, Options, WriteFrame
from tests.bench.procstat import cpu_seconds_finely
from tests.bench.report import Bounds, Goal, Measurement, Ratio, Report, ratio_of
from tests.bench.stage import NODES_PATH, PODS_PATH, Stage, a_stage

NAME: Final = "filter-latency"

_PODS: Final = 64
_BLOCK: Final = 50
#: Questions before the rounds, at most, and the pause between two of them.
_FIRST: Final = 40
_FIRST_PAUSE_SECONDS: Final = 0.25
_SMALL, _LARGE = ("500m", "1Gi"), ("16", "32Gi")
_P50, _P99 = Goal(at_most=1.5), Goal(at_most=10.0)
_BOUNDS: Final = Bounds(
    low=0.5,
    high=60.0,
    why="below, the answers are not those that were asked for; above, something is done per node that should be done per call",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked again and again, once for each pod in turn. `check` raises BenchFailed for a wrong answer.

    `installed`: asked of the service as installed, about each pod once; otherwise of the service with `extender.bind: true`."""

    name: str
    requests: Sequence[bytes]
    check: Callable[[Any], None]
    installed: bool = False
    goals: tuple[Goal | None, Goal | None] = (None, None)


async def measure(options: Options, tell: WriteFrame) -> Report:
    """A round is one block of calls of each question; more rounds only mean more samples."""
    nodes = options.nodes or 5000
    rounds = options.rounds or (10 if options.quick else 60)
    async with a_stage(kwok=False) as stage, AsyncExitStack() as stack:
        await stage.create(NODES_PATH, (a_node(number, cpu="8" if number % 2 else "32") for number in range(nodes)))
        once = rounds * _BLOCK + _FIRST
        pods = [
            await _pods(stage, size, number * 100_000, count)
            for number, (size, count) in enumerate(((_SMALL, once), (_LARGE, once), (_SMALL, _PODS), (_LARGE, _PODS)))
        ]
        names = [node_name(number) for number in range(nodes)]
        questions = [*_once(names, pods[0], pods[1]), *_questions(names, pods[2], pods[3])]
        echo = await stack.enter_async_context(stage.running(contenders.echo(stage)))
        pids = {"echo": echo.pid}
        series: list[_Series] = []
        tell(f"{NAME}: {rounds} rounds of {_BLOCK} calls for each of {len(questions)} questions")
        for installed in (True, False):
            ports = {"echo": int(echo.launch.url.rpartition(":")[2])}
            async with AsyncExitStack() as services:
                for command in options.services:
                    name = command.name if installed else f"{command.name}, bind: true"
                    more = "" if installed else contenders.ALL_NODES
                    entrant = contenders.service(stage, command, more=more)
                    running = await services.enter_async_context(stage.running(entrant.launch))
                    ports[name], pids[name] = entrant.extender_port, running.pid
                asked = [question for question in questions if question.installed == installed]
                series += await anyio.to_thread.run_sync(partial(_ask_all, ports, pids, asked, rounds))
    return Report(
        bench=NAME,
        quick=options.quick,
        parameters={
            "nodes": nodes,
            "calls of each kind": rounds * _BLOCK,
            "bytes of a pod": len(orjson.dumps(pods[0][0])),
        },
        measurements=tuple(m for one in series for m in one.measurements()),
        ratios=tuple(_ratios(series, quick=options.quick)),
        notes=(
            "p50 and p99 of all calls of a kind. The echo answers as many bytes, and reads nothing of the question.",
            "The ratios are those of the medians of each block, and of the CPU that the server took for it.",
        ),
    )


async def _pods(stage: Stage, size: tuple[str, str], start: int, count: int) -> list[dict[str, Any]]:
    """As kube-scheduler has them: made by the API server, without the managed fields that it drops."""
    cpu, memory = size
    made = await stage.create(PODS_PATH, (a_realistic_pod(start + n, cpu=cpu, memory=memory) for n in range(count)))
    for pod in made:
        del pod["metadata"]["managedFields"]
    return made


class _Once(Sequence[bytes]):
    """filter about each of the pods; the names of the nodes begin at another node each time."""

    def __init__(self, names: list[str], pods: list[dict[str, Any]]) -> None:
        self._pods = pods
        turns = ((number * len(names)) // _PODS for number in range(_PODS))
        self._names = [orjson.dumps(names[start:] + names[:start]) for start in turns]

    def __len__(self) -> int:
        return len(self._pods)

    def __getitem__(self, number: Any) -> Any:
        pod, names = orjson.dumps(self._pods[number]), self._names[number % _PODS]
        return a_request("/scheduler/filter", b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (pod, names))


def _once(names: list[str], small: list[dict[str, Any]], large: list[dict[str, Any]]) -> Iterator[Question]:
    for name, pods in (("filter, all fit", small), ("filter, half fit", large)):
        yield Question(name=name, requests=_Once(names, pods), check=_check_one, goals=(_P50, _P99), installed=True)


def _check_one(answer: Any) -> None:
    if answer["Error"] or len(answer["NodeNames"]) != 1:
        raise BenchFailed(f"filter: {len(answer['NodeNames'])} nodes, error {answer['Error']!r}; want one node, no error")


def _questions(names: list[str], small: list[dict[str, Any]], large: list[dict[str, Any]]) -> Iterator[Question]:
    half = (len(names) + 1) // 2

    def requests(verb: str, pods: list[dict[str, Any]]) -> list[bytes]:
        """Each pod's names begin at another node, as kube-scheduler has it: no two questions in a row list the same ones."""
        starts = ((number * len(names)) // len(pods) for number in range(len(pods)))
        turned = (names[start:] + names[:start] for start in starts)
        bodies = (orjson.dumps({"Pod": pod, "Nodes": None, "NodeNames": n}) for pod, n in zip(pods, turned, strict=True))
        return [a_request(f"/scheduler/{verb}", body) for body in bodies]

    yield Question(
        name="filter, all pass",
        requests=requests("filter", small),
        check=partial(_check_filter, passing=len(names), failing=0),
        goals=(_P50, _P99),
    )
    yield Question(
        name="filter, half fail",
        requests=requests("filter", large),
        check=partial(_check_filter, passing=half, failing=len(names) - half),
        goals=(_P50, _P99),
    )
    yield Question(name="prioritize", requests=requests("prioritize", small), check=partial(_check_scores, want=len(names)))


def _check_filter(answer: Any, *, passing: int, failing: int) -> None:
    seen = len(answer["NodeNames"]), len(answer["FailedNodes"]) + len(answer["FailedAndUnresolvableNodes"])
    if answer["Error"] or seen != (passing, failing):
        raise BenchFailed(f"filter: {seen} nodes pass and fail, error {answer['Error']!r}; want {(passing, failing)}, no error")


def _check_scores(answer: Any, *, want: int) -> None:
    if len(answer) != want:
        raise BenchFailed(f"prioritize: {len(answer)} scores, want {want}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    """All calls of one question to one server, in blocks."""

    server: str
    question: Question
    answer_bytes: int
    blocks: list[list[float]]
    cpu: list[float]  #: of the server's process, for each block

    def p50s(self) -> list[float]:
        return [_quantile(block, 0.5) for block in self.blocks]

    def measurements(self) -> Iterator[Measurement]:
        calls = [seconds for block in self.blocks for seconds in block]
        subject = f"{self.question.name}: {self.server}"
        p50, p99 = self.question.goals if self.server != "echo" else (None, None)
        for quantity, share, goal in (("p50", 0.5, p50), ("p99", 0.99, p99), ("max", 1.0, None)):
            milliseconds = 1000 * _quantile(calls, share)
            yield Measurement(subject=subject, quantity=quantity, unit="ms", samples=(milliseconds,), goal=goal)
        question = (float(len(self.question.requests[0])),)
        yield Measurement(subject=subject, quantity="question", unit="bytes", samples=question)
        yield Measurement(subject=subject, quantity="answer", unit="bytes", samples=(float(self.answer_bytes),))


def _ask_all(ports: dict[str, int], pids: dict[str, int], questions: list[Question], rounds: int) -> list[_Series]:
    """Blocking; the loop has nothing else to do."""
    with ExitStack() as stack:
        connections = {name: stack.enter_context(KeepAlive(port)) for name, port in ports.items()}
        echo = connections.pop("echo")
        asked: list[tuple[KeepAlive, Sequence[bytes], _Series]] = []
        for question in questions:
            sizes = []
            for name, service in connections.items():
                body = _first(service, question)
                sizes.append(len(body))
                series = _Series(server=name, question=question, answer_bytes=len(body), blocks=[], cpu=[])
                asked.append((service, question.requests, series))
            same = _Series(server="echo", question=question, answer_bytes=sizes[0], blocks=[], cpu=[])
            echoed = [_to_echo(question.requests[number], sizes[0]) for number in range(_PODS)]
            asked.append((echo, echoed, same))
        for number in range(rounds):
            for connection, requests, series in asked:
                block = (requests[n % len(requests)] for n in range(number * _BLOCK, (number + 1) * _BLOCK))
                before = cpu_seconds_finely(pids[series.server])
                series.blocks.append([connection.ask(request)[0] for request in block])
                series.cpu.append(cpu_seconds_finely(pids[series.server]) - before)
    return [series for _, _, series in asked]


def _first(service: KeepAlive, question: Question) -> bytes:
    """An answer before the rounds, checked. The service chooses nodes only some time after it is ready."""
    for number in range(1, _FIRST + 1):
        _, body = service.ask(question.requests[-number])
        if len(orjson.loads(body)["NodeNames"] if question.installed else ()) < 2:
            break
        time.sleep(_FIRST_PAUSE_SECONDS)
    question.check(orjson.loads(body))
    return bytes(body)


def _to_echo(request: bytes, size: int) -> bytes:
    _, _, body = request.partition(b"\r\n\r\n")
    return a_request(f"/{size}", body)


def _ratios(series: list[_Series], *, quick: bool) -> Iterator[Ratio]:
    """The bounds are on the time of a call where nothing else runs. A quick run may share its cores: what waiting adds to a
    millisecond of work is not what it adds to an echo. So there they are on the CPU that the servers take."""
    echoes = {one.question.name: one for one in series if one.server == "echo"}
    for one in series:
        if one.server != "echo":
            name, echo = f"{one.question.name}: {one.server} / echo", echoes[one.question.name]
            yield ratio_of(name, one.p50s(), echo.p50s(), bounds=None if quick else _BOUNDS)
            yield ratio_of(f"{name}, CPU", one.cpu, echo.cpu, bounds=_BOUNDS if quick else None)


def _quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least that share of them does not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]
