"""Runs the planning process for the service: starts it when it is needed, and restarts it when it ends.

    process = PlanningProcess(feed, clock=..., plan_seconds=...)
    tasks.start_soon(process.run)              # until cancelled
    plans = await process.plan(make, watch)    # a plan of the autoscaler
    answer = await process.ask(make)           # the answer to a person's question, on the same replica

The process starts with the first plan or question. It ends when no question has come for `idle_seconds`, unless an autoscaler
requests plans. Its unexpected end is noticed at once, and the next process gets the whole cluster. A plan that the end
interrupts is requested a second time; a question that it interrupts gets an error. A process that hangs, which gives no sign of
progress while a plan is requested, is killed. Deliberately absent: making plans and
answers (`session`, `children`), and sending messages (`pipe`).
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Final, Protocol

import anyio
import anyio.lowlevel
import structlog
from anyio import get_cancelled_exc_class

from slackwater.controllers.consolidation.outcome import ConsolidationPlan
from slackwater.controllers.loop_plans import Plans
from slackwater.controllers.scaledown.replica_plan import ScaleDownProposal
from slackwater.controllers.scaleup.outcome import PlanFailure
from slackwater.model.exponential_backoff import ExponentialBackoff
from slackwater.model.ids import Instant
from slackwater.ports.clock import Watch
from slackwater.ports.protocols import WhatIfRefused
from slackwater.runtime.planner.children import how_ended
from slackwater.runtime.planner.messages import (
    FRAMED_TYPES,
    AnswerKind,
    Failed,
    MakeInquiry,
    PlannerObservation,
    PlannerQuestion,
)
from slackwater.runtime.planner.pipe import LOST, Link
from slackwater.runtime.planner.replica_feed import ReplicaFeed
from slackwater.runtime.planner.value_frames import Decoder, read_frame

_log = structlog.get_logger(__name__)

#: `-P`: Python imports nothing from the service's working directory.
COMMAND: Final = (sys.executable, "-P", "-m", "slackwater.runtime.planner")
#: The pause before the next process starts, if processes end within `_LONG_LIFE` seconds of their start.
_BACKOFF: Final = ExponentialBackoff(first_seconds=1.0, longest_seconds=60.0)
_LONG_LIFE: Final = 60.0
#: How many seconds a plan waits for a process to start, and how many a question waits.
_START_SECONDS: Final = 90.0
_START_FOR_QUESTION_SECONDS: Final = 60.0
#: The number of attempts at one plan. Another attempt follows only if the process ended during the one before.
_ATTEMPTS: Final = 2
#: One question is answered at a time. At most so many questions are accepted, that one included; each waits at most so long.
_MOST_WAITING: Final = 16
_QUESTION_WAIT_SECONDS: Final = 30.0
#: The caller of a question that takes longer than this, the start of the process included, gets an error.
ANSWER_SECONDS: Final = 120.0
#: The service waits this much longer than the child's deadline, because the child reports more exactly that it was too slow.
_GRACE_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 300.0
#: A process may be silent for so many times longer while it takes in the whole cluster, and in the time up to its kill it is
#: looked at so many times: the event loop itself may have stood still.
_REBUILD_FACTOR: Final = 6
_LOOKS: Final = 10


class PlannerLostError(Exception):
    """No planning process is running, or it ended before it answered."""


class PlanFailedError(Exception):
    """Planning raised an error in the planning process; the message is its traceback."""


class QuestionFailedError(Exception):
    """Answering raised an error in the planning process; the message is its traceback."""


#: Makes the question. Called right after the changes for the replica were collected, so that both show the same state. May
#: raise any error.
MakeQuestion = Callable[[], PlannerQuestion]


class Questions(Protocol):
    """Answers people's questions on the replica, without waiting for plans."""

    async def ask(self, make: MakeQuestion) -> bytes:
        """The answer to the question that `make` makes. Raises the errors of `make`, and `WhatIfRefused` if the question cannot
        be answered: with `busy` if only at present, so that it may be asked again.
        """
        ...


