"""A workload that grows, falls to a part, and grows again, and what a side made of it: the same measures for every side."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from typing import Final

import anyio
import orjson

from tests.bench.bindlog import BindLog
from tests.bench.karpenter.inputs import PRICES, WORKLOADS, Json, bill, deployments
from tests.bench.stage import NODES_PATH, PODS_PATH, Stage
from tests.cluster.support.audit_tail import AuditTail
from tests.cluster.support.ground import MERGE_PATCH
from tests.cluster.support.watching import watched

_DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
_SCHEDULER: Final = "slackwater"
_STEP_SECONDS: Final = 20.0
_LOOK_EVERY_SECONDS: Final = 2.0
#: All that is wanted of a pod is when it came.
_METADATA_ONLY: Final = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
#: The parts of the time, and what is wanted at the end of each, as a share of all pods.
_COURSE: Final = ((0.3, 1.0), (0.15, 1.0), (0.1, 0.4), (0.2, 0.4), (0.15, 0.9), (0.1, 0.9))


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a side made of the workload. `p95`: of the seconds from a pod's creation until it has a node. `begun`, `ended`: in
    Unix seconds."""

    begun: float
    ended: float
    node_hours: float
    dollars: float
    evictions: int
    p95: float


def wanted(seconds: float) -> Iterator[float]:
    """The share of all pods that is wanted at each step."""
    before, steps = 0.0, round(seconds / _STEP_SECONDS)
    for part, goal in _COURSE:
        count = max(round(part * steps), 1)
        yield from (before + (goal - before) * number / count for number in range(1, count + 1))
        before = goal


async def play(stage: Stage, pods: int, seconds: float) -> Made:
    """Plays the workload. A scheduler runs already."""
    log = stage.control_plane.audit_log
    audit, binds, looks, created = AuditTail(log), BindLog(log), _Looks(), dict[str, datetime]()
    begun = datetime.now(UTC).timestamp()
    items = deployments(WORKLOADS, pods, _SCHEDULER)
    await stage.create(_DEPLOYMENTS, [{**each, "spec": {**each["spec"], "replicas": 0}} for each in items])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(looks.run, stage)
        tasks.start_soon(_creations, stage, created)
        for share in wanted(seconds):
            await _scale(stage, items, share)
            await anyio.sleep(_STEP_SECONDS)
        tasks.cancel_scope.cancel()
    evictions = sum((each.verb, each.resource, each.status) == ("create", "pods/eviction", 201) for each in audit.read())
    binds.read_on()
    waits = sorted(
        max((bind.ended_at - created[bind.pod]).total_seconds(), 0.0)
        for bind in binds.binds
        if bind.status == 201 and bind.pod in created
    )
    return Made(
        begun=begun,
        ended=datetime.now(UTC).timestamp(),
        node_hours=looks.node_seconds / 3600,
        dollars=looks.micro_seconds / 3600e6,
        evictions=evictions,
        p95=waits[ceil(0.95 * len(waits)) - 1],
    )


@dataclass(slots=True)
class _Looks:
    node_seconds: float = 0.0
    micro_seconds: float = 0.0

    async def run(self, stage: Stage) -> None:
        last = anyio.current_time()
        while True:
            await anyio.sleep(_LOOK_EVERY_SECONDS)
            micros, types = bill(await _items(stage, NODES_PATH), PRICES)
            now = anyio.current_time()
            self.node_seconds += types.total() * (now - last)
            self.micro_seconds += micros * (now - last)
            last = now


async def _creations(stage: Stage, created: dict[str, datetime]) -> None:
    """Notes when each pod comes, by its name. Its own stamp has whole seconds, which would lengthen the longest waits."""
    async for event in watched(stage.api, PODS_PATH, "0", headers=_METADATA_ONLY):
        if event["type"] == "ADDED":
            created.setdefault(event["object"]["metadata"]["name"], datetime.now(UTC))


async def _items(stage: Stage, path: str) -> list[Json]:
    async with stage.api.get(path, params={"resourceVersion": "0"}) as answer:
        answer.raise_for_status()
        found: list[Json] = orjson.loads(await answer.read())["items"]
        return found


async def _scale(stage: Stage, items: Iterable[Json], share: float) -> None:
    for each in items:
        path = f"{_DEPLOYMENTS}/{each['metadata']['name']}"
        patch = {"spec": {"replicas": round(each["spec"]["replicas"] * share)}}
        async with stage.api.patch(path, json=patch, headers=MERGE_PATCH) as answer:
            answer.raise_for_status()
