"""An asyncio event loop whose time jumps: nothing waits, and whoever is ready goes on in an order that the seed says.

One run is the same as every other with its seed. Deliberately absent: sockets, signals, threads; what asks for one of these is
a mistake, and fails.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from random import Random
from typing import Any, Final, cast

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from anyio._backends import _asyncio as backend


class Deadlock(Exception):
    """Nobody is ready, and nothing is due: the run would wait for ever."""


class _Selector:
    """Where a real loop would wait for the network, time goes on."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Deadlock(f"at {self._loop.time():.3f} s")
        if timeout > 0:
            self._loop.jump(timeout)
        return []

    def close(self) -> None:
        return


class VirtualLoop(asyncio.BaseEventLoop):
    """`rng` orders what is ready at the same time."""

    def __init__(self, rng: Random) -> None:
        super().__init__()
        self._now = 0.0
        self._rng = rng
        self._selector = _Selector(self)
        self._clock_resolution = 1e-9
        self._ready: deque[asyncio.Handle]

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        self._now += seconds

    def _run_once(self) -> None:
        ready = self._ready
        if len(ready) > 1:
            steps = [at for at, handle in enumerate(ready) if _is_step(handle)]
            if len(steps) > 1:
                shuffled = [ready[at] for at in steps]
                self._rng.shuffle(shuffled)
                for at, handle in zip(steps, shuffled, strict=True):
                    ready[at] = handle
        super()._run_once()  # type: ignore[misc]

    def _process_events(self, _events: list[Any]) -> None:
        return

    def _write_to_self(self) -> None:
        return


def _is_step(handle: asyncio.Handle) -> bool:
    """Of a task that goes on: two tasks that are ready may go on in any order. Other callbacks keep theirs."""
    return isinstance(getattr(cast("Any", handle)._callback, "__self__", None), asyncio.Task)


class _OrderedSet:
    """anyio keeps tasks and scopes in sets, and cancels in their order, which is that of addresses: here, of age."""

    def __init__(self) -> None:
        self._items: dict[Any, None] = {}

    def add(self, item: Any) -> None:
        self._items[item] = None

    def remove(self, item: Any) -> None:
        del self._items[item]

    def discard(self, item: Any) -> None:
        self._items.pop(item, None)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


_PLAIN_INIT: Final = backend.CancelScope.__init__


def _ordered_init(self: Any, *args: Any, **kwargs: Any) -> None:
    _PLAIN_INIT(self, *args, **kwargs)
    self._child_scopes = _OrderedSet()
    self._tasks = _OrderedSet()


async def _at_once(act: Callable[..., Any], *args: Any, **_more: Any) -> Any:
    """What would be done by a thread is done between two steps of the loop."""
    await anyio.lowlevel.checkpoint()
    found = act(*args)
    await anyio.lowlevel.checkpoint()
    return found


@pytest.fixture(name="anyio_backend")
def virtual_time() -> object:
    """A module that imports it runs its asynchronous tests in virtual time: no deadline passes while the machine does something
    else."""
    return "asyncio", {"loop_factory": lambda: VirtualLoop(Random(1))}


def run_virtually(rng: Random, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs `main` to its end on a loop of its own."""
    scope, threads = cast("Any", backend.CancelScope), cast("Any", anyio.to_thread)
    in_thread = threads.run_sync
    scope.__init__, threads.run_sync = _ordered_init, _at_once
    try:
        anyio.run(main, backend_options={"loop_factory": lambda: VirtualLoop(rng)})
    finally:
        scope.__init__, threads.run_sync = _PLAIN_INIT, in_thread
