"""Executes another program, which the kernel kills when the process that started it ends, for whatever reason.

Run as a script: `parent_death.py PARENT_PID PROGRAM ARGUMENT...`. Imports nothing of this project. This is a script and not a
function that runs between fork and exec, because a process with threads must not run Python there. On Linux the kernel sends
the signal when the starting *thread* ends, so start the script from a thread that lives long enough. On other systems the
script only executes the program.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Makes the kernel kill this process when its parent `parent` ends. Raises SystemExit if the parent has ended already."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
        # The parent may have ended before the line above.
        if os.getppid() != parent:
            sys.exit(f"process {parent}, which started this, is gone")


def main() -> None:
    """Becomes the program that the arguments name. Never returns."""
    die_with(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
