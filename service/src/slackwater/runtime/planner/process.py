"""Runs the planning process for the service: starts it, sends it changes and inquiries, and restarts it when it ends.

    planning = ProcessPlanning(clock=..., timeout_seconds=...)
    tasks.start_soon(planning.run)             # keeps a process alive until cancelled
    plans = await planning.plan(inquiry, watch)

Inquiries and answers are encoded and decoded in pieces of bounded size, and the event loop is free between two pieces. The end
of the process is noticed at once, and the next process gets the whole cluster. A plan that the end interrupts is requested once
more. Deliberately absent: how plans are made.
"""

import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import anyio
import anyio.lowlevel
import structlog
from anyio import get_cancelled_exc_class
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from slackwater.model.backoff import ExponentialBackoff
from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.ids import Instant, NodeName, PodUid
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.model.storage import Storage
from slackwater.runtime.autoscaler.clocks import Watch
from slackwater.runtime.autoscaler.planning import Inquiry, PlannerObservation, Plans
from slackwater.runtime.autoscaler.scaledown_planning import ScaleDownProposal
from slackwater.runtime.planner.frames import Decoder, Encoder
from slackwater.runtime.planner.pipes import HEAD, framed
from slackwater.runtime.planner.session import SPINE, Ask, AskShrink, Failed

#: Entries processed before other tasks get a turn: about a millisecond of work.
_SLICE: Final = 2_000


class KnownObjects:
    """What the planning process has been sent of the cluster, to feed a new process and to decode pods sent back by UID."""

    def __init__(self) -> None:
        #: In the order of their last changes, as in the replica.
        self.pods: dict[PodUid, Pod] = {}
        self._nodes: dict[NodeName, Node] = {}
        self._budgets: tuple[DisruptionBudget, ...] | None = None
        self._namespaces: Mapping[str, Mapping[str, str]] | None = None
        self._storage: Storage | None = None

    async def note(self, changes: Changes, watch: Watch) -> None:
        """Takes in the changes that are sent next."""
        for name, node in changes.nodes:
            if node is None:
                self._nodes.pop(name, None)
            else:
                self._nodes[name] = node
        for start in range(0, len(changes.pods), _SLICE):
            with watch:
                for uid, pod in changes.pods[start : start + _SLICE]:
                    self.pods.pop(uid, None)
                    if pod is not None:
                        self.pods[uid] = pod
            await anyio.lowlevel.checkpoint()
        self._budgets = self._budgets if changes.budgets is None else changes.budgets
        self._namespaces = self._namespaces if changes.namespaces is None else changes.namespaces
        self._storage = self._storage if changes.storage is None else changes.storage

    async def everything(self, last: Changes, watch: Watch) -> Changes:
        """Everything that was sent, `last` included, as changes for a process that has received nothing."""
        pods: list[PodChange] = []
        uids = list(self.pods)
        for start in range(0, len(uids), _SLICE):
            with watch:
                pods.extend(PodChange(uid, self.pods[uid]) for uid in uids[start : start + _SLICE])
            await anyio.lowlevel.checkpoint()
        return Changes(
            generation=last.generation,
            nodes=[NodeChange(name, node) for name, node in self._nodes.items()],
            pods=pods,
            promised=last.promised,
            budgets=self._budgets,
            namespaces=self._namespaces,
            storage=self._storage,
        )


_log = structlog.get_logger(__name__)

#: `-P`: Python imports nothing from the service's working directory.
COMMAND: Final = (sys.executable, "-P", "-m", "slackwater.runtime.planner")
#: A process that ends soon after its start is started again after a pause, which doubles.
_BACKOFF: Final = ExponentialBackoff(first_seconds=1.0, longest_seconds=60.0)
_LONG_LIFE: Final = 60.0
#: How long a plan waits for a process to start.
_START_SECONDS: Final = 90.0
#: The errors of pipe operations if the process has ended.
_LOST: Final = (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError)
#: Attempts at one plan: another one if the process ended during the first.
_ATTEMPTS: Final = 2


class PlannerLostError(Exception):
    """No planning process is running, or it ended before it answered."""


class PlanFailedError(Exception):
    """Planning raised an error in the planning process; the message is its traceback."""


@dataclass(slots=True, eq=False)
class _Life:
    """One planning process, from start to end. `fed`: it has the cluster, so that it needs only changes."""

    process: Process
    began: Instant
    decoder: Decoder
    encoder: Encoder = field(default_factory=lambda: Encoder(SPINE))
    fed: bool = False
    answers: BufferedByteReceiveStream = field(init=False)

    def __post_init__(self) -> None:
        assert self.process.stdout is not None
        self.answers = BufferedByteReceiveStream(self.process.stdout)

    async def say(self, frame: bytes) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send(framed(frame))

    async def hear(self) -> bytes:
        (length,) = HEAD.unpack(await self.answers.receive_exactly(HEAD.size))
        return await self.answers.receive_exactly(length)

    def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()


