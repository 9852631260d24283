"""`python -m slackwater.runtime.planner`: the entry point of the planning process.

Messages come in by standard input, answers go out by standard output. The process ends as soon as its input ends, even while
it plans, because the service has then closed the pipe or ended. The service has precedence: the planning process has a lower
CPU priority, and the kernel kills it first if memory runs out. It ignores interrupts from a terminal; the service handles them.
"""

import contextlib
import gc
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from queue import Empty, Queue
from typing import BinaryIO, Final

from slackwater.runtime.planner.children import Children, Output
from slackwater.runtime.planner.messages import PLAN, PROGRESS
from slackwater.runtime.planner.session import Session
from slackwater.runtime.planner.value_frames import read_frame

#: The most frames that are read ahead. The service cannot send more until some are decoded.
_MOST_WAITING: Final = 64
_NICENESS: Final = 5
#: That of a child that plans a consolidation, beside it: the plans that pods wait for have precedence.
_CONSOLIDATION_NICENESS: Final = 10
#: The maximum of the range -1000 to 1000. A process needs no privileges to raise its own value.
_FIRST_TO_BE_KILLED: Final = "1000"


def main() -> None:
    """Serves messages until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    with contextlib.suppress(OSError):  # not Linux, or a sandbox that hides it
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_BE_KILLED, encoding="ascii")
    gc.set_threshold(50_000, 20, 20)
    # What the program prints goes to standard error from now on, so that it does not end up among the answers.
    output = Output(os.fdopen(os.dup(sys.stdout.fileno()), "wb"))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    arrivals: Queue[bytes] = Queue(_MOST_WAITING)
    threading.Thread(target=_read, args=(sys.stdin.buffer, arrivals), name="reader", daemon=True).start()
    session = Session(
        next_frame=lambda: _arrived(arrivals),
        plan_done=partial(output.write, PLAN),
        begin_answer=Children(output).begin,
        begin_consolidation=Children(output, niceness=_CONSOLIDATION_NICENESS).begin,
        progress=partial(output.write, PROGRESS),
    )
    while True:
        session.take(arrivals.get())


def _arrived(arrivals: "Queue[bytes]") -> bytes | None:
    try:
        return arrivals.get_nowait()
    except Empty:
        return None


def _read(messages: BinaryIO, arrivals: "Queue[bytes]") -> None:
    while (frame := read_frame(messages)) is not None:
        arrivals.put(frame)
    # `sys.exit` would end only this thread. Nobody needs the plan that the main thread may be making.
    os._exit(0)


if __name__ == "__main__":
    main()
