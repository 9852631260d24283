"""The scheduler stand-in's queue: what may be tried now, what backs off, and what waits for something to change."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Final

import anyio

from slackwater.model.backoff import ExponentialBackoff
from slackwater.sandbox.embedded.agenda import Agenda
from slackwater.sandbox.embedded.store import Key

#: kube-scheduler's podInitialBackoffSeconds and podMaxBackoffSeconds.
_BACKOFF: Final = ExponentialBackoff(first_seconds=1.0, longest_seconds=10.0)
#: A pod that nothing has moved is tried again after so long.
_FORGOTTEN_SECONDS: Final = 300.0


@dataclass(slots=True)
class _Waiting:
    """A pod in the queue. `until`: it backs off; `dormant`: only a change of the cluster moves it."""

    number: int
    attempts: int = 0
    until: float = 0.0
    dormant: bool = False
    busy: bool = False
    moved: bool = False  #: something changed while it was tried


class SchedulingQueue:
    """Keys of pending pods. `priority_of` says which goes first."""

    def __init__(self, agenda: Agenda, priority_of: Callable[[Key], int]) -> None:
        self._agenda = agenda
        self._priority_of = priority_of
        self._pods: dict[Key, _Waiting] = {}
        self._numbers = count()
        self._woken = anyio.Event()

    def __len__(self) -> int:
        return len(self._pods)

    def add(self, key: Key) -> None:
        """A pod that is there already is moved instead."""
        if key not in self._pods:
            self._pods[key] = _Waiting(next(self._numbers))
        else:
            self._move(self._pods[key])
        self._wake()

    def remove(self, key: Key) -> None:
        self._pods.pop(key, None)

    def move_all(self) -> None:
        """Something changed in the cluster: whatever waits for that may be tried when it has backed off."""
        for waiting in self._pods.values():
            self._move(waiting)
        self._wake()

    def _move(self, waiting: _Waiting) -> None:
        waiting.dormant = False
        waiting.moved = True

    def failed(self, key: Key) -> None:
        """An attempt failed: it backs off, and waits for a change unless there was one meanwhile."""
        waiting = self._pods.get(key)
        if waiting is None:
            return
        waiting.attempts += 1
        seconds = _BACKOFF.seconds(waiting.attempts)
        waiting.until = anyio.current_time() + seconds
        waiting.busy, waiting.dormant = False, not waiting.moved
        number = waiting.number
        self._agenda.after(seconds, self._wake)
        self._agenda.after(_FORGOTTEN_SECONDS, lambda: self._remembered(key, number))

    def _remembered(self, key: Key, number: int) -> None:
        waiting = self._pods.get(key)
        if waiting is not None and waiting.number == number:
            waiting.dormant = False
            self._wake()

    def _wake(self) -> None:
        self._woken.set()

    async def next(self) -> Key:
        """The next pod to try; it is busy until `failed` or `remove`."""
        while True:
            now = anyio.current_time()
            ready = [
                (-self._priority_of(key), waiting.number, key)
                for key, waiting in self._pods.items()
                if not waiting.busy and not waiting.dormant and waiting.until <= now
            ]
            if ready:
                key = min(ready)[2]
                self._pods[key].busy, self._pods[key].moved = True, False
                return key
            self._woken = anyio.Event()
            await self._woken.wait()
