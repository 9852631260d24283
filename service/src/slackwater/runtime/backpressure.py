"""Filter waits while binds queue: kube-scheduler takes one pod at a time, so while one pod waits it takes no other.

A bind that is sent late might reach the API server after kube-scheduler's own deadline. The wait is bounded, and the answer is
made from the state after it.
"""

from collections.abc import Callable
from typing import Final

import anyio

_LOOK_EVERY_SECONDS: Final = 0.01


class FilterBackpressure:
    """The extender asks it before it answers filter.

    `binds_queue` says whether binds wait to be sent. An answer waits for that at most `most_seconds`: this slows kube-scheduler
    down and never stops it.
    """

    def __init__(self, binds_queue: Callable[[], bool], *, most_seconds: float = 1.0) -> None:
        self._binds_queue = binds_queue
        self._most_looks = round(most_seconds / _LOOK_EVERY_SECONDS)

    def due(self) -> bool:
        """Should the answer wait?"""
        return self._binds_queue()

    async def wait(self) -> None:
        """Returns when the answer may be made."""
        for _ in range(self._most_looks):
            if not self._binds_queue():
                return
            await anyio.sleep(_LOOK_EVERY_SECONDS)