class PlanningProcess:
    """Makes plans and answers questions in a process of its own. Implements `Questions` and
    `LoopPlanner`. A plan that takes longer than `plan_seconds` fails, and its process is killed.
    The process is also killed if it is silent for `silent_seconds` while it plans; then the next one may be silent for twice as
    long, in case the machine is that slow. `pieces`: further types whose long collections are sent in pieces."""

    def __init__(
        self,
        feed: ReplicaFeed,
        *,
        clock: Callable[[], Instant],
        plan_seconds: float,
        silent_seconds: float,
        pieces: frozenset[type] = frozenset(),
        command: Sequence[str] = COMMAND,
        answer_seconds: float = ANSWER_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._feed = feed
        self._clock = clock
        self._plan_seconds, self._answer_seconds, self._idle_seconds = plan_seconds, answer_seconds, idle_seconds
        self._framed_types = FRAMED_TYPES | pieces
        self._silent_seconds = self._patience = silent_seconds
        self._command = tuple(command)
        self._link: Link | None = None
        self._changed = anyio.Event()
        #: The link to the process that made the last scale-up plan; only this process can plan the scale-down.
        self._planned: Link | None = None
        #: Set while a plan or a question needs a process. `_plans`: an autoscaler requests plans, so the process never idles.
        self._wanted, self._plans = anyio.Event(), False
        self._asked_at = Instant(0.0)
        self._one, self._waiting = anyio.Lock(), 0
        #: Remarks about ended processes that the next plan carries to the status.
        self._news: list[str] = []
        #: The number of processes that ended unexpectedly, and how the last one did.
        self._restarts, self._how = 0, ""

    @property
    def pid(self) -> int | None:
        """The process ID of the running planning process; None if there is none."""
        return None if self._link is None else self._link.process.pid

    def observation(self) -> PlannerObservation:
        """The number of restarts, and the memory of the process; 0 if no process runs or its memory is unknown."""
        pid = self.pid
        silent = 0.0 if self._link is None else self._link.silent_seconds()
        resident = 0 if pid is None else resident_bytes(pid)
        return PlannerObservation(restarts=self._restarts, resident_bytes=resident, silent_seconds=silent)

    # --- the process ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keeps a planning process running while one is needed. Runs until cancelled."""
        short_lives = 0
        while True:
            await self._wanted.wait()
            short_lives = short_lives + 1 if await self._run_once() else 0
            await anyio.sleep(_BACKOFF.seconds(short_lives))

    async def _run_once(self) -> bool:
        """Runs one process from its start to its end. Returns True if it ended by itself after a short life."""
        began = self._clock()
        async with await anyio.open_process(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None, start_new_session=True
        ) as process:
            self._feed.begin()
            link = Link(process, self._feed, self._framed_types, self._clock)
            self._now(link)
            _log.info("planning process runs", pid=process.pid)
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(link.receive, name="answers of the planning process")
                    group.start_soon(self._end_when_idle, link, name="end of the planning process")
                    group.start_soon(self._end_when_silent, link, name="end of a planning process that hangs")
                    await process.wait()
                    group.cancel_scope.cancel()
            finally:
                self._now(None)
                link.fail_waits()
                self._feed.end()
        seconds = self._clock() - began
        if link.idle:  # a question that came meanwhile waits for the next process
            _log.info("planning process ended, since nobody asks", pid=process.pid, seconds=round(seconds, 1))
            return False
        self._ended(process.returncode, process.pid, seconds)
        return seconds < _LONG_LIFE

    def _ended(self, code: int | None, pid: int, seconds: float) -> None:
        self._restarts, self._how = self._restarts + 1, "vanished" if code is None else how_ended(code)
        self._news.append(f"the planning process {self._how} after {seconds:.0f} s; a new one gets the whole cluster")
        _log.error("planning process ended", pid=pid, how=self._how, seconds=round(seconds, 1), restarts=self._restarts)

    async def _end_when_idle(self, link: Link) -> None:
        while self._plans or self._waiting or self._clock() - self._asked_at <= self._idle_seconds:  # noqa: ASYNC110 - no event
            await anyio.sleep(self._idle_seconds / 10)
        self._wanted = anyio.Event()
        link.idle = True
        self._now(None)  # plans and questions from now on wait for the next process
        link.kill()

    async def _end_when_silent(self, link: Link) -> None:
        """Kills a process that hangs: one that gives no sign of progress while a plan is requested."""
        looks = 0
        while True:
            await anyio.sleep(self._patience / _LOOKS)
            allowed = self._patience * (_REBUILD_FACTOR if link.rebuilding else 1)
            looks = looks + 1 if link.silent_seconds() > allowed else 0
            if looks > 1:
                self._patience = min(2 * self._patience, self._plan_seconds)
                self._news.append(f"the planning process hung: it gave no sign of progress for {allowed:g} s")
                _log.error("planning process hangs, and is ended", pid=link.process.pid, seconds=allowed)
                link.kill()
                return

    def _now(self, link: Link | None) -> None:
        self._link = link
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def _another_than(self, old: Link | None, seconds: float) -> Link:
        self._wanted.set()
        with anyio.move_on_after(seconds):
            while self._link is None or self._link is old or self._link.ending:
                await self._changed.wait()
            return self._link
        how = f", the last one {self._how}" if self._how else ""
        raise PlannerLostError(f"no planning process for {seconds:.0f} s: it has ended {self._restarts} times{how}")

    # --- plans --------------------------------------------------------------------------------------------------------------

    async def plan(self, make: MakeInquiry, watch: Watch) -> Plans:
        """Sends the changes and the inquiry, and returns the plans.

        :raises PlannerLostError: no process ran, or two ended while planning.
        :raises PlanFailedError: planning raised an error.
        :raises TimeoutError: planning took longer than `plan_seconds`.
        """
        self._plans, link = True, None
        for attempt in range(1, _ATTEMPTS + 1):
            link = await self._another_than(link, _START_SECONDS)
            try:
                plans = await self._planned_by(link, make, watch)
            except LOST as error:
                if attempt == _ATTEMPTS:
                    raise PlannerLostError(f"the planning process ended {attempt} times while it made one plan") from error
            else:
                assert isinstance(plans, Plans), plans
                self._planned = link
                if not link.rebuilding:
                    self._patience = min(max(self._silent_seconds, 2 * link.longest_silence), self._plan_seconds)
                news, self._news = self._news, []
                return replace(plans, notes=(*news, *plans.notes))
        raise AssertionError("unreachable")

    async def scale_down(self, watch: Watch) -> ScaleDownProposal | None:
        """The scale-down plan for the last inquiry; None if the process that planned its scale-up has ended, because a new one
        does not know that plan. Raises `PlanFailedError` and TimeoutError like `plan`."""
        link = self._planned
        if link is None or link is not self._link:
            return None
        try:
            plan = await self._planned_by(link, None, watch)
        except LOST:
            return None
        assert plan is None or isinstance(plan, ScaleDownProposal), plan
        return plan

    @property
    def consolidates(self) -> bool:
        """See `LoopPlanner`. The plan is gone with the process that makes it."""
        return self._link is not None and self._link.consolidates

    async def consolidation(self, watch: Watch) -> ConsolidationPlan | PlanFailure | None:
        """See `LoopPlanner`."""
        found = None if self._link is None else self._link.take_consolidation()
        return None if found is None else await decoded_consolidation(*found, watch)

    def forget(self) -> None:
        """Makes the next message contain the whole cluster."""
        self._planned = None
        if self._link is not None:
            self._link.fed = False

    async def _planned_by(self, link: Link, make: MakeInquiry | None, watch: Watch) -> Plans | ScaleDownProposal | None:
        """Requests the scale-up and slack plans; with `make` None, the scale-down plan. On a timeout or cancellation kills the
        process, because its state is then unknown."""
        try:
            with anyio.fail_after(self._plan_seconds):
                asked = link.scale_down(self._plan_seconds, watch) if make is None else link.plan(make, watch)
                answer = await asked
        except (TimeoutError, get_cancelled_exc_class()):
            link.kill()
            raise
        if isinstance(answer, Failed):
            raise PlanFailedError(answer.traceback)
        return answer

    # --- questions ----------------------------------------------------------------------------------------------------------

    async def ask(self, make: MakeQuestion) -> bytes:
        """Answers a question as `Questions` describes. Also raises `QuestionFailedError`."""
        if self._waiting >= _MOST_WAITING:
            raise WhatIfRefused(f"{self._waiting} questions wait already, want fewer", busy=True)
        self._waiting += 1
        try:
            with anyio.move_on_after(_QUESTION_WAIT_SECONDS) as waiting:
                await self._one.acquire()
            if waiting.cancelled_caught:
                raise WhatIfRefused("other questions are being answered, want one at a time", busy=True)
            try:
                return await self._answered(make)
            finally:
                self._one.release()
        finally:
            self._waiting -= 1
            self._asked_at = self._clock()

    async def _answered(self, make: MakeQuestion) -> bytes:
        link: Link | None = None
        try:
            with anyio.fail_after(self._answer_seconds + _GRACE_SECONDS):
                link = await self._another_than(None, _START_FOR_QUESTION_SECONDS)
                kind, content = await link.ask(make, self._answer_seconds, Watch(self._clock))
        except TimeoutError:
            if link is not None and not self._plans:  # not even the child's deadline was reported: the process hangs
                link.kill()
            raise self._too_long() from None
        except PlannerLostError as error:
            raise WhatIfRefused(f"nobody can answer: {error}", busy=True) from error
        except LOST as error:
            raise WhatIfRefused(
                "the planning process ended while it answered; another one starts: ask again", busy=True
            ) from error
        match kind:
            case AnswerKind.ANSWERED:
                return content
            case AnswerKind.REFUSED:
                raise WhatIfRefused(content.decode())
            case AnswerKind.ENDED if content.endswith(b"SIGALRM"):
                raise self._too_long()
            case AnswerKind.ENDED:
                raise WhatIfRefused(f"the process that answered {content.decode()}: ask again, or ask less", busy=True)
            case _:
                raise QuestionFailedError(content.decode())

    def _too_long(self) -> WhatIfRefused:
        return WhatIfRefused(f"the answer took longer than {self._answer_seconds:g} s: ask less", busy=True)


async def decoded_consolidation(kind: AnswerKind, content: bytes, watch: Watch) -> ConsolidationPlan | PlanFailure:
    """The consolidation plan in the answer of a child, or how the child ended. The event loop is free between two frames."""
    if kind is not AnswerKind.ANSWERED:
        text = content.decode().strip()
        return PlanFailure(part="consolidation", about="consolidation", error=text.rpartition("\n")[2], trace=text)
    decoder, frames, plan = Decoder(), BytesIO(content), None
    while (frame := read_frame(frames)) is not None:
        with watch:
            arrived = decoder.take(frame)
            plan = None if arrived is None else arrived.value
        await anyio.lowlevel.checkpoint()
    assert isinstance(plan, ConsolidationPlan), plan
    return plan


def resident_bytes(pid: int) -> int:
    """The resident memory of the process in bytes; 0 if unknown."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:  # not Linux, or it has just ended
        return 0
    found = (line.split()[1] for line in text.splitlines() if line.startswith("VmRSS:"))
    return 1024 * int(next(found, "0"))
