"""A cluster on virtual time, in a process of its own.

The embedded API server and kubelets, and a workload whose pods come and go with nodes that somebody else buys and removes.
Nothing happens while nobody asks: a message by standard input is a request, or says until when time passes. The answer goes out
by standard output, with all lines of watches that are due.
"""

import pickle
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from math import cos, pi
from random import Random
from typing import Any, BinaryIO, Final

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import TaskGroup

from slackwater.adapters.api_calls import Call, Response
from slackwater.sandbox.embedded.faults import Fault
from slackwater.sandbox.embedded.kubelets import Kubelets
from slackwater.sandbox.embedded.server import ApiServer
from slackwater.sandbox.embedded.timers import Timers
from slackwater.sandbox.embedded_demo import answered_by
from tests.faults.virtualloop import run_virtually
from tests.support.manifests import Obj, node_labels, node_manifest, pod_manifest

#: Unix time when the cluster's time is 0.
EPOCH: Final = 1_800_000_000.0
GROUP_NAME: Final = "pool"
PODS_ON_NODE: Final = 30
NODE_CPU, NODE_MEMORY = "8", "16Gi"
HEAD: Final = struct.Struct("<Q")
_NAMESPACE: Final = "shop"
_PODS_PATH: Final = f"/api/v1/namespaces/{_NAMESPACE}/pods"
_NODES_PATH: Final = "/api/v1/nodes"
_DEPLOYMENTS: Final = 40
_DISRUPTED: Final = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
#: How often the workload is looked at, and how long its demand takes to rise and fall. So many pods a day are replaced beside
#: that, or as many as there may be if these are fewer.
_STEP_SECONDS: Final = 15.0
_WAVE_SECONDS: Final = 6 * 3600.0
_REPLACED_EACH_DAY: Final = 30_000
#: How long a new node takes, how long one is empty before it is removed, and how long that takes.
_BOOT_SECONDS, _EMPTY_SECONDS, _REMOVAL_SECONDS = 60.0, 300.0, 15.0


@dataclass(frozen=True, slots=True)
class Until:
    """Time passes until `at`, in seconds."""

    at: float


@dataclass(frozen=True, slots=True)
class Watch:
    """Begins a watch; an answer other than OK in `Reply.refused` ends it."""

    number: int
    path: str
    params: dict[str, str]


@dataclass(frozen=True, slots=True)
class Unwatch:
    number: int


Message = Call | Until | Watch | Unwatch


@dataclass(frozen=True, slots=True)
class Reply:
    """`answer`: to a call. `lines`: of watches by their numbers, in order; a Response in their place: the watch was refused;
    None: it has ended."""

    answer: Response | None
    lines: list[tuple[int, list[bytes] | Response | None]]


def framed(value: object) -> bytes:
    body = pickle.dumps(value)
    return HEAD.pack(len(body)) + body


@dataclass(slots=True)
class _Node:
    name: str
    ready: bool = False
    pods: set[str] = field(default_factory=set)
    empty_since: float = 0.0
    leaving: bool = False


