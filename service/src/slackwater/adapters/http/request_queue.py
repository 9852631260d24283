"""A bounded queue for requests that occupy the event loop for long, so that short requests do not wait behind them.

Such requests are answered at once until they have taken `round_seconds`; that ends the round. Further ones queue, and are
answered in later rounds of the event loop, oldest first. Between rounds the loop reads sockets and API answers, so a bind, an
agent's request or a probe waits for one round and never for the queue. Requests that find the queue empty cost no turn of the
event loop until a round's time is used up. Length and waiting time are bounded; above a bound a request ends with
`Overloaded`.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Overloaded(Exception):
    """The request is not answered: the queue is full, or the request has waited too long. The message says which."""


class RequestQueue(Generic[T]):
    """The queue of one listener. `T` is the type of an answer.

    `round_seconds`: time that requests may take in one round. `most_waiting`: limit of queued requests.
    `wait_seconds`: a request that has queued for longer fails with `Overloaded`. `clock` counts seconds.
    """

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
        """True if a request may be answered at once with `now`; otherwise it must queue with `queued`."""
        return not self._waiting and self._spent < self._round_seconds

    def now(self, question: Callable[[], T]) -> T:
        """Answers a request at once, and adds the time that this takes to the round's time."""
        began = self._clock()
        try:
            return question()
        finally:
            self._spent += self._clock() - began
            if self._spent >= self._round_seconds:
                self._schedule_round()

    def queued(self, question: Callable[[], T]) -> "asyncio.Future[T]":
        """Queues a request; returns a future of the answer, which fails with `Overloaded` after too long a wait.

        :raises Overloaded: the queue is full.
        """
        if len(self._waiting) >= self._most_waiting:
            raise Overloaded(f"{len(self._waiting)} questions wait already, and no more may")
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append((self._clock(), question, answer))
        self._schedule_round()
        return answer

    def _schedule_round(self) -> None:
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
            self._schedule_round()

    def _answer(self, since: float, question: Callable[[], T], answer: "asyncio.Future[T]") -> None:
        waited = self._clock() - since
        if waited > self._wait_seconds:
            answer.set_exception(Overloaded(f"it has waited for {waited:.1f} s, want at most {self._wait_seconds:g} s"))
            return
        try:
            answer.set_result(self.now(question))
        except Exception as error:  # the caller that awaits the future handles it
            answer.set_exception(error)
