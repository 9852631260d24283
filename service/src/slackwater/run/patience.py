"""When filter's answer about a pod waits: kube-scheduler takes one pod at a time, so while that one waits it takes no other.

    binds stand in line  -> until they do not: one that is sent later might come too late
    others wait untold   -> while they are told (`loops.head_start`)

Both waits are bounded, and whoever is answered is answered from the world as it is then.
"""

from collections.abc import Callable
from typing import Final, Protocol

import anyio

from slackwater.model.objects import Pod

_LOOK_EVERY_SECONDS: Final = 0.01


class Wait(Protocol):
    """Something that a pod's answer may wait for."""

    def due(self, pod: Pod) -> bool: ...

    async def wait(self, pod: Pod) -> None: ...


class Patience:
    """Asked by the extender before it answers filter. `crowded`: do binds stand in line? That is waited for up to
    `most_seconds`: kube-scheduler is slowed down, and never stopped."""

    def __init__(self, crowded: Callable[[], bool], *, most_seconds: float = 1.0, head_start: Wait | None = None) -> None:
        self._crowded = crowded
        self._most_looks = round(most_seconds / _LOOK_EVERY_SECONDS)
        self._head_start = head_start

    def due(self, pod: Pod) -> bool:
        """Should the answer about the pod wait?"""
        return self._crowded() or (self._head_start is not None and self._head_start.due(pod))

    async def wait(self, pod: Pod) -> None:
        """Until the answer may be made."""
        if self._head_start is not None and self._head_start.due(pod):
            await self._head_start.wait(pod)
        for _ in range(self._most_looks):
            if not self._crowded():
                return
            await anyio.sleep(_LOOK_EVERY_SECONDS)
