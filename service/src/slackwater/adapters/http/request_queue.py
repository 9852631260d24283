"""Questions that cost the event loop time take turns: whoever asks for little is not kept waiting by those who ask for much.

Within one round of the loop such questions are answered at once until they have taken `round_seconds`; the rest queue and are
answered in the rounds that follow, the oldest first. Between rounds sockets are read and API answers taken: a bind,
an agent's request or a probe that has come meanwhile waits for one round, never for the queue. The queue is bounded, and so is
the wait in it: who could not be answered in time to be heard is told so.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Overloaded(Exception):
    """The question is not answered: too many wait, or it has waited too long. The message says which."""


class RequestQueue(Generic[T]):
    """One for a listener. `wait_seconds`: a question that has queued for longer is not answered any more."""

    def __init__(
        self,
        *,
        round_seconds: float = 0.004,
        most_waiting: int = 512,
        wait_seconds: float = 4.0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._round_seconds = round_seconds
        self._most_waiting = most_waiting
        self._wait_seconds = wait_seconds
        self._clock = clock
        self._spent = 0.0
        self._turning = False
        self._waiting: deque[tuple[float, Callable[[], T], asyncio.Future[T]]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def free(self) -> bool:
        """May a question be answered now, by `now`? Else it has to queue, by `queued`."""
        return not self._waiting and self._spent < self._round_seconds

    def now(self, question: Callable[[], T]) -> T:
        """The answer."""
        self._turn_on()
        began = self._clock()
        try:
            return question()
        finally:
            self._spent += self._clock() - began

    def queued(self, question: Callable[[], T]) -> "asyncio.Future[T]":
        """The answer when its turn has come, or `Overloaded`, which is raised at once where the queue is full."""
        if len(self._waiting) >= self._most_waiting:
            raise Overloaded(f"{len(self._waiting)} questions wait already, and no more may")
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append((self._clock(), question, answer))
        self._turn_on()
        return answer

    def _turn_on(self) -> None:
        if not self._turning:
            self._turning = True
            asyncio.get_running_loop().call_soon(self._round)

    def _round(self) -> None:
        self._spent, self._turning = 0.0, False
        while self._waiting and self._spent < self._round_seconds:
            since, question, answer = self._waiting.popleft()
            if not answer.done():
                self._answer(since, question, answer)
        if self._waiting:
            self._turn_on()

    def _answer(self, since: float, question: Callable[[], T], answer: "asyncio.Future[T]") -> None:
        waited = self._clock() - since
        if waited > self._wait_seconds:
            answer.set_exception(Overloaded(f"it has waited for {waited:.1f} s, want at most {self._wait_seconds:g} s"))
            return
        try:
            answer.set_result(self.now(question))
        except Exception as error:  # whoever awaits it judges it
            answer.set_exception(error)
