"""Answers questions by children of the planning process: a fork of the process answers each question. A consolidation plan is
made in the same way, by children of its own.

Child and parent share the memory of the replica, except pages that one of them writes to. So a question does not wait for a
plan, a plan does not wait for a question, and a child that takes too long is killed without losing the replica. The child ends
with its answer, at its deadline, or when its parent ends. It may take `MOST_MEMORY` beside what it shares.
"""

import gc
import os
import pickle
import resource
import signal
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from slackwater.ports.protocols import WhatIfRefused
from slackwater.runtime.planner.messages import ANSWER, AnswerKind, AnswerPiece, PlannerQuestion
from slackwater.runtime.planner.value_frames import framed
from slackwater.snapshot.snapshot_replica import SnapshotReplica

#: The most bytes of an answer in one frame: the service copies them in well under a millisecond.
_PIECE: Final = 256 * 1024
#: A child may take so many bytes beside what it shares with its parent.
MOST_MEMORY: Final = 1 << 30
#: The largest answer in bytes. The service has it in memory twice before it is sent.
LARGEST_ANSWER: Final = 1 << 28
_KIND_BYTES: Final = 1


class Output:
    """Writes plans and answers to the service. Several threads do so, therefore a lock keeps each frame in one piece."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()

    def write(self, channel: bytes, frame: bytes = b"") -> None:
        with self._lock:
            self._pipe.write(framed(channel + frame))
            self._pipe.flush()

    def answer(self, piece: AnswerPiece) -> None:
        self.write(ANSWER, pickle.dumps(piece))

    def close_in_child(self) -> None:
        """Closes the child's copy of the pipe: while it is open, the service would not notice the end of the parent."""
        os.close(self._pipe.fileno())


_INPUT: Final = 0


@dataclass(frozen=True, slots=True)
class _Child:
    pid: int
    #: The parent's end of a pipe on which nothing is written. When the parent ends it closes, and the child notices that.
    life: int


class Children:
    """Starts a child for each question. Only one runs at a time: a new question kills the child of the one before, because the
    service asks again only after it has an answer or no longer waits for one. `niceness`: how much lower the CPU priority of a
    child is than that of its parent."""

    def __init__(self, output: Output, *, niceness: int = 0) -> None:
        self._output = output
        self._niceness = niceness
        self._now: _Child | None = None
        self._lock = threading.Lock()

    def begin(self, number: int, seconds: float) -> "Callable[[PlannerQuestion, SnapshotReplica], None] | None":
        """Forks a child for question `number`, which is killed after `seconds`.

        Returns None in the parent; a thread passes on the child's answer to the output. Returns in the child the function that
        answers a question and ends the child.
        """
        with self._lock:
            if self._now is not None:
                os.kill(self._now.pid, signal.SIGKILL)
        from_child, to_parent = os.pipe()
        life_of_parent, life = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:  # no memory, or too many processes
            for each in (from_child, to_parent, life_of_parent, life):
                os.close(each)
            self._output.answer((number, AnswerKind.ENDED, f"could not be started: {error}".encode()))
            return None
        if pid == 0:
            # From here on the child uses no lock that another thread of the parent may have held at the fork.
            for ours in (from_child, life, _INPUT):
                os.close(ours)
            self._output.close_in_child()
            os.nice(self._niceness)
            _end_in_time(seconds, life_of_parent)
            limit_memory(MOST_MEMORY)
            return partial(_answer_and_end, to_parent)
        for theirs in (to_parent, life_of_parent):
            os.close(theirs)
        child = self._now = _Child(pid, life)
        threading.Thread(target=self._relay, args=(number, child, from_child), name="answer", daemon=True).start()
        return None

    def _relay(self, number: int, child: _Child, from_child: int) -> None:
        """Passes the child's answer on to the output, piece by piece. When the child has ended, reports how."""
        with open(from_child, "rb", buffering=_PIECE) as pipe:
            first = pipe.read(_KIND_BYTES)
            while content := pipe.read(_PIECE):
                self._output.answer((number, AnswerKind.MORE, content))
        with self._lock:
            _, status = os.waitpid(child.pid, 0)
            os.close(child.life)
            if self._now is child:
                self._now = None
        code = os.waitstatus_to_exitcode(status)
        if code == 0 and first:
            self._output.answer((number, AnswerKind(first[0]), b""))
        else:
            self._output.answer((number, AnswerKind.ENDED, how_ended(code).encode()))


def how_ended(code: int) -> str:
    """How a process ended, by its exit status, as the rest of a sentence."""
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"


# --- in the child -----------------------------------------------------------------------------------------------------------


def _end_in_time(seconds: float, life_of_parent: int) -> None:
    """Makes the child end after `seconds`, by SIGALRM, and when its parent ends."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    threading.Thread(target=_end_with_parent, args=(life_of_parent,), name="parent", daemon=True).start()
    # Excludes all objects from garbage collection, which would write to the memory pages shared with the parent.
    gc.freeze()


def limit_memory(more: int) -> None:
    """Lets the process take `more` bytes beside those that it has; what it asks for beyond raises MemoryError."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:  # not Linux
        return
    limit = pages * resource.getpagesize() + more
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _end_with_parent(life_of_parent: int) -> None:
    os.read(life_of_parent, 1)
    os._exit(1)


def _answer_and_end(to_parent: int, question: PlannerQuestion, replica: SnapshotReplica) -> None:
    kind, content = answer_of(question, replica)
    with open(to_parent, "wb") as pipe:
        pipe.write(bytes([kind]))
        pipe.write(content)
    os._exit(0)


def answer_of(question: PlannerQuestion, replica: SnapshotReplica, largest: int = LARGEST_ANSWER) -> tuple[AnswerKind, bytes]:
    """Answers the question on the replica; never raises. Returns the kind of the answer and its content: the answer itself (at
    most `largest` bytes), why it is refused, or the traceback of an error."""
    try:
        found = question.answer(replica)
        if len(found) > largest:
            raise WhatIfRefused(f"the answer has {len(found)} bytes, want {largest} at most: ask about fewer objects")
        return AnswerKind.ANSWERED, found
    except MemoryError:
        return AnswerKind.REFUSED, f"the answer takes more than {MOST_MEMORY >> 20} MiB of memory: ask less".encode()
    except WhatIfRefused as refused:
        return AnswerKind.REFUSED, str(refused).encode()
    except Exception:  # the service must learn of any error
        return AnswerKind.FAILED, traceback.format_exc().encode()
