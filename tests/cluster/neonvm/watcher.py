"""What /dumpstate shows again and again while machines grow and move, and whether it was right.

Deliberately absent: the reasons of migrations, which `moves` judges when all is over.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import anyio

from tests.cluster.neonvm.machines import GIB, UNIT_CPU, NodeGroupRegistry, Running
from tests.cluster.neonvm.moves import RESOURCES, Look, began, short, without_need
from tests.cluster.support.slackwater_process import SlackwaterProcess

Json = dict[str, Any]

_UNIT: Final = {"cpu": UNIT_CPU, "memory": GIB}
_LOOK_EVERY_SECONDS: Final = 0.1
#: Growth that was denied although there is room may have been decided just before: then the next request gets it.
_REQUESTS: Final = 5


@dataclass
class Watcher:
    """`faults`: what should not have been, each a sentence."""

    service: SlackwaterProcess
    group_registry: NodeGroupRegistry
    nodes: frozenset[str]
    faults: list[str] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    full_seen: int = 0  #: times that an agent was denied something on a full node

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            if (look := await self._look()) is not None:
                self.looks.append(look)
                self.faults += self._over_total(look)
            self.faults += self._in_use_over_total()
            await anyio.sleep(_LOOK_EVERY_SECONDS)

    async def _look(self) -> Look | None:
        """None while the service is not there, or has not seen everything yet."""
        process, begun_at = self.service.pid, anyio.current_time()
        try:
            dump = await self.service.dumpstate()
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            return None
        return short(dump, self.nodes, process, begun_at, anyio.current_time()) if dump["synced"] else None

    # --- no node over Total -----------------------------------------------------------------------------------------------

    def _over_total(self, look: Look) -> Iterator[str]:
        for name, node in look.nodes.items():
            for resource in RESOURCES:
                numbers = node[resource]
                if numbers["reserved"] - numbers["buffer"] > numbers["total"]:
                    yield f"{name} is over its Total: {resource} {numbers}; {self._reported_of(name, resource, look)}"

    def _reported_of(self, node: str, resource: str, look: Look) -> str:
        """How long this process has been seen, and of each pod there what it counts for and what is on record."""
        first = next(known for known in self.looks if known.process == look.process)
        pods = [
            (pod["name"], pod[resource]["reserved"], look.written.get(uid, {}).get("permit"))
            for uid, pod in look.pods.items()
            if pod["node"] == node
        ]
        return f"{look.ended_at - first.ended_at:.1f} s after the first look at this process; {pods}"

    def _in_use_over_total(self) -> Iterator[str]:
        if not self.looks:
            return
        for name, (cpu, memory) in self.group_registry.in_use_by_node().items():
            total = {resource: self.looks[-1].nodes[name][resource]["total"] for resource in RESOURCES}
            if cpu > total["cpu"] or memory > total["memory"]:
                yield f"machines on {name} use {cpu}m and {memory} bytes of {total}"

    # --- growth is denied only where there is no room ---------------------------------------------------------------------

    async def denied(self, running: Running) -> None:
        """An agent did not get all. The node is full, or it gets more when it asks again."""
        seen: list[object] = []
        for _ in range(_REQUESTS):
            look = await self._look()
            if look is None:
                return
            room = self._room_for(running, look)
            if room is None:
                self.full_seen += _is_pressed(running, look)
                return
            await self.group_registry.step(running)
            agent = running.agent
            seen.append((room, f"asked {agent.asked}", f"permit {agent.client.permit}", agent.failed[-1:]))
            if agent.asked == agent.client.permit:
                return
        self.faults.append(f"{running.pod} was denied growth {_REQUESTS} times, though there is room: {seen}")

    def _room_for(self, running: Running, look: Look) -> object:
        """What there is for a pod that waits for it; None where there is nothing, or nobody waits."""
        pod = next((pod for pod in look.pods.values() if pod["name"] == running.pod), None)
        if pod is None or any(pod[resource]["accountedFor"] for resource in RESOURCES):
            return None  # gone, or leaving: then it grows no more here
        if any(move["pod"] == pod["uid"] for move in look.migrations.values()):
            return None
        for resource in RESOURCES:
            numbers = look.nodes[pod["node"]][resource]
            free = numbers["total"] - numbers["reserved"] - numbers["held"]
            if pod[resource]["capacityPressure"] and free >= _UNIT[resource]:
                return {"pod": pod[resource], "node": numbers, "resource": resource}
        return None

    # --- migrations -------------------------------------------------------------------------------------------------------

    def judge_migrations(self) -> int:
        """How many began under our eyes; adds what was wrong with them."""
        self.faults += without_need(self.looks, self.group_registry.wishes)
        return sum(len(moves) for _, _, moves in began(self.looks))


def _is_pressed(running: Running, look: Look) -> bool:
    """Is the pod denied something, and stays?"""
    pod = next((pod for pod in look.pods.values() if pod["name"] == running.pod), None)
    return pod is not None and any(pod[r]["capacityPressure"] and not pod[r]["accountedFor"] for r in RESOURCES)
