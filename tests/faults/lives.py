"""The service's lives: each begins with what the cluster holds and nothing else, and ends by a kill, in good order, or not.

The objects are those that `slackwater serve` builds; only the listeners are left out, and whoever would call them calls here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

import anyio
from anyio.abc import TaskGroup

from slackwater.adapters.http.application import Answer, Request
from slackwater.app.settings import Settings
from slackwater.app.wiring import Service
from slackwater.model.ids import Instant
from slackwater.ports.clock import Times
from slackwater.sandbox.embedded.extender_client import ConnectionLost
from slackwater.sandbox.embedded_demo import answered
from tests.faults.wire import Wire
from tests.support.planners import InlineReplica

_EXTENDER: Final = "/scheduler/"
#: Between the end of one life and the next one's first request.
_START_SECONDS: Final = 0.3


@dataclass(slots=True)
class Life:
    """One process. `ready`: everything was listed once."""

    number: int
    wire: Wire
    service: Service
    #: Ends it, also where it has not got so far as to have a group.
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    group: TaskGroup | None = None
    ready: bool = False
    ended: anyio.Event = field(default_factory=anyio.Event)


class Lives:
    """`now` is the one of this moment, None between two. `born` learns of each before it begins."""

    def __init__(
        self,
        settings: Settings,
        rng: Random,
        *,
        new_wire: Callable[[], Wire],
        wall: Callable[[], float],
        born: Callable[[Life], None],
    ) -> None:
        self.now: Life | None = None
        self.count = 0
        self._settings = settings
        self._rng = rng
        self._new_wire = new_wire
        self._wall = wall
        self._born = born

    async def begin(self, group: TaskGroup) -> None:
        """Starts a life as a task of the group."""
        wire = self._new_wire()
        self.count += 1
        offset = self._rng.uniform(0.0, 1e6)  # a monotonic clock starts anywhere
        times = Times(monotonic=lambda: Instant(anyio.current_time() + offset), wall=self._wall)
        rng = Random(self._rng.getrandbits(64))
        service = Service(self._settings, wire, rng, times, make_replica=lambda feed, *_: InlineReplica(feed))
        life = Life(self.count, wire, service)
        self._born(life)
        self.now = life
        group.start_soon(self._live, life)

    async def _live(self, life: Life) -> None:
        with life.scope:
            async with anyio.create_task_group() as group:
                life.group = group
                await group.start(life.service.dispatcher.run)
                group.start_soon(life.service.intake.run)
                await life.service.intake.synced()
                life.ready = True
                if life.service.autoscaler_service is not None:
                    group.start_soon(life.service.autoscaler_service.intake.run)
                    group.start_soon(life.service.autoscaler_service.act, life.service.replica)
                if life.service.scoring_loop is not None:
                    group.start_soon(life.service.scoring_loop.run)
        life.ended.set()

    async def kill(self, group: TaskGroup) -> None:
        """As kill -9: nothing of it passes any more."""
        life, self.now = self.now, None
        if life is None:
            return
        life.wire.dead = True
        life.scope.cancel()
        await anyio.sleep(_START_SECONDS)
        await self.begin(group)

    async def stop(self, group: TaskGroup) -> None:
        """As SIGTERM: what is under way is finished, then the next one begins."""
        life, self.now = self.now, None
        if life is None:
            return
        life.scope.cancel()
        await life.ended.wait()
        await anyio.sleep(_START_SECONDS)
        await self.begin(group)

    def end(self) -> None:
        if self.now is not None:
            self.now.scope.cancel()

    # --- who calls --------------------------------------------------------------------------------------------------------

    async def extender(self, verb: str, body: bytes) -> tuple[int, bytes]:
        """Goes on when its caller hangs up, as behind the real listener. Raises `ConnectionLost`."""
        life = self.now
        if life is None or life.group is None or life.wire.dead:
            raise ConnectionLost("connection refused")
        found: list[Answer] = []
        done = anyio.Event()

        async def handle(life: Life) -> None:
            try:
                found.append(await answered(life.service.extender, Request("POST", _EXTENDER + verb, body)))
            finally:
                done.set()

        life.group.start_soon(handle, life)
        await done.wait()
        if not found:
            raise ConnectionLost("broken off")
        return found[0].status, found[0].body

    async def permits(self, body: bytes) -> tuple[int, bytes]:
        """Ends when its caller hangs up. Raises `ConnectionLost`."""
        life = self.now
        if life is None or life.wire.dead:
            raise ConnectionLost("connection refused")
        answer = await answered(life.service.agents, Request("POST", "/", body))
        if life.wire.dead:
            raise ConnectionLost("broken off")
        return answer.status, answer.body
