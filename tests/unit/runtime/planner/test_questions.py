"""Questions in the planning process: on the replica as it is, beside plans, each with a deadline and an end that is told."""

import ast
import os
import signal
from functools import partial
from pathlib import Path
from pickle import PicklingError
from typing import NamedTuple

import anyio
import pytest

from slackwater.ports.protocols import NothingThere, WhatIfRefused
from slackwater.runtime.planner.children import answer_of
from slackwater.runtime.planner.messages import AnswerKind
from slackwater.runtime.planner.process import QuestionFailedError
from slackwater.snapshot.snapshot_replica import SnapshotReplica
from tests.support.builders import a_pod
from tests.support.questions import LONG, Asked, Fatal, Large, Refusing, Slow, Whole, a_process, is_alive
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


class Answer(NamedTuple):
    used: dict[str, int]
    pending: list[str]
    by: int
    parent: int


async def whole(asked: Asked) -> Answer:
    return Answer(*ast.literal_eval((await asked.process.ask(Whole)).decode()))


async def test_the_process_starts_with_the_first_question_and_each_answer_knows_what_changed() -> None:
    async with a_process() as asked:
        assert asked.process.pid is None
        asked.has(a_pod("a", on="n1", cpu="2"), a_pod("b"))
        first = await whole(asked)
        assert (first.used, first.pending) == ({"n1": 2000}, ["b"])
        asked.has(a_pod("c", on="n1", cpu="1"))
        asked.loses([a_pod("b")])
        second = await whole(asked)
        assert (second.used, second.pending) == ({"n1": 3000}, [])
        assert first.parent == second.parent == asked.process.pid
        assert asked.process.pid not in (first.by, second.by)


async def test_an_answer_may_be_large() -> None:
    async with a_process() as asked:
        assert len(await asked.process.ask(partial(Large, 5_000_000))) == 5_000_000


def test_an_answer_has_a_largest_size() -> None:
    assert answer_of(Large(10), SnapshotReplica(), largest=10) == (AnswerKind.ANSWERED, bytes(10))
    kind, words = answer_of(Large(11), SnapshotReplica(), largest=10)
    assert (kind, words) == (AnswerKind.REFUSED, b"the answer has 11 bytes, want 10 at most: ask about fewer objects")


async def test_an_answer_takes_no_more_memory_than_is_allowed() -> None:
    async with a_process() as asked:
        with pytest.raises(WhatIfRefused, match="more than 1024 MiB of memory: ask less"):
            await asked.process.ask(partial(Large, 2 << 30))
        assert len(await asked.process.ask(partial(Large, 200 << 20))) == 200 << 20


async def test_an_error_in_an_answer_is_reported_and_ends_nothing() -> None:
    async with a_process() as asked:
        with pytest.raises(WhatIfRefused, match="want another question"):
            await asked.process.ask(partial(Refusing, broken=False))
        with pytest.raises(QuestionFailedError, match=r"questions\.py[\s\S]*no bug is like this one"):
            await asked.process.ask(partial(Refusing, broken=True))
        pid = asked.process.pid
        assert (await whole(asked)).parent == pid


async def test_a_question_about_nothing_loses_no_change() -> None:
    def nothing() -> Whole:
        raise NothingThere("pod b")

    async with a_process() as asked:
        await whole(asked)
        asked.has(a_pod("a", on="n1", cpu="2"))
        with pytest.raises(NothingThere):
            await asked.process.ask(nothing)
        assert (await whole(asked)).used == {"n1": 2000}


async def test_a_question_that_cannot_be_sent_costs_the_process_and_no_change() -> None:
    async with a_process() as asked:
        await whole(asked)
        first = asked.process.pid
        asked.has(a_pod("a", on="n1", cpu="2"))
        with pytest.raises((TypeError, AttributeError, PicklingError)):
            await asked.process.ask(lambda: Slow(lambda: None))  # type: ignore[arg-type]
        found = await whole(asked)
        assert found.used == {"n1": 2000}
        assert found.parent != first


async def test_an_answer_that_takes_too_long_is_given_up_and_the_replica_stays(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    async with a_process() as asked:
        await whole(asked)
        pid = asked.process.pid
        # The process that answers has to come so far that it says who it is, however slow the machine is.
        for seconds in (1, 8, 64):
            asked.process._answer_seconds = float(seconds)
            with pytest.raises(WhatIfRefused, match=f"took longer than {seconds} s") as refused:
                await asked.process.ask(partial(Slow, str(file)))
            assert refused.value.busy
            if file.exists() and file.read_text():
                break
        child = int(file.read_text())
        await until(lambda: not is_alive(child), seconds=LONG)
        asked.process._answer_seconds = LONG
        assert (await whole(asked)).parent == pid


async def test_an_answer_that_is_killed_is_reported_and_the_replica_stays() -> None:
    async with a_process() as asked:
        await whole(asked)
        pid = asked.process.pid
        with pytest.raises(WhatIfRefused, match="the process that answered was ended by SIGKILL"):
            await asked.process.ask(partial(Fatal, parent=False))
        assert (await whole(asked)).parent == pid
        assert asked.process.observation().restarts == 0


async def test_a_question_fails_when_the_process_ends_and_the_next_process_has_the_whole_state() -> None:
    async with a_process() as asked:
        asked.has(a_pod("a", on="n1", cpu="2"))
        await whole(asked)
        first = asked.process.pid
        with pytest.raises(WhatIfRefused, match="ended while it answered; another one starts: ask again") as refused:
            await asked.process.ask(partial(Fatal, parent=True))
        assert refused.value.busy
        found = await whole(asked)
        assert found.used == {"n1": 2000}
        assert first != found.parent == asked.process.pid
        assert asked.process.observation().restarts == 1


async def test_the_answering_child_ends_with_the_process(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    async with a_process() as asked, anyio.create_task_group() as group:

        async def ask() -> None:
            with pytest.raises(WhatIfRefused):
                await asked.process.ask(partial(Slow, str(file)))

        group.start_soon(ask)
        await until(lambda: file.exists() and bool(file.read_text()), seconds=LONG)
        child, pid = int(file.read_text()), asked.process.pid
        assert pid is not None
        assert is_alive(child)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not is_alive(child), seconds=LONG)


async def test_an_unused_process_ends_and_the_journals_note_nothing_for_it() -> None:
    async with a_process(idle_seconds=0.2) as asked:
        first = (await whole(asked)).parent
        await until(lambda: asked.process.pid is None and not is_alive(first), seconds=LONG)
        await until(lambda: asked.process._feed._collector is None, seconds=LONG)
        assert asked.state_machine.state.pods.journal._readers == ()
        asked.has(a_pod("a", on="n1", cpu="2"))
        found = await whole(asked)
        assert found.used == {"n1": 2000}
        assert (found.parent != first, asked.process.observation().restarts) == (True, 0)


async def test_a_question_while_an_unused_process_ends_makes_no_crash_of_it() -> None:
    async with a_process(idle_seconds=0.2) as asked:
        first = (await whole(asked)).parent
        await until(lambda: asked.process.pid is None, seconds=LONG)
        assert (await whole(asked)).parent != first
        assert asked.process.observation().restarts == 0


async def test_only_so_many_questions_wait(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    async with a_process() as asked, anyio.create_task_group() as group:
        refused: list[str] = []

        async def ask() -> None:
            try:
                await asked.process.ask(partial(Slow, str(file)))
            except WhatIfRefused as error:
                refused.append(str(error))

        for _ in range(17):
            group.start_soon(ask)
        await until(lambda: bool(refused), seconds=LONG)
        assert refused == ["16 questions wait already, want fewer"]
        await until(file.exists, seconds=LONG)
        group.cancel_scope.cancel()
