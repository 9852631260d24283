"""`python -m slackwater.app.counterfactual`: the process in which the counterfactual cluster goes on.

Messages come in by standard input: first a `Start`, then observations. After each of these a line goes out by standard output:
a `Progress` as JSON. The process ends as soon as its input ends, because the service has then closed the pipe or ended. The
service has precedence: this process has the lowest CPU priority, and the kernel kills it first if memory runs out.
"""

import contextlib
import gc
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from slackwater.app.counterfactual.counterfactual import Counterfactual
from slackwater.app.counterfactual.lines import written
from slackwater.app.counterfactual.log_file import LogFile
from slackwater.app.counterfactual.observation import Observation, Progress, Start
from slackwater.runtime.planner.value_frames import Decoder, read_frame

_NICENESS: Final = 10
#: The maximum of the range -1000 to 1000. A process needs no privileges to raise its own value.
_FIRST_TO_BE_KILLED: Final = "1000"


def main() -> None:
    """Plays observations until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    with contextlib.suppress(OSError):  # not Linux, or a sandbox that hides it
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_BE_KILLED, encoding="ascii")
    gc.set_threshold(50_000, 20, 20)
    # What the program prints goes to standard error from now on, so that it does not end up among the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    decoder, both, log = Decoder(), None, None
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        arrived = decoder.take(frame)
        if arrived is None:
            continue
        if isinstance(arrived.value, Start):
            start = arrived.value
            both, log = Counterfactual(start.settings, start.version, start.sides), LogFile(start.path, start.max_bytes)
            continue
        seen, began = arrived.value, time.process_time()
        assert isinstance(seen, Observation), seen
        assert both is not None, "the first message is a Start"
        assert log is not None
        lines = both.take(seen)
        if log.append(written(lines)):
            log.append(written(both.begun_anew()))
        if seen.rebuild:
            gc.collect()
            gc.freeze()
        progress = Progress(at=seen.at, lines=len(lines), cpu_seconds=time.process_time() - began, sides=both.newest)
        answers.write(msgspec.json.encode(progress) + b"\n")
        answers.flush()
    if both is not None and log is not None:
        log.append(written(both.ended()))


if __name__ == "__main__":
    main()
