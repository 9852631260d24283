"""One large cluster on the real API server: first sync, memory, CPU and requests at rest, watch lag, filter, plans and audits.

5,000 nodes and 150,000 bound pods unless told otherwise; `make scale`, never part of the usual run. Loading takes longest: 30
objects are created at a time. The service starts twice: with its default settings, and with the autoscaler, whose planning
process has a copy of the cluster. Deliberately absent: a reference, a scheduler and kubelets.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

import aiohttp
import anyio
import anyio.to_thread
import orjson

from slackwater.app.settings import loads
from slackwater_protocol.names import NODE_GROUP
from tests.bench import contenders
from tests.bench.keepalive import KeepAlive, a_request
from tests.bench.machine import described
from tests.bench.objects import a_node, a_plain_pod, node_name
from tests.bench.options import BenchFailed, Options, WriteFrame
from tests.bench.procstat import cpu_seconds, own_bytes, resident_bytes, with_descendants
from tests.bench.report import Measurement, Report
from tests.bench.stage import NODES_PATH, PODS_PATH, Stage, a_stage
from tests.cluster.support.audit_tail import AuditTail
from tests.cluster.support.metrics import Samples
from tests.support.controlplane.component import Component

T = TypeVar("T")

NAME: Final = "scale"

_NODES: Final = 5_000
_PODS: Final = 150_000
_QUICK: Final = (200, 4_000)
_SLICE: Final = 5_000
_READY_WITHIN_SECONDS: Final = 1_800.0
_SEEN_WITHIN_SECONDS: Final = 60.0
_PLANNED_WITHIN_SECONDS: Final = 900.0
_REST_SECONDS: Final = 60.0
_LAGS: Final = 40
_FILTERS: Final = 300
_LOOPS: Final = 3
#: Larger than what is left of any node: nodes have to be planned for them.
_LARGE: Final = "30"
_WAITING: Final = 100
_GROUP: Final = "pool"
_FUNCTION: Final = "cluster_autoscaler_function_duration_seconds"
_SETTINGS: Final = """
audit: {{interval: 2m}}
autoscaler:
  enabled: true
  scanInterval: 10s
  maxNodesInCreation: 0
  nodeGroups:
  - name: {group}
    provider: kwok
    maxSize: {most}
    template: {{status: {{capacity: {{cpu: "32", memory: 128Gi, pods: "250"}}}}}}
"""


async def measure(options: Options, tell: WriteFrame) -> Report:
    """Loads the cluster once, and starts the service twice."""
    usual = _QUICK if options.quick else (_NODES, _PODS)
    nodes, pods = options.nodes or usual[0], options.pods or usual[1]
    settings = _SETTINGS.format(group=_GROUP, most=2 * nodes)
    found: list[Measurement] = []

    def note(quantity: str, unit: str, *samples: float) -> None:
        found.append(Measurement(subject="slackwater", quantity=quantity, unit=unit, samples=samples))

    async with a_stage(kwok=False, settings=loads(contenders.HEADER + settings), reads_too=True) as stage:
        note("loading", "s", await _load(stage, nodes, pods, tell))
        async with _serving(stage, options, "", note, tell) as (process, _, _):
            await _rest(stage, process, "", note, tell)
        async with _serving(stage, options, settings, partial(_noted_as, note, ", autoscaler"), tell) as (process, ops, port):
            await _rest(stage, process, ", autoscaler", note, tell)
            note("watch lag", "ms", *[1000 * lag for lag in await _lags(stage, ops, nodes, pods)])
            filters = await anyio.to_thread.run_sync(_filters, port, nodes)
            note("filter, p50", "ms", 1000 * _share(filters, 0.5))
            note("filter, p99", "ms", 1000 * _share(filters, 0.99))
            tell(f"{NAME}: {len(filters)} filters over {nodes} names")
            await _plans(stage, ops, pods, note, tell)
            await _audits(ops, note)
            note("resident in the end", "MiB", resident_bytes(process.pid) / 2**20)
            note("all its processes in the end", "MiB", own_bytes(process.pid) / 2**20)
    machine = ", ".join(f"{name} {value}" for name, value in described().items())
    return Report(
        bench=NAME,
        quick=options.quick,
        parameters={"nodes": nodes, "bound pods": pods, "pending pods": _WAITING},
        measurements=tuple(found),
        ratios=(),
        notes=(
            "At rest: a minute in which nothing happens in the cluster, after the first sync. Requests: those of the service's "
            "account in the audit log, a watch when it ends.",
            "Watch lag: from the API server's answer to a new bound pod until /statusz counts it, asked every few ms.",
            f"Filter asks about all nodes, {_FILTERS} times one after another. Plans: the mean of the loops that there were.",
            f"Machine: {machine}.",
        ),
    )


def _noted_as(note: Callable[..., None], suffix: str, quantity: str, unit: str, *samples: float) -> None:
    note(quantity + suffix, unit, *samples)


@asynccontextmanager
async def _serving(
    stage: Stage, options: Options, settings: str, note: Callable[..., None], tell: WriteFrame
) -> AsyncIterator[tuple[Component, aiohttp.ClientSession, int]]:
    """The service from ready on, a session with its ops listener, and its extender's port. Notes what its start took."""
    entrant = contenders.service(stage, options.services[0], more=settings)
    requests, began = AuditTail(stage.control_plane.audit_log), time.monotonic()
    async with (
        stage.running(entrant.launch, ready_within_seconds=_READY_WITHIN_SECONDS) as process,
        aiohttp.ClientSession(entrant.launch.url, timeout=aiohttp.ClientTimeout(total=60)) as ops,
    ):
        seconds = time.monotonic() - began
        note("first sync", "s", seconds)
        note("CPU until then", "s", cpu_seconds(process.pid))
        note("resident", "MiB", resident_bytes(process.pid) / 2**20)
        note("requests until then", "", _asked(requests))
        tell(f"{NAME}: synced after {seconds:.1f} s")
        yield process, ops, entrant.extender_port


