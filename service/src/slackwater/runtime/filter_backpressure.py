"""Delays filter's answers while binds queue up."""

from collections.abc import Callable
from typing import Final

import anyio

_LOOK_EVERY_SECONDS: Final = 0.01


class FilterBackpressure:
    """Delays filter's answers while binds queue. The extender calls it before each filter answer.

    `binds_queue` says whether binds wait to be sent. kube-scheduler schedules one pod at a time, so a delay slows it down.
    Without the delay, a queued bind might reach the API server after kube-scheduler's own deadline. An answer is delayed by at
    most `most_seconds`, so kube-scheduler is never stopped, and filter answers from the state after the delay.
    """

    def __init__(self, binds_queue: Callable[[], bool], *, most_seconds: float = 1.0) -> None:
        self._binds_queue = binds_queue
        self._most_looks = round(most_seconds / _LOOK_EVERY_SECONDS)

    def due(self) -> bool:
        """Do binds queue now, so that filter should wait?"""
        return self._binds_queue()

    async def wait(self) -> None:
        """Returns when no binds queue any more, or after `most_seconds`."""
        for _ in range(self._most_looks):
            if not self._binds_queue():
                return
            await anyio.sleep(_LOOK_EVERY_SECONDS)
