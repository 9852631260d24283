"""What /dumpstate shows again and again while machines grow and move, and whether it was right.

The formulas are the reference's, in words of our own: sections 2.4 and 2.6.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import anyio

from tests.cluster.neonvm.fleet import GIB, UNIT_CPU, Fleet, Running
from tests.cluster.support.slackwater_process import SlackwaterProcess

Json = dict[str, Any]

RESOURCES: Final = ("cpu", "memory")
_UNIT: Final = {"cpu": UNIT_CPU, "memory": GIB}
_LOOK_EVERY_SECONDS: Final = 0.1
#: Growth that was denied although there is room may have been decided just before: then the next request gets it.
_REQUESTS: Final = 5
#: What a decision saw is in one of so many looks, the last of which shows the decision.
_LOOKS: Final = 3


@dataclass
class Watcher:
    """`faults`: what should not have been, each a sentence."""

    service: SlackwaterProcess
    fleet: Fleet
    nodes: frozenset[str]
    faults: list[str] = field(default_factory=list)
    looks: list[Json] = field(default_factory=list)
    full_seen: int = 0  #: times that an agent was denied something on a full node

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            if (dump := await self._dump()) is not None:
                self.looks.append(self._short(dump))
                self.faults += self._over_total(self.looks[-1])
            self.faults += self._in_use_over_total()
            await anyio.sleep(_LOOK_EVERY_SECONDS)

    async def _dump(self) -> Json | None:
        """None while the service is not there, or has not seen everything yet."""
        try:
            dump = await self.service.dumpstate()
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            return None
        return dump if dump["synced"] else None

    def _short(self, dump: Json) -> Json:
        """What is looked at later, of the nodes of this test."""
        return {
            "nodes": {node["name"]: node for node in dump["nodes"] if node["name"] in self.nodes},
            "pods": {pod["uid"]: pod for pod in dump["pods"] if pod["node"] in self.nodes},
            "migrations": {move["name"]: move for move in dump["migrations"]},
        }

    # --- no node over Total -----------------------------------------------------------------------------------------------

    def _over_total(self, look: Json) -> Iterator[str]:
        for name, node in look["nodes"].items():
            for resource in RESOURCES:
                numbers = node[resource]
                if numbers["reserved"] - numbers["buffer"] > numbers["total"]:
                    yield f"{name} is over its Total: {resource} {numbers}"

    def _in_use_over_total(self) -> Iterator[str]:
        if not self.looks:
            return
        for name, (cpu, memory) in self.fleet.in_use_by_node().items():
            total = {resource: self.looks[-1]["nodes"][name][resource]["total"] for resource in RESOURCES}
            if cpu > total["cpu"] or memory > total["memory"]:
                yield f"machines on {name} use {cpu}m and {memory} bytes of {total}"

    # --- growth is denied only where there is no room ---------------------------------------------------------------------

    async def denied(self, running: Running) -> None:
        """An agent did not get all. The node is full, or it gets more when it asks again."""
        seen: object = None
        for _ in range(_REQUESTS):
            dump = await self._dump()
            if dump is None:
                return
            if (seen := self._room_for(running, self._short(dump))) is None:
                self.full_seen += 1
                return
            await self.fleet.step(running)
            if running.agent.asked == running.agent.client.permit:
                return
        agent = running.agent
        said = f"asked {agent.asked}, permit {agent.client.permit}, failed {agent.failed[-_REQUESTS:]}"
        self.faults.append(f"{running.pod} was denied growth {_REQUESTS} times, though there is room: {seen}; {said}")

    def _room_for(self, running: Running, look: Json) -> object:
        """What there is for a pod that waits for it; None where there is nothing, or nobody waits."""
        pod = next((pod for pod in look["pods"].values() if pod["name"] == running.pod), None)
        if pod is None or any(pod[resource]["accountedFor"] for resource in RESOURCES):
            return None  # gone, or leaving: then it grows no more here
        if any(move["pod"] == pod["uid"] for move in look["migrations"].values()):
            return None
        for resource in RESOURCES:
            numbers = look["nodes"][pod["node"]][resource]
            free = numbers["total"] - numbers["reserved"] - numbers["held"]
            if pod[resource]["capacityPressure"] and free >= _UNIT[resource]:
                return pod, numbers
        return None

    # --- migrations -------------------------------------------------------------------------------------------------------

    def judge_migrations(self) -> int:
        """How many began. Each for pressure that the others would not relieve, and none while the same machine still moved."""
        known = set(self.looks[0]["migrations"])  # these began before anybody looked
        for number, look in enumerate(self.looks):
            moves = look["migrations"]
            machines = [move["machine"] for move in moves.values()]
            self.faults += [f"{machine} migrates twice at once" for machine in set(machines) if machines.count(machine) > 1]
            new = [move for name, move in moves.items() if name not in known and move["pod"] in look["pods"]]
            for move in new:
                others = [other for other in new if other is not move and other["source"] == move["source"]]
                if not self._had_reason(number, move, others):
                    shown = [self.looks[at]["nodes"].get(move["source"]) for at in range(max(number - 2, 0), number + 1)]
                    self.faults.append(f"{move['machine']} left {move['source']} without need: {shown}")
            known |= moves.keys()
        return len(known)

    def _had_reason(self, number: int, move: Json, others: list[Json]) -> bool:
        look = self.looks[number]
        own = {resource: look["pods"][move["pod"]][resource]["accountedFor"] for resource in RESOURCES}
        if too_much(look["nodes"][move["source"]], {resource: -own[resource] for resource in RESOURCES}):
            return True
        more = {r: sum(look["pods"][other["pod"]][r]["accountedFor"] for other in others) for r in RESOURCES}
        before = self.looks[max(number - _LOOKS + 1, 0) : number]
        return any(too_much(earlier["nodes"][move["source"]], more) for earlier in before)


def too_much(node: Mapping[str, Mapping[str, int]], accounted: Mapping[str, int]) -> bool:
    """Is there more pressure than PressureAccountedFor, with `accounted` added, and slack cover?"""
    if all(node[resource]["reserved"] <= node[resource]["watermark"] for resource in RESOURCES):
        return False
    return any(_too_much(node[resource], accounted[resource]) for resource in RESOURCES)


def _too_much(numbers: Mapping[str, int], accounted: int) -> bool:
    logical = max(numbers["reserved"] - numbers["watermark"], 0)
    slack = numbers["buffer"] + max(numbers["watermark"] - numbers["reserved"], 0)
    return logical + numbers["capacityPressure"] > numbers["pressureAccountedFor"] + accounted + slack
