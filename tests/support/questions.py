"""Questions for tests of the planning process, which finds them by their module's name; and a cluster with that process."""

import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
from msgspec import structs

from slackwater.model.events import NodeSeen, PodGone, PodSeen, Synced
from slackwater.model.ids import Instant
from slackwater.model.objects import Node, Pod
from slackwater.ports.protocols import WhatIfRefused
from slackwater.runtime.planner.process import PlanningProcess
from slackwater.runtime.planner.replica_feed import ReplicaFeed
from slackwater.runtime.state_machine import StateMachine
from slackwater.snapshot.snapshot_replica import SnapshotReplica
from tests.support import installed
from tests.support.builders import a_node

#: As the service starts it, but it may import from the directory of the repository: these questions.
COMMAND: Final = (sys.executable, "-m", "slackwater.runtime.planner")
#: Starting a process takes a second, or ten where many do.
LONG: Final = 60.0
NOW: Final = Instant(1.0)


@dataclass(frozen=True, slots=True)
class Whole:
    """What the replica has: its nodes with the CPU that is used there, and pending pods; and which process answers."""

    def answer(self, replica: SnapshotReplica) -> bytes:
        used = {name: int(replica.snapshot.used[0, replica.row_of(name)]) for name in sorted(replica.nodes)}
        return repr((used, sorted(pod.key.name for pod in replica.pending.values()), os.getpid(), os.getppid())).encode()


@dataclass(frozen=True, slots=True)
class Large:
    """An answer of so many bytes."""

    size: int

    def answer(self, replica: SnapshotReplica) -> bytes:
        return bytes(self.size)


@dataclass(frozen=True, slots=True)
class Slow:
    """An answer that never comes. The process that looks for it writes its ID to the file."""

    file: str

    def answer(self, replica: SnapshotReplica) -> bytes:
        Path(self.file).write_text(str(os.getpid()), encoding="ascii")
        time.sleep(600)
        return b""


@dataclass(frozen=True, slots=True)
class Fatal:
    """Ends the process that answers, or with `parent` the planning process."""

    parent: bool

    def answer(self, replica: SnapshotReplica) -> bytes:
        os.kill(os.getppid() if self.parent else os.getpid(), signal.SIGKILL)
        time.sleep(600)
        return b""


@dataclass(frozen=True, slots=True)
class Refusing:
    """Refuses to answer; or with `broken` fails."""

    broken: bool

    def answer(self, replica: SnapshotReplica) -> bytes:
        if self.broken:
            raise ZeroDivisionError("no bug is like this one")
        raise WhatIfRefused("want another question")


def clock() -> Instant:
    return Instant(anyio.current_time())


def machine(name: str) -> Node:
    return structs.replace(a_node(name, cpu="4", memory="16Gi"), scalars=(("pods", 110),))


class Asked:
    """A state machine with node `n1`, and its planning process."""

    def __init__(self, **more: Any) -> None:
        self.state_machine = StateMachine(installed.POLICY)
        self.state_machine.apply(Synced(), NOW)
        self.has(machine("n1"))
        feed = ReplicaFeed(self.state_machine)
        self.process = PlanningProcess(
            feed, **{"clock": clock, "plan_seconds": LONG, "silent_seconds": LONG, "command": COMMAND, **more}
        )

    def has(self, *objects: Node | Pod) -> None:
        for each in objects:
            self.state_machine.apply(NodeSeen(each) if isinstance(each, Node) else PodSeen(each), NOW)

    def loses(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self.state_machine.apply(PodGone(pod.uid, pod.key), NOW)


@asynccontextmanager
async def a_process(**more: Any) -> AsyncIterator[Asked]:
    asked = Asked(**more)
    async with anyio.create_task_group() as group:
        group.start_soon(asked.process.run)
        yield asked
        group.cancel_scope.cancel()


def is_alive(pid: int) -> bool:
    """A process that has ended and that nobody has waited for is none."""
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:
        return False
