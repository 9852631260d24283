"""Calls functions after delays, all from one task. The simulated kubelets and controllers use it for steps that take time."""

import heapq
from collections.abc import Callable
from itertools import count

import anyio


class Timers:
    """Calls each function given to `after` once its delay has passed. Functions due at the same time are called in the order of
    their `after` calls. Any code on the event loop may call `after`."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._sooner = anyio.Event()

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (anyio.current_time() + seconds, next(self._numbers), act))
        self._sooner.set()

    async def run(self) -> None:
        """Calls the functions when they are due, until cancelled."""
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
