"""`python -m slackwater.app.counterfactual`: the process in which the counterfactual cluster goes on.

Messages come in by standard input: first a `Start`, then observations. After each of these a line goes out by standard output:
a `Progress` as JSON. The process ends when its input ends, because the service has then closed the pipe or ended.
"""

import gc
import sys
import time
from typing import Final

import msgspec

from slackwater.app.counterfactual.counterfactual import Counterfactual
from slackwater.app.counterfactual.lines import written
from slackwater.app.counterfactual.log_file import LogFile
from slackwater.app.counterfactual.observation import Observation, Progress, Start
from slackwater.runtime.child_process import begin
from slackwater.runtime.planner.value_frames import Decoder, read_frame

_NICENESS: Final = 10


def main() -> None:
    """Plays observations until the input ends."""
    answers = begin(_NICENESS)
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
            log.append(written(both.head_of_file()))
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
