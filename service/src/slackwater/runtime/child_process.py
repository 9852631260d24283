"""What the processes that the service starts for itself have in common at their beginning.

The service has precedence over them: they have a lower CPU priority, and the kernel kills them first if memory runs out. They
ignore interrupts from a terminal, which the service handles.
"""

import contextlib
import gc
import os
import signal
import sys
from pathlib import Path
from typing import BinaryIO, Final

#: The maximum of the range -1000 to 1000. A process needs no privileges to raise its own value.
_FIRST_TO_BE_KILLED: Final = "1000"


def begin(niceness: int) -> BinaryIO:
    """Prepares this process, and returns the pipe for its answers. What the program prints goes to standard error from now on,
    so that it does not end up among the answers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(niceness)
    with contextlib.suppress(OSError):  # not Linux, or a sandbox that hides it
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_BE_KILLED, encoding="ascii")
    gc.set_threshold(50_000, 20, 20)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers
