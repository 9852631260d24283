"""Questions take turns: a round answers as much as fits into its time, the oldest first, and nobody waits in vain."""

from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from slackwater.adapters.http.request_queue import Overloaded, RequestQueue

pytestmark = pytest.mark.anyio


class Costly:
    """Questions that take a second each of a clock that nothing else moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.answered: list[int] = []
        self.request_queue = RequestQueue[int](round_seconds=2.5, most_waiting=5, wait_seconds=10.0, clock=lambda: self.now)

    def question(self, number: int) -> Callable[[], int]:
        def ask() -> int:
            self.now += 1.0
            self.answered.append(number)
            return number

        return ask


async def test_questions_of_one_round_are_answered_at_once_until_its_time_is_up() -> None:
    costly = Costly()
    for number in range(3):
        assert costly.request_queue.free
        assert costly.request_queue.now(costly.question(number)) == number
    assert not costly.request_queue.free
    await anyio.lowlevel.checkpoint()
    await anyio.lowlevel.checkpoint()
    assert costly.request_queue.free


async def test_the_rest_queue_and_others_get_their_turn_between_the_rounds() -> None:
    costly = Costly()
    answers = [costly.request_queue.queued(costly.question(number)) for number in range(5)]
    assert costly.answered == []
    seen = []
    while not all(answer.done() for answer in answers):
        await anyio.lowlevel.checkpoint()
        seen.append(len(costly.answered))
    assert [await answer for answer in answers] == [0, 1, 2, 3, 4]
    assert {0, 3, 5} >= set(seen)
    assert 3 in seen, "two rounds, and somebody else between them"


async def test_one_question_too_many_is_refused_at_once() -> None:
    costly = Costly()
    answers = [costly.request_queue.queued(costly.question(number)) for number in range(5)]
    with pytest.raises(Overloaded, match="5 questions wait already"):
        costly.request_queue.queued(costly.question(5))
    assert [await answer for answer in answers] == [0, 1, 2, 3, 4]


async def test_a_question_that_has_waited_too_long_is_not_answered_and_delays_no_other() -> None:
    costly = Costly()
    late = costly.request_queue.queued(costly.question(0))
    costly.now += 10.5
    soon = costly.request_queue.queued(costly.question(1))
    with pytest.raises(Overloaded, match=r"waited for 10.5 s, want at most 10 s"):
        await late
    assert await soon == 1
    assert costly.answered == [1]


async def test_a_question_that_fails_fails_for_its_caller_alone() -> None:
    costly = Costly()

    def broken() -> int:
        raise ValueError("no answer")

    failing, whole = costly.request_queue.queued(broken), costly.request_queue.queued(costly.question(1))
    with pytest.raises(ValueError, match="no answer"):
        await failing
    assert await whole == 1
