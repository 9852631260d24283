"""Kills and pauses components of a real control plane, and the service, at random moments of a seed; each comes back by itself.

Two strikers work at the same time, so that two may be gone at once. Deliberately absent: what the cluster does meanwhile.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from signal import SIGKILL
from typing import Final

import anyio

from tests.cluster.support.slackwater_process import SlackwaterProcess
from tests.support.controlplane.stack import ControlPlane

_BETWEEN_SECONDS: Final = (2.0, 8.0)
_DEAD_SECONDS: Final = (0.0, 3.0)
_PAUSED_SECONDS: Final = (0.5, 9.0)
COMPONENTS: Final = ("etcd", "kube-apiserver", "kube-scheduler")
SERVICE: Final = "slackwater"


@dataclass(frozen=True, slots=True)
class Target:
    """What can be struck."""

    name: str
    kill: Callable[[], Awaitable[None]]
    start: Callable[[], Awaitable[None]]
    pause: Callable[[], None]
    resume: Callable[[], None]


def targets_of(control_plane: ControlPlane, service: SlackwaterProcess) -> list[Target]:
    """The components, and the service."""

    def of(name: str) -> Target:
        async def kill() -> None:
            control_plane.kill(name, SIGKILL)
            await control_plane.ended(name)

        async def start() -> None:
            await control_plane.start(name)

        return Target(name, kill, start, lambda: control_plane.pause(name), lambda: control_plane.resume(name))

    own = Target(SERVICE, service.kill, service.start, service.pause, service.resume)
    return [*(of(name) for name in COMPONENTS), own]


class Strikes:
    """All that happened is counted in `done`, as (target, way)."""

    def __init__(self, targets: list[Target], rng: Random, *, seconds: float) -> None:
        self._targets = targets
        self._rng = rng
        self._until = anyio.current_time() + seconds
        self._struck: set[str] = set()
        self.done: Counter[tuple[str, str]] = Counter()

    async def run(self) -> None:
        """Until the time is over; everything runs again on return."""
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(self._strike_again_and_again)

    async def _strike_again_and_again(self) -> None:
        while anyio.current_time() < self._until:
            await anyio.sleep(self._rng.uniform(*_BETWEEN_SECONDS))
            target = self._rng.choice([each for each in self._targets if each.name not in self._struck])
            self._struck.add(target.name)
            try:
                await self._strike(target)
            finally:
                self._struck.discard(target.name)

    async def _strike(self, target: Target) -> None:
        if self._rng.random() < 0.5:
            self.done[target.name, "kill"] += 1
            await target.kill()
            await anyio.sleep(self._rng.uniform(*_DEAD_SECONDS))
            await target.start()
            return
        self.done[target.name, "pause"] += 1
        target.pause()
        try:
            await anyio.sleep(self._rng.uniform(*_PAUSED_SECONDS))
        finally:
            target.resume()
