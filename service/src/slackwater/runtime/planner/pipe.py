"""The service's end of the pipes to one planning process: sends messages, and hands each answer to the caller that waits for
it.

Messages are encoded and answers decoded in pieces of bounded size, and the event loop is free between two pieces. One lock
covers collecting the changes and sending them, so that the replica gets the changes in their order. An answer to a question
may arrive while a plan is being made. Deliberately absent: starting and ending the process.
"""

import gc
import os
import pickle
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Final, Generic, TypeVar

import anyio
import structlog
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from slackwater.controllers.loop_plans import Plans
from slackwater.controllers.scaledown.replica_plan import ScaleDownProposal
from slackwater.model.changes import Changes
from slackwater.model.ids import Instant
from slackwater.model.pod_constraints import MOST_RULES
from slackwater.ports.clock import Watch
from slackwater.ports.threads import in_thread
from slackwater.runtime.planner.messages import (
    PLAN,
    PROGRESS,
    AnswerKind,
    AnswerPiece,
    Ask,
    AskScaleDown,
    Failed,
    MakeInquiry,
    PlannerQuestion,
    Question,
)
from slackwater.runtime.planner.replica_feed import ReplicaFeed
from slackwater.runtime.planner.value_frames import HEAD, Decoder, Encoder, framed

_log = structlog.get_logger(__name__)


class LinkLost(Exception):
    """The planning process ended before it answered."""


#: The errors of a link whose process has ended.
LOST: Final = (
    anyio.EndOfStream,
    anyio.IncompleteRead,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    LinkLost,
)
#: How long sending a question may take. It continues even if the caller is cancelled, because after half a message the process
#: could read no further one.
_SEND_SECONDS: Final = 60.0
T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Reply(Generic[T]):
    """An answer that a caller waits for. `parts` are the pieces that have arrived. `watch` measures how long decoding blocks
    the event loop."""

    watch: Watch
    arrived: anyio.Event = field(default_factory=anyio.Event)
    found: list[T] = field(default_factory=list)
    parts: list[bytes] = field(default_factory=list)

    async def wait(self) -> T:
        await self.arrived.wait()
        if not self.found:
            raise LinkLost("the planning process has ended")
        return self.found[0]

    def add(self, found: T) -> None:
        self.found.append(found)
        self.arrived.set()


_Plan = Plans | ScaleDownProposal | Failed | None
_Answer = tuple[AnswerKind, bytes]


