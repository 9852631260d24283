"""`python -m slackwater.runtime.planner`: the planning process.

Questions come by standard input, answers go by standard output.

It ends when its input ends, whatever it is doing: the service has closed it, or is no more. It gives way to the service:
where processors are short it runs later, where memory is short it is killed first. Interrupts from a terminal are the
service's business.
"""

import contextlib
import gc
import os
import signal
import sys
import threading
from pathlib import Path
from queue import Queue
from typing import BinaryIO, Final

from slackwater.runtime.planner.pipes import read_frame, write_frame
from slackwater.runtime.planner.session import Session

#: Parcels that have been read and not been looked at; then the service waits.
_MOST_WAITING: Final = 64
_NICENESS: Final = 5
#: The worst of -1000 to 1000: whoever raises it for himself needs no rights.
_FIRST_TO_BE_KILLED: Final = "1000"


def main() -> None:
    """Until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _give_way()
    gc.set_threshold(50_000, 20, 20)
    # Whatever prints by mistake must not end up among the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    arrivals: Queue[bytes] = Queue(_MOST_WAITING)
    threading.Thread(target=_read, args=(sys.stdin.buffer, arrivals), name="reader", daemon=True).start()
    session = Session()
    while True:
        for frame in session.take(arrivals.get()):
            write_frame(answers, frame)
        answers.flush()


def _read(questions: BinaryIO, arrivals: "Queue[bytes]") -> None:
    while (frame := read_frame(questions)) is not None:
        arrivals.put(frame)
    # Not `sys.exit`: the plan that is being made is nobody's any more.
    os._exit(0)


def _give_way() -> None:
    os.nice(_NICENESS)
    with contextlib.suppress(OSError):  # not Linux, or a sandbox that hides it
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_BE_KILLED, encoding="ascii")


if __name__ == "__main__":
    main()
