"""Forty machines, say, each with an agent whose load rises and falls: real HTTP, judged as Neon's agents judge.

An agent lives as long as its machine runs on one Pod: it begins without a permit wherever the machine arrives. Times are
shorter than those of real agents, so that a minute shows what takes ten.
"""

import math
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import aiohttp
import anyio
import httpx

from slackwater_protocol.agent import PodName, Resources
from slackwater_protocol.agent_client import AgentClient
from slackwater_protocol.agent_versions import ProtocolVersion, counts_slots
from slackwater_protocol.units import milli_cpu
from tests.cluster.neonvm.controller import MERGE
from tests.cluster.neonvm.crds import GROUP_PATH
from tests.cluster.neonvm.moves import RESOURCES, Wish
from tests.support.vmagent import VmAgent

Json = dict[str, Any]

GIB: Final = 2**30
UNIT_CPU: Final = 250
#: An agent asks so often, and after a failure; seconds. Neon's: 15, 3.
_TICK_SECONDS, _RETRY_SECONDS = 0.7, 0.4
_LOOK_EVERY_SECONDS: Final = 0.15


@dataclass
class Size:
    """Compute units of one machine, as its VirtualMachine says."""

    low: int = 1
    high: int = 16
    use: int = 2


@dataclass
class Running:
    """One agent. `node` is its Pod's."""

    machine: str
    pod: str
    node: str
    agent: VmAgent

    def in_use(self) -> tuple[int, int]:
        """milliCPU and bytes."""
        return self._amounts(self.agent.in_use)

    def asked(self) -> dict[str, int]:
        """milliCPU and bytes of the last request."""
        return dict(zip(RESOURCES, self._amounts(self.agent.asked or self.agent.in_use), strict=True))

    def _amounts(self, size: Resources) -> tuple[int, int]:
        return size.milli_cpu, size.memory * (GIB if counts_slots(self.agent.version) else 1)


