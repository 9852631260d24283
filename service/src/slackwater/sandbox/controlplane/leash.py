"""Turns into another program that dies with the process that started it, however that one ends.

Run as a script, `leash.py PARENT_PID PROGRAM ARGUMENT...`, with nothing of this project imported: a script instead of
a function between fork and exec, where a process with threads may not run Python. On Linux the kernel sends the
signal when the starting *thread* ends, so start it from a thread that lives as long as the program should.
Elsewhere it only starts the program.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Has the kernel kill this process when `parent`, which started it, ends. SystemExit if `parent` has ended already."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
        # It may have died before the line above.
        if os.getppid() != parent:
            sys.exit(f"process {parent}, which started this, is gone")


def main() -> None:
    """Never returns."""
    die_with(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