class Workload:
    """Pods whose number rises and falls between six tenths of what `most_nodes` hold and all of it, and nodes for them: the
    first one with room gets a pod, and the last ones empty first."""

    def __init__(self, api: ApiServer, timers: Timers, rng: Random, most_nodes: int) -> None:
        self._api, self._timers, self._rng = api, timers, rng
        self._most_pods = most_nodes * PODS_ON_NODE
        self._nodes: list[_Node] = []
        self._node_of: dict[str, _Node] = {}
        self._pending: deque[str] = deque()
        self._ordered = self._made = self._named = 0
        self._due_pods = 0.0
        for _ in range(-(-self._wanted(0.0) // PODS_ON_NODE)):
            self._add_node()

    def run(self) -> None:
        """One step; the next one follows by itself."""
        now = anyio.current_time()
        self._replace()
        self._follow(self._wanted(now))
        self._bind()
        self._order()
        self._remove(now)
        self._timers.after(_STEP_SECONDS, self.run)

    def _wanted(self, now: float) -> int:
        return round(self._most_pods * (0.8 - 0.2 * cos(2 * pi * now / _WAVE_SECONDS)))

    # --- pods ---------------------------------------------------------------------------------------------------------------

    def _replace(self) -> None:
        self._due_pods += min(_REPLACED_EACH_DAY, self._most_pods) * _STEP_SECONDS / 86_400
        if self._made:
            for name in self._rng.sample(tuple(self._node_of), int(self._due_pods)):
                self._delete(name)
        self._due_pods %= 1

    def _follow(self, wanted: int) -> None:
        while len(self._node_of) + len(self._pending) > wanted:
            if self._pending:
                self._send("DELETE", f"{_PODS_PATH}/{self._pending.pop()}")
            else:
                self._delete(next(iter(next(node for node in reversed(self._nodes) if node.pods).pods)))
        while len(self._node_of) + len(self._pending) < wanted:
            self._made += 1
            deployment = self._made % _DEPLOYMENTS
            name = f"app-{deployment}-{self._made}"
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"app-{deployment}", "uid": f"uid-{deployment}"}
            meta = {"labels": {"app": f"app-{deployment}"}, "ownerReferences": [{**owner, "controller": True}]}
            self._send("POST", _PODS_PATH, pod_manifest(name, cpu="250m", memory="512Mi", meta=meta))
            self._pending.append(name)

    def _delete(self, name: str) -> None:
        node = self._node_of.pop(name)
        node.pods.discard(name)
        node.empty_since = anyio.current_time()
        self._send("DELETE", f"{_PODS_PATH}/{name}")

    def _bind(self) -> None:
        for node in self._nodes:
            while self._pending and not node.leaving and len(node.pods) < PODS_ON_NODE:
                name = self._pending.popleft()
                target = {"apiVersion": "v1", "kind": "Node", "name": node.name}
                self._send("POST", f"{_PODS_PATH}/{name}/binding", {"metadata": {"name": name}, "target": target})
                node.pods.add(name)
                self._node_of[name] = node

    # --- nodes --------------------------------------------------------------------------------------------------------------

    def _order(self) -> None:
        for _ in range(-(-len(self._pending) // PODS_ON_NODE) - self._ordered):
            self._ordered += 1
            self._timers.after(_BOOT_SECONDS, self._arrive)

    def _arrive(self) -> None:
        self._ordered -= 1
        self._add_node()
        self._bind()

    def _add_node(self) -> None:
        self._named += 1
        name = f"node-{self._named}"
        labels, status = node_labels(name, GROUP_NAME), {"conditions": [{"type": "Ready", "status": "True"}]}
        self._send("POST", _NODES_PATH, node_manifest(name, cpu=NODE_CPU, memory=NODE_MEMORY, labels=labels, status=status))
        self._nodes.append(_Node(name, empty_since=anyio.current_time()))

    def _remove(self, now: float) -> None:
        for node in self._nodes:
            if not (node.pods or node.leaving) and now - node.empty_since > _EMPTY_SECONDS:
                node.leaving = True
                self._api.merge(f"{_NODES_PATH}/{node.name}", {"spec": {"taints": [_DISRUPTED]}})
                self._timers.after(_REMOVAL_SECONDS, partial(self._leave, node))

    def _leave(self, node: _Node) -> None:
        self._nodes.remove(node)
        self._send("DELETE", f"{_NODES_PATH}/{node.name}")

    def _send(self, method: str, path: str, body: Obj | None = None) -> None:
        answer = self._api.request(method, path, body=None if body is None else msgspec.json.encode(body))
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {answer.body.decode()}")


class _Watches:
    """The watches that are open. `take_lines`: what is due."""

    def __init__(self, api: ApiServer, group: TaskGroup) -> None:
        self._api, self._group = api, group
        self._open: dict[int, anyio.CancelScope] = {}
        self._lines: list[tuple[int, list[bytes] | Response | None]] = []

    def begin(self, asked: Watch) -> None:
        self._open[asked.number] = anyio.CancelScope()
        self._group.start_soon(self._follow, asked)

    def end(self, number: int) -> None:
        if number in self._open:
            self._open.pop(number).cancel()

    def take_lines(self) -> list[tuple[int, list[bytes] | Response | None]]:
        lines, self._lines = self._lines, []
        return lines

    async def _follow(self, asked: Watch) -> None:
        with self._open[asked.number]:
            try:
                async with aclosing(self._api.watch(asked.path, params=asked.params)) as arriving:
                    async for lines in arriving:
                        self._lines.append((asked.number, lines))
                self._lines.append((asked.number, None))
            except Fault as fault:
                self._lines.append((asked.number, fault.answer()))
            self._open.pop(asked.number, None)


async def live(nodes: int, messages: Iterator[Message], reply: Callable[[Reply], None]) -> None:
    """Answers the messages, until there are no more. `nodes`: at most."""
    rng, wall = Random(1), lambda: EPOCH + anyio.current_time()
    api, timers = ApiServer(rng=rng, wall=wall), Timers()
    Kubelets(api, timers, rng=rng, wall=wall)
    async with anyio.create_task_group() as group:
        group.start_soon(timers.run)
        watches = _Watches(api, group)
        Workload(api, timers, rng, nodes).run()
        for message in messages:  # it blocks: time stands still
            answer = None
            match message:
                case Until():
                    await anyio.sleep_until(message.at)
                case Watch():
                    watches.begin(message)
                case Unwatch():
                    watches.end(message.number)
                case _:
                    answer = answered_by(api, message)
            for _ in range(10):
                await anyio.lowlevel.checkpoint()
            reply(Reply(answer, watches.take_lines()))
        group.cancel_scope.cancel()


def _messages(source: BinaryIO) -> Iterator[Message]:
    while head := source.read(HEAD.size):
        message: Any = pickle.loads(source.read(HEAD.unpack(head)[0]))
        yield message


def main(most_nodes: int) -> None:
    """Runs the cluster until the input ends."""
    output = sys.stdout.buffer

    def reply(value: Reply) -> None:
        output.write(framed(value))
        output.flush()

    run_virtually(Random(1), partial(live, most_nodes, _messages(sys.stdin.buffer), reply))