@dataclass
class NodeGroupRegistry:
    """`load` says how many compute units a machine wants, by its number and the time since the start."""

    api: aiohttp.ClientSession
    http: httpx.AsyncClient
    namespace: str
    url: str  #: of the service's agents listener
    rng: Random
    agents: dict[str, Running] = field(default_factory=dict)  #: by Pod
    ended: list[Running] = field(default_factory=list)
    wishes: list[Wish] = field(default_factory=list)  #: all requests, also those that nobody answered
    calm: bool = False  #: everybody wants the least
    started_at: float = 0.0
    denied: Callable[[Running], Awaitable[None]] | None = None  #: learns of each agent that was denied something
    _phases: dict[str, tuple[float, float, float]] = field(default_factory=dict)

    async def make(self, names: list[str], *, movable: bool = True) -> None:
        labels = {"autoscaling.neon.tech/enabled": "true"}
        if movable:
            labels["autoscaling.neon.tech/auto-migration-enabled"] = "true"
        for name in names:
            self._phases[name] = (self.rng.uniform(0, math.tau), self.rng.uniform(7, 12), self.rng.uniform(2, 7))
            await self._send("POST", self._path, a_machine(name, Size(), labels))

    @property
    def _path(self) -> str:
        return f"{GROUP_PATH}/namespaces/{self.namespace}/virtualmachines"

    def wanted(self, name: str) -> float:
        """Compute units, as a load."""
        if self.calm:
            return 0.9
        phase, period, height = self._phases[name]
        now = anyio.current_time() - self.started_at
        return max(0.9, 3 + height * math.sin(phase + math.tau * now / period))

    async def run(self) -> None:
        """Until cancelled: begins and ends agents as machines come and go, as the controller says."""
        self.started_at = anyio.current_time()
        async with anyio.create_task_group() as group:
            scopes: dict[str, anyio.CancelScope] = {}
            while True:
                running = {pod: (name, node, use) for name, pod, node, use in await self._running()}
                for pod in scopes.keys() - running.keys():
                    scopes.pop(pod).cancel()
                    self.ended.append(self.agents.pop(pod))
                for pod in running.keys() - scopes.keys():
                    name, node, use = running[pod]
                    self.agents[pod] = Running(name, pod, node, self._an_agent(name, pod, use))
                    scopes[pod] = anyio.CancelScope()
                    group.start_soon(self._live, self.agents[pod], scopes[pod])
                await anyio.sleep(_LOOK_EVERY_SECONDS)

    async def _running(self) -> list[tuple[str, str, str, tuple[int, int]]]:
        """(machine, Pod, node, milliCPU and slots in use) of the machines whose agents have something to do."""
        async with self.api.get(self._path) as answer:
            assert answer.status == 200, await answer.text()
            machines = (await answer.json())["items"]
        alive = {"Running", "PreMigrating", "Scaling"}
        return [
            (m["metadata"]["name"], status["podName"], status["node"], _use(m["spec"]["guest"]))
            for m in machines
            if (status := m.get("status") or {}).get("phase") in alive
        ]

    def _an_agent(self, name: str, pod: str, use: tuple[int, int]) -> VmAgent:
        version = list(ProtocolVersion)[sorted(self._phases).index(name) % 3]
        slot = 1 if counts_slots(version) else GIB
        unit = Resources(milli_cpu=UNIT_CPU, memory=slot)
        client = AgentClient(
            self.http, self.url, pod=PodName(namespace=self.namespace, name=pod), compute_unit=unit, version=version
        )

        async def resize(size: Resources) -> None:
            await self._resize(name, size.milli_cpu, size.memory // slot)

        in_use = Resources(milli_cpu=use[0], memory=use[1] * slot)
        bounds = (Size().low, Size().high)
        return VmAgent(client=client, unit=unit, in_use=in_use, bounds=bounds, version=version, resize=resize)

    async def _live(self, running: Running, scope: anyio.CancelScope) -> None:
        with scope:
            while True:
                agent = running.agent
                failed, denied = len(agent.failed), agent.denied
                await self.step(running)
                if agent.denied > denied and self.denied is not None:
                    await self.denied(running)
                pause = _RETRY_SECONDS if len(agent.failed) > failed else _TICK_SECONDS
                await anyio.sleep(pause * self.rng.uniform(0.8, 1.2))

    async def step(self, running: Running) -> None:
        """One request of this agent now."""
        begun_at = anyio.current_time()
        try:
            await running.agent.step(self.wanted(running.machine) * 0.9 * UNIT_CPU / 1000)
        finally:
            self.wishes.append(Wish(pod=running.pod, asked=running.asked(), begun_at=begun_at, ended_at=anyio.current_time()))

    async def _resize(self, name: str, milli_cpu: int, slots: int) -> None:
        guest = {"cpus": {"use": f"{milli_cpu}m"}, "memorySlots": {"use": slots}}
        # An agent that is stopped meanwhile has told the machine all the same.
        with anyio.CancelScope(shield=True):
            await self._send("PATCH", f"{self._path}/{name}", {"spec": {"guest": guest}}, headers=MERGE)

    async def _send(self, method: str, path: str, body: Json, **more: Any) -> None:
        async with self.api.request(method, path, json=body, **more) as answer:
            assert answer.status in {200, 201}, f"{method} {path}: {answer.status} {await answer.text()}"

    # --- what came of it --------------------------------------------------------------------------------------------------

    def everyone(self) -> Iterator[Running]:
        yield from self.agents.values()
        yield from self.ended

    def in_use_by_node(self) -> dict[str, tuple[int, int]]:
        """What the machines really use, by node: milliCPU and bytes."""
        sums: dict[str, tuple[int, int]] = {}
        for running in self.agents.values():
            cpu, memory = running.in_use()
            before = sums.get(running.node, (0, 0))
            sums[running.node] = (before[0] + cpu, before[1] + memory)
        return sums


def _use(guest: Json) -> tuple[int, int]:
    return milli_cpu(guest["cpus"]["use"]), guest["memorySlots"]["use"]


def a_machine(name: str, size: Size, labels: Json, *, scheduler: str = "slackwater") -> Json:
    guest = {
        "cpus": {bound: f"{units * UNIT_CPU}m" for bound, units in (("min", size.low), ("max", size.high), ("use", size.use))},
        "memorySlots": {"min": size.low, "max": size.high, "use": size.use},
        "memorySlotSize": "1Gi",
    }
    return {
        "apiVersion": "vm.neon.tech/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": name, "labels": labels},
        "spec": {"guest": guest, "schedulerName": scheduler},
    }