class Link:
    """The service's end of the pipes to one planning process.

    `fed`: the replica of the process has the whole cluster, so it needs only changes. `ending`: the process was killed and must
    not be used any more. `idle`: it was killed because nobody asked. `rebuilding`: the plan that is being made began with the
    whole cluster. `longest_silence`: the longest time in seconds without a sign of progress while a plan was being made.
    """

    def __init__(
        self, process: Process, feed: ReplicaFeed, framed_types: frozenset[type], clock: Callable[[], Instant]
    ) -> None:
        assert process.stdout is not None
        self.process = process
        self.fed = False
        self.ending = False
        self.idle = False
        self.rebuilding = False
        self.longest_silence = 0.0
        self._clock, self._heard_at = clock, clock()
        self._feed = feed
        self._encoder = Encoder(framed_types)
        self._decoder = Decoder(pod_of=feed.pod_of)
        self._input = BufferedByteReceiveStream(process.stdout)
        self._sending = anyio.Lock()
        #: Whether a pod of the message to send next has so many rules that encoding it is long work.
        self._has_large_pods = False
        self._plan: _Reply[_Plan] | None = None
        self._questions: dict[int, _Reply[_Answer]] = {}
        #: The number under which a consolidation plan arrives; None if none is made.
        self._consolidation: int | None = None
        self._numbers = count(1)

    def kill(self) -> None:
        """Kills the process. If it has just ended by itself, its own exit status is reported."""
        self.ending = True
        if self.process.returncode is None:
            # `Process.kill` would collect the exit status first, and asyncio's watcher would then report 255 in its place.
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)

    def silent_seconds(self) -> float:
        """For how long the process has given no sign of progress; 0 if no plan is being made."""
        return 0.0 if self._plan is None or self._plan.arrived.is_set() else self._clock() - self._heard_at

    def fail_waits(self) -> None:
        """Ends all waits for answers with an error, because the process has ended."""
        for reply in (self._plan, *self._questions.values()):
            if reply is not None:
                reply.arrived.set()

    # --- questions ----------------------------------------------------------------------------------------------------------

    async def plan(self, make: MakeInquiry, watch: Watch) -> _Plan:
        """Requests the scale-up and slack plans for the inquiry that `make` makes."""
        async with self._sending:
            reply = self._awaiting_plan(watch)
            changes, self.rebuilding = await self._collect(watch, for_plan=True)
            await self._send(Ask(inquiry=make(changes, self._feed.auxiliary), rebuild=self.rebuilding), watch)
            self._has_fed(rebuild=self.rebuilding)
        return await reply.wait()

    async def scale_down(self, seconds: float, watch: Watch) -> _Plan:
        """Requests the scale-down plan for the last inquiry, and the consolidation plan if that says so. The latter is ended
        after `seconds`."""
        number = next(self._numbers)
        self._questions[number] = _Reply(watch)  # the other plan may arrive before the task that waits for this one runs
        try:
            async with self._sending:
                reply = self._awaiting_plan(watch)
                await self._send(AskScaleDown(number=number, seconds=seconds), watch)
            plan = await reply.wait()
        except BaseException:
            del self._questions[number]
            raise
        if isinstance(plan, ScaleDownProposal) and plan.consolidates:
            assert self._consolidation is None, "one consolidation plan at a time is asked for"
            self._consolidation = number
        else:
            del self._questions[number]
        return plan

    def _awaiting_plan(self, watch: Watch) -> _Reply[_Plan]:
        self._plan, self._heard_at, self.longest_silence, self.rebuilding = _Reply(watch), self._clock(), 0.0, False
        return self._plan

    @property
    def consolidates(self) -> bool:
        """Is a consolidation plan being made, or waits to be taken?"""
        return self._consolidation is not None

    def take_consolidation(self) -> _Answer | None:
        """Takes the consolidation plan, encoded, once it has arrived whole, or how its child ended; None before."""
        number = self._consolidation
        if number is None or not self._questions[number].found:
            return None
        self._consolidation = None
        return self._questions.pop(number).found[0]

    async def ask(self, make: Callable[[], PlannerQuestion], seconds: float, watch: Watch) -> _Answer:
        """Sends the question that `make` makes, and returns the kind of its answer and its content. The process ends the answer
        after `seconds`."""
        number, reply = next(self._numbers), _Reply[_Answer](watch)
        self._questions[number] = reply
        try:
            with anyio.CancelScope(shield=True):
                await self._send_question(number, make, seconds, watch)
            return await reply.wait()
        finally:
            del self._questions[number]

    async def _send_question(self, number: int, make: Callable[[], PlannerQuestion], seconds: float, watch: Watch) -> None:
        """Sends the question. If `make` fails, sends only the changes, because they have been collected already, and raises its
        error."""
        try:
            with anyio.fail_after(_SEND_SECONDS):
                async with self._sending:
                    changes, rebuild = await self._collect(watch)
                    failed: Exception | None = None
                    body: PlannerQuestion | None = None
                    try:
                        body = make()
                    except Exception as error:
                        failed = error
                    question = Question(number=number, changes=changes, rebuild=rebuild, body=body, seconds=seconds)
                    await self._send(question, watch)
                    self._has_fed(rebuild=rebuild)
                    if failed is not None:
                        raise failed
        except TimeoutError:
            self.kill()
            raise

    async def _collect(self, watch: Watch, *, for_plan: bool = False) -> tuple[Changes, bool]:
        """Collects the changes to send next, and returns whether they are the whole cluster. Sets `fed` to False until they
        have been sent, because until then it is unknown what the replica has."""
        rebuild, self.fed = not self.fed, False
        if rebuild:
            self._feed.reset()
        changes = await self._feed.collect(watch, for_plan=for_plan)
        self._has_large_pods = any(pod is not None and pod.kind.n_rules > MOST_RULES for _, pod, _ in changes.pods)
        return changes, rebuild

    def _has_fed(self, *, rebuild: bool) -> None:
        self.fed = True
        if rebuild:
            # The feed keeps each pod of the cluster for as long as the process lives. Frozen, they are not scanned by each
            # garbage collection.
            gc.freeze()

    async def _send(self, message: Ask | AskScaleDown | Question, watch: Watch) -> None:
        """Sends a message. If that fails, kills the process: it may have got half a message, and could read no further one."""
        assert self.process.stdin is not None
        frames = self._encoder.frames(message)
        frame: bytes | None = b""
        try:
            while frame is not None:
                if self._has_large_pods:
                    frame = await in_thread(partial(next, frames, None))
                else:
                    with watch:
                        frame = next(frames, None)
                if frame is not None:
                    self._heard_at = self._clock()  # until the pipe is full, it is not the process that is slow
                    await self.process.stdin.send(framed(frame))
        except BaseException:
            self.kill()
            raise

    # --- answers ------------------------------------------------------------------------------------------------------------

    async def receive(self) -> None:
        """Reads answers and hands them to the callers that wait, until the process ends."""
        try:
            while True:
                (length,) = HEAD.unpack(await self._input.receive_exactly(HEAD.size))
                frame = await self._input.receive_exactly(length)
                self.longest_silence = max(self.longest_silence, self.silent_seconds())
                self._heard_at = self._clock()
                if frame[:1] == PLAN:
                    self._take_plan(frame[1:])
                elif frame[:1] != PROGRESS:
                    self._take_answer(frame[1:])
        except LOST:
            self.kill()  # the process has ended, or closed its output and cannot answer any more
        except Exception:  # the answer cannot be decoded; the next process gets the whole cluster
            _log.exception("answer of the planning process cannot be read")
            self.kill()

    def _take_plan(self, frame: bytes) -> None:
        assert self._plan is not None, "a plan that nobody asked for"
        with self._plan.watch:
            arrived = self._decoder.take(frame)
        if arrived is not None:
            assert arrived.value is None or isinstance(arrived.value, Plans | ScaleDownProposal | Failed), arrived
            self._plan.add(arrived.value)

    def _take_answer(self, frame: bytes) -> None:
        piece: AnswerPiece = pickle.loads(frame)
        number, kind, content = piece
        reply = self._questions.get(number)
        if reply is None:  # the caller that asked was cancelled
            return
        if kind is AnswerKind.ENDED:
            reply.parts.clear()
        reply.parts.append(content)
        if kind is not AnswerKind.MORE:
            reply.add((kind, b"".join(reply.parts)))