async def _rest(stage: Stage, process: Component, suffix: str, note: Callable[..., None], tell: WriteFrame) -> None:
    """A minute in which the cluster does not change."""
    requests, pids = AuditTail(stage.control_plane.audit_log), with_descendants(process.pid)
    before = sum(map(cpu_seconds, pids))
    await anyio.sleep(_REST_SECONDS)
    spent = sum(map(cpu_seconds, with_descendants(process.pid))) - before
    note(f"CPU at rest{suffix}", "cores", spent / _REST_SECONDS)
    note(f"requests at rest{suffix}", "/min", _asked(requests) * 60 / _REST_SECONDS)
    note(f"resident at rest{suffix}", "MiB", resident_bytes(process.pid) / 2**20)
    note(f"all its processes{suffix}", "MiB", own_bytes(process.pid) / 2**20)
    tell(f"{NAME}: a minute at rest took {spent:.1f} s of CPU")


def _asked(requests: AuditTail) -> int:
    """Requests of the service since the last call, watches when they end."""
    return sum(request.user == contenders.EXTENDER_USER for request in requests.read())


async def _load(stage: Stage, nodes: int, pods: int, tell: WriteFrame) -> float:
    """Seconds that it took."""
    began = time.monotonic()
    await stage.create(NODES_PATH, map(_a_node_of_the_group, range(nodes)))
    tell(f"{NAME}: {nodes} nodes created after {time.monotonic() - began:.0f} s")
    for first in range(0, pods, _SLICE):
        numbers = range(first, min(first + _SLICE, pods))
        at = time.monotonic()
        await stage.create(PODS_PATH, (a_plain_pod(number, node=node_name(number % nodes)) for number in numbers))
        rate = len(numbers) / (time.monotonic() - at)
        left = (pods - numbers.stop) / rate
        tell(f"{NAME}: {numbers.stop} of {pods} pods, {rate:.0f} a second, {left:.0f} s to go")
    return time.monotonic() - began


def _a_node_of_the_group(number: int) -> dict[str, Any]:
    node = a_node(number)
    node["metadata"]["labels"][NODE_GROUP] = _GROUP
    condition = {"type": "Ready", "status": "True"}
    return {**node, "status": {**node["status"], "conditions": [condition]}}


async def _until(
    look: Callable[[], Awaitable[T]],
    holds: Callable[[T], bool],
    *,
    within_seconds: float,
    wanted: str,
    every_seconds: float = 0.002,
) -> T:
    """What `look` sees as soon as `holds` says yes of it. Raises BenchFailed."""
    with anyio.move_on_after(within_seconds):
        while True:
            seen = await look()
            if holds(seen):
                return seen
            await anyio.sleep(every_seconds)
    raise BenchFailed(f"not within {within_seconds:g} s: {wanted}")


