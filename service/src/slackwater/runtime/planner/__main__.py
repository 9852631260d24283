"""`python -m slackwater.runtime.planner`: the entry point of the planning process.

Messages come in by standard input, answers go out by standard output. The process ends as soon as its input ends, even while
it plans, because the service has then closed the pipe or ended.
"""

import os
import sys
import threading
from functools import partial
from queue import Empty, Queue
from typing import BinaryIO, Final

from slackwater.runtime.child_process import begin
from slackwater.runtime.planner.children import Children, Output
from slackwater.runtime.planner.messages import PLAN, PROGRESS
from slackwater.runtime.planner.session import Session
from slackwater.runtime.planner.value_frames import read_frame

#: The most frames that are read ahead. The service cannot send more until some are decoded.
_MOST_WAITING: Final = 64
_NICENESS: Final = 5
#: That of a child that plans a consolidation, beside it: the plans that pods wait for have precedence.
_CONSOLIDATION_NICENESS: Final = 10


def main() -> None:
    """Serves messages until the input ends."""
    output = Output(begin(_NICENESS))
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
