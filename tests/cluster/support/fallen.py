"""A cluster whose load has fallen: Deployments on a kwok group, then most of their pods gone, and what can be seen of it.

Deliberately absent: what should become of it.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.cluster.support.bodies import Json, a_deployment
from tests.cluster.support.ground import MERGE_PATCH, Ground
from tests.cluster.support.removals import History
from tests.support.waiting import eventually

CPU: Final = 16_000
WORKLOADS: Final = 6
#: As a share of all pods.
LEFT: Final = 0.3
#: A tainted node is about to be emptied for so long: the time that schedulers have to see its taint, less what a look takes.
_FRESH_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Fallen:
    """`nodes` are full with `pods` before the load falls."""

    ground: Ground
    nodes: int
    pods: int

    @property
    def per_node(self) -> int:
        return self.pods // self.nodes

    @property
    def names(self) -> list[str]:
        return [f"w{number}" for number in range(WORKLOADS)]

    @property
    def without_budget(self) -> list[str]:
        return self.names[WORKLOADS // 2 :]

    @property
    def left(self) -> int:
        """Pods of each workload in the end."""
        return int(self.pods // WORKLOADS * LEFT)

    @property
    def enough(self) -> int:
        """Nodes in the end: half full where nothing is in the way, and two that the stuck pods hold."""
        return int(WORKLOADS * self.left / self.per_node / 0.5) + 2

    async def deploy(self) -> None:
        """All pods, two more that nobody may evict, and budgets for half of the workloads."""
        for name in self.names:
            await self._create("apps/v1", "deployments", self.a_deployment(name, self.pods // WORKLOADS))
        await self._create("apps/v1", "deployments", self.a_deployment("stuck", 2))
        for name in self.names[: WORKLOADS // 2]:
            await self.guard(name, {"app": name}, maxUnavailable="20%")
        await self.guard("stuck", {"app": "stuck"}, maxUnavailable=0)

    def a_deployment(self, name: str, replicas: int, *, cpu: int | None = None) -> Json:
        return a_deployment(name, replicas, cpu=f"{cpu or CPU // self.per_node}m")

    async def guard(self, name: str, labels: Mapping[str, str], **spec: Any) -> None:
        body = {"selector": {"matchLabels": dict(labels)}, **spec}
        kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
        await self._create("policy/v1", "poddisruptionbudgets", {**kind, "metadata": {"name": name}, "spec": body})

    async def unguard(self, name: str) -> None:
        path = f"/apis/policy/v1/namespaces/{self.ground.name}/poddisruptionbudgets/{name}"
        async with self.ground.api.delete(path) as answer:
            assert answer.status == 200, await answer.text()

    async def burst(self, replicas: int, *, cpu: int) -> None:
        await self._create("apps/v1", "deployments", self.a_deployment("burst", replicas, cpu=cpu))

    async def scale(self, name: str, replicas: int) -> None:
        path = f"/apis/apps/v1/namespaces/{self.ground.name}/deployments/{name}"
        async with self.ground.api.patch(path, json={"spec": {"replicas": replicas}}, headers=MERGE_PATCH) as answer:
            assert answer.status == 200, await answer.text()

    async def label(self, pod: str, **labels: str) -> None:
        path = f"{self.ground.pods_path}/{pod}"
        async with self.ground.api.patch(path, json={"metadata": {"labels": labels}}, headers=MERGE_PATCH) as answer:
            assert answer.status == 200, await answer.text()

    async def until_running(self, history: History, count: int, *, within_seconds: float) -> None:
        async def pods() -> Counter[str]:
            own = history.there["pod"].items()
            return Counter("ready" if pod["ready"] else "waits" for name, pod in own if name.startswith(f"{self.ground.name}/"))

        def all_ready(seen: Counter[str]) -> bool:
            return seen == Counter(ready=count)

        await eventually(pods, all_ready, within_seconds=within_seconds, wanted=f"{count} pods run", every_seconds=0.5)

    async def _create(self, group: str, plural: str, body: Json) -> None:
        await self.ground.create(f"/apis/{group}/namespaces/{self.ground.name}/{plural}", body)


def running_pods(history: History) -> dict[str, list[str]]:
    """The pods on each node."""
    found: dict[str, list[str]] = {name: [] for name in history.there["node"]}
    for name, pod in history.there["pod"].items():
        if pod["node"] in found and not pod["deleting"]:
            found[pod["node"]].append(name)
    return found


def fresh_drains(history: History) -> list[str]:
    """Nodes with pods that were tainted a moment ago: nobody was evicted there yet."""
    on = running_pods(history)
    begun: dict[str, float] = {}
    for change in history.changes:
        if change.kind == "node":
            if change.now is None or not change.now["tainted"]:
                begun.pop(change.name, None)
            else:
                begun.setdefault(change.name, change.at)
    now = time.monotonic()
    return [name for name, at in begun.items() if now - at < _FRESH_SECONDS and on.get(name)]


def tight_burst(history: History, drains: list[str], *, about: int, per_node: int) -> tuple[int, int]:
    """How many pods, about so many, and CPU of each: the nodes that stay have no room for all of them, but have with the given
    drains. Of all sizes the one with which most of them need the drains."""
    slot = CPU // per_node
    on, nodes = running_pods(history), history.there["node"]
    staying = [CPU - slot * len(on[name]) for name, node in nodes.items() if not node["tainted"] and node["ready"]]
    leaving = [CPU - slot * len(on[name]) for name in drains]
    found: list[tuple[int, int, int]] = []
    for cpu in range(100, CPU, 50):
        stay, leave = (sum(room // cpu for room in rooms) for rooms in (staying, leaving))
        pods = stay + leave - leave // 4
        if leave and abs(pods - about) <= about // 4:
            found.append((leave, pods, cpu))
    assert found, f"of no size do about {about} pods need the room of {drains}"
    _, pods, cpu = max(found)
    return pods, cpu