class ProcessPlanning:
    """Implements `runtime.autoscaler.planning.Planning` with a process. A plan that takes longer than `timeout_seconds` fails,
    and its process is killed."""

    def __init__(self, *, clock: Callable[[], Instant], timeout_seconds: float, command: Sequence[str] = COMMAND) -> None:
        self._clock = clock
        self._timeout = timeout_seconds
        self._command = tuple(command)
        self._told = KnownObjects()
        self._life: _Life | None = None
        self._changed = anyio.Event()
        #: The process that made the last scale-up plan; only this one can plan the scale-down.
        self._planned: _Life | None = None
        #: Notes for the status that no plan has carried yet.
        self._news: list[str] = []
        #: The number of processes that ended unexpectedly.
        self._restarts = 0

    @property
    def pid(self) -> int | None:
        """The process ID of the running planning process; None if there is none."""
        return None if self._life is None else self._life.process.pid

    def observation(self) -> PlannerObservation:
        """The number of restarts, and the memory of the process; 0 if no process runs or its memory is unknown."""
        pid = self.pid
        return PlannerObservation(restarts=self._restarts, resident_bytes=0 if pid is None else resident_bytes(pid))

    # --- the process ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keeps a planning process running until cancelled."""
        short_lives = 0
        while True:
            seconds = await self._one_life()
            short_lives = 0 if seconds >= _LONG_LIFE else short_lives + 1
            await anyio.sleep(_BACKOFF.seconds(short_lives))

    async def _one_life(self) -> float:
        """Runs one process from start to end; returns the seconds it lived."""
        began = self._clock()
        async with await anyio.open_process(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None, start_new_session=True
        ) as process:
            self._now(_Life(process, began, Decoder(pod_of=lambda uid: self._told.pods[uid])))
            _log.info("planning process runs", pid=process.pid)
            try:
                await process.wait()
            finally:
                self._now(None)
        seconds = self._clock() - began
        self._restarts += 1
        how = _how(process.returncode)
        self._news.append(f"the planning process {how} after {seconds:.0f} s; a new one gets the whole cluster")
        _log.error("planning process ended", pid=process.pid, how=how, seconds=round(seconds, 1), restarts=self._restarts)
        return seconds

    def _now(self, life: _Life | None) -> None:
        self._life = life
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def _another_than(self, old: _Life | None) -> _Life:
        with anyio.move_on_after(_START_SECONDS):
            while self._life is None or self._life is old:
                await self._changed.wait()
            return self._life
        raise PlannerLostError(f"no planning process for {_START_SECONDS:.0f} s: it has ended {self._restarts} times")

    # --- questions --------------------------------------------------------------------------------------------------------

    async def plan(self, inquiry: Inquiry, watch: Watch) -> Plans:
        """Sends the inquiry and returns the plans.

        :raises PlannerLostError: no process ran, or two ended while planning.
        :raises PlanFailedError: planning raised an error.
        :raises TimeoutError: planning took longer than `timeout_seconds`.
        """
        await self._told.note(inquiry.changes, watch)
        life: _Life | None = None
        for attempt in range(1, _ATTEMPTS + 1):
            life = await self._another_than(life)
            try:
                plans = await self._asked(life, inquiry, watch)
            except _LOST as error:
                if attempt == _ATTEMPTS:
                    raise PlannerLostError(f"the planning process ended {attempt} times while it made one plan") from error
            else:
                assert isinstance(plans, Plans), plans
                self._planned = life
                news, self._news = self._news, []
                return replace(plans, notes=(*news, *plans.notes))
        raise AssertionError("unreachable")

    async def scale_down(self, watch: Watch) -> ScaleDownProposal | None:
        """The scale-down plan for the last inquiry; None if the process that planned its scale-up has ended, because a new one
        does not know that plan. Raises `PlanFailedError` and TimeoutError like `plan`."""
        life = self._planned
        if life is None or life is not self._life:
            return None
        try:
            plan = await self._asked(life, None, watch)
        except _LOST:
            return None
        assert plan is None or isinstance(plan, ScaleDownProposal), plan
        return plan

    def forget(self) -> None:
        self._told = KnownObjects()
        if self._life is not None:
            self._life.fed = False

    async def _asked(self, life: _Life, inquiry: Inquiry | None, watch: Watch) -> Plans | ScaleDownProposal | None:
        """Requests scale-up and slack plans, or without an inquiry the scale-down plan. On a timeout or cancellation the
        process is killed, because its state is then unknown."""
        try:
            with anyio.fail_after(self._timeout):
                question = AskShrink() if inquiry is None else await self._question(life, inquiry, watch)
                answer = await self._answer(life, question, watch)
        except (TimeoutError, get_cancelled_exc_class()):
            life.kill()
            raise
        if isinstance(answer, Failed):
            raise PlanFailedError(answer.traceback)
        return answer

    async def _question(self, life: _Life, inquiry: Inquiry, watch: Watch) -> Ask:
        """The question; it holds the whole cluster if the process has received nothing yet."""
        anew = not life.fed
        if anew:
            inquiry = replace(inquiry, changes=await self._told.everything(inquiry.changes, watch))
        return Ask(inquiry=inquiry, anew=anew)

    async def _answer(self, life: _Life, question: Ask | AskShrink, watch: Watch) -> Plans | ScaleDownProposal | Failed | None:
        frames = life.encoder.frames(question)
        frame: bytes | None = b""
        while frame is not None:
            with watch:
                frame = next(frames, None)
            if frame is not None:
                await life.say(frame)
        life.fed = life.fed or isinstance(question, Ask)
        while True:
            frame = await life.hear()
            with watch:
                arrived = life.decoder.take(frame)
            if arrived is not None:
                assert arrived.value is None or isinstance(arrived.value, Plans | ScaleDownProposal | Failed), arrived
                return arrived.value


def resident_bytes(pid: int) -> int:
    """The resident memory of the process in bytes; 0 if unknown."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:  # not Linux, or it has just ended
        return 0
    found = (line.split()[1] for line in text.splitlines() if line.startswith("VmRSS:"))
    return 1024 * int(next(found, "0"))


def _how(code: int | None) -> str:
    if code is None:
        return "vanished"
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
