"""Simulates Neon's autoscaler agents as a scheduler sees them: one for each virtual machine on its node.

To grow, an agent asks first, and then grows to its permit. To shrink, it shrinks first, and then reports that. Answers that
violate the protocol are collected in `broken`. Machines have whole compute units (CPU and memory together). The load is not
measured, but given by `AgentBehavior.wants`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, Final

import anyio
import msgspec

from slackwater.sandbox.embedded.faults import Json
from slackwater.sandbox.embedded.kinds import MACHINES
from slackwater.sandbox.embedded.server import ApiServer
from slackwater_protocol.units import byte_count, milli_cpu

#: Sends a request with this body. Returns status and body of the answer; raises `extender_client.ConnectionLost` if none came.
AskPermit = Callable[[bytes], Awaitable[tuple[int, bytes]]]

UNIT_CPU: Final = 250
UNIT_MEMORY: Final = 2**30
_OK: Final = 200
_ALIVE: Final = frozenset({"Running", "PreMigrating", "Scaling"})
#: The numbers of protocol versions v5.0, v4.0 and v3.0. The last one counts memory in slots.
_VERSIONS: Final = (7, 6, 5)
_SLOTS: Final = 5


@dataclass(slots=True)
class Agent:
    """The agent of one machine in one Pod. Amounts are compute units; a permit has a number for CPU and one for memory."""

    namespace: str
    machine: str
    pod: str
    version: int
    in_use: int
    low: int
    high: int
    permit: tuple[int, int] | None = None
    #: The largest amounts that the agent may use: its permit, lowered by each later request for less, even an unanswered one.
    may_use: tuple[int, int] = (0, 0)
    asked: int | None = None
    denied: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentBehavior:
    """How agents behave. `wants(machine, seconds)` returns how many compute units the machine wants at that time of the event
    loop's clock; the result is limited to the machine's bounds."""

    wants: Callable[[str, float], int]
    tick_seconds: float = 2.0
    retry_seconds: float = 1.0
    answer_seconds: float = 5.0
    grow_seconds: float = 0.0  #: the longest time until a machine has grown to its permit


@dataclass(slots=True)
class Agents:
    """Runs one agent for each running machine, until cancelled."""

    api: ApiServer
    ask: AskPermit
    rng: Random
    behavior: AgentBehavior
    living: dict[str, Agent] = field(default_factory=dict)  #: agents by Pod
    broken: list[tuple[str, str]] = field(default_factory=list)  #: a pod, and what was wrong with an answer to its agent
    _numbers: Any = field(default_factory=count)

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            scopes: dict[str, anyio.CancelScope] = {}
            while True:
                running = {body["status"]["podName"]: body for body in self._running()}
                for pod in sorted(scopes.keys() - running.keys()):
                    scopes.pop(pod).cancel()
                    del self.living[pod]
                for pod in sorted(running.keys() - scopes.keys()):
                    meta, slots = running[pod]["metadata"], running[pod]["spec"]["guest"]["memorySlots"]
                    version = _VERSIONS[next(self._numbers) % len(_VERSIONS)]
                    agent = Agent(meta["namespace"], meta["name"], pod, version, slots["use"], slots["min"], slots["max"])
                    self.living[pod] = agent
                    scopes[pod] = anyio.CancelScope()
                    group.start_soon(self._live, agent, scopes[pod])
                woken = self.api.store.next_change(MACHINES)
                await woken.wait()

    def _running(self) -> list[Json]:
        bodies = [stored.body for stored in self.api.store.all(MACHINES)]
        return [body for body in bodies if (body.get("status") or {}).get("phase") in _ALIVE and body["status"].get("podName")]

    async def _live(self, agent: Agent, scope: anyio.CancelScope) -> None:
        with scope:
            while True:
                failed = agent.failed
                await self.step(agent)
                pause = self.behavior.retry_seconds if agent.failed > failed else self.behavior.tick_seconds
                await anyio.sleep(pause * self.rng.uniform(0.8, 1.2))

    async def step(self, agent: Agent) -> None:
        """Sends one request to the scheduler, and resizes the machine as the answer permits."""
        wanted = min(max(self.behavior.wants(agent.machine, anyio.current_time()), agent.low), agent.high)
        if agent.permit is None:
            wanted = agent.in_use  # the first request asks for what the machine has
        if wanted < agent.in_use:
            self._set_in_use(agent, wanted)  # an agent shrinks before it reports that
        agent.asked = max(wanted, agent.in_use)
        agent.may_use = min(agent.may_use[0], agent.asked), min(agent.may_use[1], agent.asked)
        try:
            with anyio.fail_after(self.behavior.answer_seconds):
                status, body = await self.ask(self._request(agent, agent.asked))
        except (TimeoutError, ConnectionError):
            agent.failed += 1
            return
        if status != _OK:
            agent.failed += 1
            return
        if self._permitted(agent, agent.asked, msgspec.json.decode(body)["permit"]) > agent.in_use:
            await anyio.sleep(self.behavior.grow_seconds * self.rng.random())
            self._set_in_use(agent, min(agent.permit or (agent.in_use,)))

    def _request(self, agent: Agent, units: int) -> bytes:
        body = {
            "protoVersion": agent.version,
            "pod": {"namespace": agent.namespace, "name": agent.pod},
            "computeUnit": _amounts(agent, (1, 1)),
            "resources": _amounts(agent, (units, units)),
            "metrics": {"loadAvg1M": units / 4, "loadAvg5M": units / 4, "memoryUsageBytes": 1e9},
        }
        if agent.version == _VERSIONS[0]:
            body["metrics"] = {"loadAvg1M": units / 4}
        if agent.permit is not None:
            body["lastPermit"] = _amounts(agent, agent.permit)
        return msgspec.json.encode(body)

    def _permitted(self, agent: Agent, asked: int, permit: Json) -> int:
        """Checks the permit and stores it in the agent. Returns how many compute units the machine may have now."""
        cpu, memory = milli_cpu(permit["vCPUs"]), byte_count(permit["mem"]) * (UNIT_MEMORY if agent.version == _SLOTS else 1)
        units = (cpu // UNIT_CPU, memory // UNIT_MEMORY)
        within = agent.in_use <= min(units) and max(units) <= asked
        if (cpu, memory) != (units[0] * UNIT_CPU, units[1] * UNIT_MEMORY) or not within:
            what = f"pod {agent.pod}: permit {permit}, want whole units from {agent.in_use} to {asked}"
            self.broken.append((agent.pod, what))
            return agent.in_use
        agent.permit = agent.may_use = units
        agent.denied += min(units) < asked
        return min(units)

    def _set_in_use(self, agent: Agent, units: int) -> None:
        agent.in_use = units
        guest = {"cpus": {"use": f"{units * UNIT_CPU}m"}, "memorySlots": {"use": units}}
        path = f"{MACHINES.prefix}/namespaces/{agent.namespace}/{MACHINES.plural}/{agent.machine}"
        self.api.merge(path, {"spec": {"guest": guest}})


def _amounts(agent: Agent, units: tuple[int, int]) -> Json:
    return {"vCPUs": f"{units[0] * UNIT_CPU}m", "mem": units[1] if agent.version == _SLOTS else units[1] * UNIT_MEMORY}


def a_machine(name: str, *, low: int, high: int, use: int, scheduler: str = "slackwater", movable: bool = True) -> Json:
    """The object of a VirtualMachine with an agent: `use` compute units, bounds `low` and `high`. `movable`: it may migrate."""
    guest = {
        "cpus": {bound: f"{units * UNIT_CPU}m" for bound, units in (("min", low), ("max", high), ("use", use))},
        "memorySlots": {"min": low, "max": high, "use": use},
        "memorySlotSize": "1Gi",
    }
    labels = {"autoscaling.neon.tech/enabled": "true"}
    if movable:
        labels["autoscaling.neon.tech/auto-migration-enabled"] = "true"
    return {"metadata": {"name": name, "labels": labels}, "spec": {"guest": guest, "schedulerName": scheduler}}
