"""An event loop that does not wait where nobody works: time then jumps to the next timer. While a thread or a process that this
one started works, time passes as it does.

So 24 hours of a service take as long as what is done in them, and nothing that is done gets less time than it would have. The
CPU that each step of the loop takes is noted.
"""

import asyncio
import os
import time
from asyncio import events
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from selectors import EpollSelector, SelectorKey
from typing import Any, Final, cast

import anyio.to_thread

from tests.bench.procstat import with_descendants

#: How long the loop waits at a time for what others do, since the end of their work alone does not wake it: longer each time.
_PAUSE, _LONGEST_PAUSE = 0.0005, 0.05
#: Processes that came since are looked for after so many seconds.
_CHILDREN_SECONDS: Final = 30.0


class _Selector(EpollSelector):
    """`skipped`: the seconds that were not waited."""

    def __init__(self, least_seconds: float) -> None:
        super().__init__()
        self._least = least_seconds
        self.skipped = 0.0
        self.threads = 0
        self._pause = _PAUSE
        self._states: dict[int, int] = {}
        self._looked_at = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        if self.threads or self._works():
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            return super().select(min(timeout, self._pause))
        self._pause = _PAUSE
        # Whoever rests now had written before: it can be read by now.
        found = super().select(0)
        if not found:
            self.skipped += max(timeout, self._least)
        return found

    def _works(self) -> bool:
        """Does one of the processes that were started run, or wait for a disk?"""
        now = time.monotonic() + self.skipped
        if now - self._looked_at > _CHILDREN_SECONDS:
            self._looked_at = now
            with suppress(OSError):  # a thread or a process has just ended: the next look has them all
                self._follow(set(with_descendants(os.getpid())[1:]))
        return any(map(self._is_busy, self._states.values()))

    def _follow(self, pids: set[int]) -> None:
        for pid in self._states.keys() - pids:
            os.close(self._states.pop(pid))
        for pid in pids - self._states.keys():
            self._states[pid] = os.open(f"/proc/{pid}/stat", os.O_RDONLY)

    @staticmethod
    def _is_busy(file: int) -> bool:
        try:
            text = os.pread(file, 100, 0)
        except ProcessLookupError:
            return False
        return text[text.rindex(b")") + 2 : text.rindex(b")") + 3] in b"RD"


class SkippingLoop(asyncio.SelectorEventLoop):
    """`note`: gets each step, and the CPU seconds that it took. `least_seconds`: time jumps by so much at least; what is due
    meanwhile is done together, and ten looks are one."""

    def __init__(self, note: Callable[[events.Handle, float], None], *, least_seconds: float) -> None:
        self._skipping = _Selector(least_seconds)
        self._note = note
        super().__init__(self._skipping)

    def time(self) -> float:
        return time.monotonic() + self._skipping.skipped

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Notes steps, and knows of threads, until the block ends."""
        handle, threads = cast("Any", events.Handle), cast("Any", anyio.to_thread)
        run, in_thread, note = handle._run, threads.run_sync, self._note

        def timed(step: events.Handle) -> None:
            began = time.thread_time()
            run(step)
            note(step, time.thread_time() - began)

        async def counted(*args: Any, **more: Any) -> Any:
            self._skipping.threads += 1
            try:
                return await in_thread(*args, **more)
            finally:
                self._skipping.threads -= 1

        handle._run, threads.run_sync = timed, counted
        try:
            yield
        finally:
            handle._run, threads.run_sync = run, in_thread