def _counts_more(before: int, status: dict[str, Any]) -> bool:
    return int(status["reservations"]) > before


async def _lags(stage: Stage, ops: aiohttp.ClientSession, nodes: int, pods: int) -> list[float]:
    """Seconds, one for each new pod."""
    lags = []
    for number in range(pods, pods + _LAGS):
        before = (await _status(ops))["reservations"]
        await stage.create(PODS_PATH, [a_plain_pod(number, node=node_name(number % nodes))])
        created = time.monotonic()
        await _until(
            partial(_status, ops), partial(_counts_more, before), within_seconds=_SEEN_WITHIN_SECONDS, wanted="it counted"
        )
        lags.append(time.monotonic() - created)
    return lags


def _filters(port: int, nodes: int) -> list[float]:
    """Seconds of each call, sorted. In a thread: it waits for each answer."""
    names = [node_name(number) for number in range(nodes)]
    requests = []
    for number in range(32):
        pod = a_plain_pod(number) | {"status": {"phase": "Pending"}}
        pod["metadata"] |= {"name": f"asked-{number}", "uid": f"asked-{number}", "resourceVersion": "1"}
        body = {"Pod": pod, "Nodes": None, "NodeNames": names}
        requests.append(a_request("/scheduler/filter", orjson.dumps(body)))
    with KeepAlive(port) as connection:
        return sorted(connection.ask(requests[number % len(requests)])[0] for number in range(_FILTERS))


async def _plans(stage: Stage, ops: aiohttp.ClientSession, pods: int, note: Callable[..., None], tell: WriteFrame) -> None:
    """Pods that fit nowhere; what the loops after them took."""
    before = await _metrics(ops)
    waiting = (_a_large_pod(number) for number in range(pods + _LAGS, pods + _LAGS + _WAITING))
    await stage.create(PODS_PATH, waiting)
    want = _loops(before) + _LOOPS

    def enough(seen: Samples) -> bool:
        return _loops(seen) >= want

    within = _PLANNED_WITHIN_SECONDS
    after = await _until(partial(_metrics, ops), enough, within_seconds=within, wanted=f"{_LOOPS} loops", every_seconds=1)
    for function, quantity in (("scaleUp", "plan of growth"), ("findUnneeded", "plan of removals"), ("main", "whole loop")):
        spent, count = (
            after.number(f"{_FUNCTION}_{part}", function=function) - before.number(f"{_FUNCTION}_{part}", function=function)
            for part in ("sum", "count")
        )
        if count:
            note(quantity, "s", spent / count)
    note("autoscaler on the serving loop", "s", after.number("slackwater_autoscaler_serving_loop_seconds"))
    tell(f"{NAME}: {_loops(after) - _loops(before):g} loops of the autoscaler")


def _loops(metrics: Samples) -> float:
    return metrics.number(f"{_FUNCTION}_count", function="main")


def _a_large_pod(number: int) -> dict[str, Any]:
    pod = a_plain_pod(number)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": _LARGE, "memory": "1Gi"}}
    return pod


async def _audits(ops: aiohttp.ClientSession, note: Callable[..., None]) -> None:
    def audited(seen: Samples) -> bool:
        return seen.number("slackwater_audits_total", result="done") > 0

    within = _PLANNED_WITHIN_SECONDS
    metrics = await _until(partial(_metrics, ops), audited, within_seconds=within, wanted="an audit", every_seconds=1)
    if found := metrics.by("slackwater_audit_differences_total", "cause"):
        raise BenchFailed(f"the audit found {found}, want no difference")
    note("audit", "s", metrics.number("slackwater_audit_seconds"))
    note("audit's longest slice", "ms", 1000 * metrics.number("slackwater_audit_longest_slice_seconds"))


async def _status(ops: aiohttp.ClientSession) -> dict[str, Any]:
    async with ops.get("/statusz") as answer:
        answer.raise_for_status()
        return dict(await answer.json())


async def _metrics(ops: aiohttp.ClientSession) -> Samples:
    async with ops.get("/metrics") as answer:
        answer.raise_for_status()
        return Samples.parse(await answer.text())


def _share(sorted_seconds: list[float], share: float) -> float:
    return sorted_seconds[min(int(share * len(sorted_seconds)), len(sorted_seconds) - 1)]
