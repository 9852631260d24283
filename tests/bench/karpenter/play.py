"""What is done to a side, and what came of it: a burst of pods, and later the end of most of them."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import anyio

from tests.bench.bindlog import BindLog
from tests.bench.karpenter.inputs import PRICES, WORKLOADS, Json, bill, deployments
from tests.bench.karpenter.sides import Side
from tests.bench.options import PATIENCE_SECONDS, BenchFailed
from tests.bench.procstat import cpu_seconds, with_descendants
from tests.bench.stage import NODES_PATH, PODS_PATH, Stage
from tests.cluster.support.audit_tail import AuditTail
from tests.cluster.support.ground import MERGE_PATCH

_DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
_SCHEDULER: Final = "slackwater"
_LOOK_EVERY_SECONDS: Final = 0.2
#: Each side has started its processes, and has looked at the empty cluster.
_BEGINS_AFTER_SECONDS: Final = 5.0
#: A side rests if it has changed no node and left no pod pending for so long. Karpenter looks every 10 s, and waits for 15 s
#: before it does what it has found.
REST_SECONDS: Final = 120.0
_RESTS_WITHIN_SECONDS: Final = 2400.0
#: The share of the pods that stays.
STAYING: Final = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`seconds`: until the last pod was bound, or until the last change of a node. `micros`: of all nodes an hour. `cpu`:
    seconds of the process that decides. `evictions`: pods that it evicted."""

    seconds: float
    micros: int
    nodes: int
    types: dict[str, int]
    cpu: float
    evictions: int = 0


async def burst(side: Side, pods: int) -> Outcome:
    """Creates the Deployments, and waits until every pod is bound. Raises BenchFailed."""
    await anyio.sleep(_BEGINS_AFTER_SECONDS)
    log, spent = BindLog(side.stage.control_plane.audit_log), _cpu(side)
    began = datetime.now(UTC)
    await side.stage.create(_DEPLOYMENTS, deployments(WORKLOADS, pods, _SCHEDULER))
    bound = 0
    with anyio.move_on_after(PATIENCE_SECONDS):
        while True:
            bound = log.read_on()
            if bound >= pods:
                break
            await anyio.sleep(_LOOK_EVERY_SECONDS)
    if bound < pods:
        raise BenchFailed(f"{bound} of {pods} pods bound within {PATIENCE_SECONDS:g} s")
    last = max(each.ended_at for each in log.binds if each.status == 201)
    return await _outcome(side, (last - began).total_seconds(), spent)


async def fall(side: Side, pods: int) -> Outcome:
    """Ends most pods, and waits until the side rests. Raises BenchFailed."""
    tail, spent = AuditTail(side.stage.control_plane.audit_log), _cpu(side)
    began = anyio.current_time()
    for each in deployments(WORKLOADS, pods, _SCHEDULER):
        patch = {"spec": {"replicas": round(each["spec"]["replicas"] * STAYING)}}
        path = f"{_DEPLOYMENTS}/{each['metadata']['name']}"
        async with side.stage.api.patch(path, json=patch, headers=MERGE_PATCH) as answer:
            answer.raise_for_status()
    changed = await _rests(side.stage)
    evictions = sum((each.verb, each.resource, each.status) == ("create", "pods/eviction", 201) for each in tail.read())
    return await _outcome(side, changed - began, spent, evictions)


async def _rests(stage: Stage) -> float:
    """When the last node changed, by the clock of the event loop; after the side has rested."""
    seen, changed_at, began = None, anyio.current_time(), anyio.current_time()
    while (now := anyio.current_time()) - began < _RESTS_WITHIN_SECONDS:
        nodes = [
            (each["metadata"]["name"], each["metadata"].get("deletionTimestamp")) for each in await _items(stage, NODES_PATH)
        ]
        pending = [each["metadata"]["name"] for each in await _items(stage, PODS_PATH) if not each["spec"].get("nodeName")]
        if (nodes, pending) != seen or pending:
            seen, changed_at = (nodes, pending), now
        if now - changed_at >= REST_SECONDS:
            return changed_at
        await anyio.sleep(1)
    raise BenchFailed(f"nodes still change after {_RESTS_WITHIN_SECONDS:g} s")


async def _outcome(side: Side, seconds: float, spent: float, evictions: int = 0) -> Outcome:
    micros, types = bill(await _items(side.stage, NODES_PATH), PRICES)
    return Outcome(
        seconds=seconds, micros=micros, nodes=types.total(), types=dict(sorted(types.items())), cpu=_cpu(side) - spent,
        evictions=evictions,
    )  # fmt: skip


async def _items(stage: Stage, path: str) -> list[Json]:
    async with stage.api.get(path, params={"resourceVersion": "0"}) as answer:
        answer.raise_for_status()
        return list((await answer.json())["items"])


def _cpu(side: Side) -> float:
    return sum(cpu_seconds(pid) for pid in with_descendants(side.pid))
