"""What is really promised on each node, as only an onlooker knows it: by the API server's objects and by what agents were told.

Kept up to date by each change. Deliberately absent: anything of the service.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from slackwater.sandbox.embedded.agents import UNIT_CPU, UNIT_MEMORY, Agents
from slackwater.sandbox.embedded.kinds import MACHINES, MIGRATIONS, NODES, PODS, ResourceKind
from slackwater.sandbox.embedded.queue import node_observation, pod_observation
from slackwater.sandbox.embedded.server import ApiServer
from slackwater.sandbox.embedded.store import Change

_NAME_LABEL = "vm.neon.tech/name"
#: The service has heard by then of what others did.
_NEWS_SECONDS = 20.0
Amounts = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod on a node. `machine` is empty for one that does not grow."""

    uid: str
    name: str
    namespace: str
    node: str
    machine: str
    asks: Amounts
    target_node: bool  #: the target of a migration, which no agent uses yet


class Truth:
    """`excused` are nodes that were made too full by others than the service, until they are not too full any more: by people
    who bind by hand, and by agents whose last permit is more than they were counted with."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self.placed: dict[str, Placed] = {}
        self.totals: dict[str, Amounts] = {}
        self.excused: dict[str, float] = {}  #: until when, at least
        self.meddled: set[str] = set()  #: all that ever were
        self.agents: Agents | None = None
        server.store.on_change.append(self._heard)

    def _heard(self, kind: ResourceKind, change: Change) -> None:
        if kind is NODES:
            name = change.key[1]
            if change.type == "DELETED":
                self.totals.pop(name, None)
            else:
                node = node_observation(change.now)
                self.totals[name] = (node.cpu, node.memory)
        elif kind is PODS:
            pod = pod_observation(change.now)
            ended = change.now.body["status"].get("phase") in {"Succeeded", "Failed"}
            if change.type == "DELETED" or ended or not pod.node:
                self.placed.pop(pod.uid, None)
            else:
                owners = change.now.body["metadata"].get("ownerReferences") or ()
                target_node = any(o["kind"] == "VirtualMachineMigration" and o["controller"] for o in owners)
                machine = pod.labels.get(_NAME_LABEL, "")
                self.placed[pod.uid] = Placed(
                    pod.uid, pod.key[1], pod.key[0], pod.node, machine, (pod.cpu, pod.memory), target_node
                )

    def meddle(self, node: str) -> None:
        self.excused[node] = anyio.current_time() + _NEWS_SECONDS
        self.meddled.add(node)

    def meddle_with(self, pod: str) -> None:
        """Where this pod is, and where its machine is about to be."""
        machines = {placed.machine for placed in self.placed.values() if placed.name == pod}
        for placed in self.placed.values():
            if placed.name == pod or (placed.machine and placed.machine in machines):
                self.meddle(placed.node)

    def reclaims(self, pod: str) -> None:
        """An agent asks. Had it given back some of its last permit, and was that never answered, it may have that again,
        whoever has got it meanwhile: a permit is never below what is asked and was permitted last."""
        agent = None if self.agents is None else self.agents.living.get(pod)
        if agent is None or agent.permit is None or agent.asked is None:
            return
        if any(min(permit, agent.asked) > left for permit, left in zip(agent.permit, agent.may_use, strict=True)):
            self.meddle_with(pod)

    def used(self) -> Mapping[str, Amounts]:
        """By node: what pods were given and may use at any moment."""
        sums: dict[str, Amounts] = {}
        for placed in self.placed.values():
            cpu, memory = self.of(placed)
            before = sums.get(placed.node, (0, 0))
            sums[placed.node] = (before[0] + cpu, before[1] + memory)
        return sums

    def of(self, placed: Placed) -> Amounts:
        """What one pod may use."""
        if not placed.machine:
            return placed.asks
        use = self._in_use(placed)
        if use is None:
            return 0, 0
        agent = None if self.agents is None else self.agents.living.get(placed.name)
        reported = (0, 0) if agent is None else agent.may_use
        return max(use, reported[0]) * UNIT_CPU, max(use, reported[1]) * UNIT_MEMORY

    def _in_use(self, placed: Placed) -> int | None:
        """Compute units; None where the machine is not, and will not be: it has moved on, or is gone."""
        stored = self._server.store.find(MACHINES, (placed.namespace, placed.machine))
        if stored is None:
            return None
        there = (stored.body.get("status") or {}).get("podName") == placed.name
        awaited = placed.target_node and self._is_awaited(placed)
        return int(stored.body["spec"]["guest"]["memorySlots"]["use"]) if there or awaited else None

    def _is_awaited(self, placed: Placed) -> bool:
        """Nobody ever uses the target of a migration that failed."""
        return any(True for _ in self._moves(placed.namespace, placed.machine))

    def waits_to_move(self, namespace: str, machine: str) -> bool:
        """Is it migrating, with a target that has no node yet? Until that ends its agent may change nothing."""
        targets = (status.get("targetPodName") for status in self._moves(namespace, machine))
        found = (self._server.store.find(PODS, (namespace, target)) for target in targets if target)
        return any(stored is not None and not stored.body["spec"].get("nodeName") for stored in found)

    def _moves(self, namespace: str, machine: str) -> Iterator[dict[str, Any]]:
        """The status of each migration of it that goes on."""
        for stored in self._server.store.each(MIGRATIONS):
            body, status = stored.body, stored.body.get("status") or {}
            ours = (body["metadata"]["namespace"], body["spec"]["vmName"]) == (namespace, machine)
            if ours and status.get("phase") not in {"Failed", "Succeeded"}:
                yield status

    def too_full(self) -> list[str]:
        """One sentence for each node that has been promised more than it has. Excuses end with what they excuse."""
        found = []
        used = self.used()
        for node, (cpu, memory) in used.items():
            total = self.totals.get(node)
            if total is None:
                continue
            if cpu <= total[0] and memory <= total[1]:
                if self.excused.get(node, 0.0) < anyio.current_time():
                    self.excused.pop(node, None)
            elif node not in self.excused:
                there = sorted(f"{p.name} {self.of(p)}" for p in self.placed.values() if p.node == node)
                found.append(f"node {node}: {cpu}m, {memory} bytes promised of {total}: {', '.join(there)}")
        return found
