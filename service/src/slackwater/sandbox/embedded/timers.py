"""What is to happen when: the one task of everything in the sandbox that merely takes time."""

import heapq
from collections.abc import Callable
from itertools import count

import anyio


class Timers:
    """`after` may be called from anywhere on the loop; what is due together happens in the order in which it was asked for."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._sooner = anyio.Event()

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (anyio.current_time() + seconds, next(self._numbers), act))
        self._sooner.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._sooner = anyio.Event()
            wait = self._due[0][0] - anyio.current_time() if self._due else None
            if wait is None:
                await self._sooner.wait()
            elif wait > 0:
                with anyio.move_on_after(wait):
                    await self._sooner.wait()
            else:
                heapq.heappop(self._due)[2]()
                await anyio.lowlevel.checkpoint()
