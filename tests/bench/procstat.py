"""What the kernel counts of a process: CPU seconds and resident memory. Linux only."""

import os
import time
from pathlib import Path
from typing import Final

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
#: CPUCLOCK_SCHED in the kernel: what the scheduler counts, of the whole process.
_OF_PROCESS: Final = 2


def cpu_seconds(pid: int) -> float:
    """User and system time of all its threads, dead ones too; 10 ms resolution."""
    # The command, in parentheses, may hold spaces; what follows it may not. Fields as in proc_pid_stat(5).
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = fields[11], fields[12]
    return (int(user) + int(system)) / _TICKS_PER_SECOND


def cpu_seconds_finely(pid: int) -> float:
    """The same with a resolution of nanoseconds. OSError where there is no such process."""
    # The clock of another process, as clock_getcpuclockid(3) makes its number.
    return time.clock_gettime((~pid << 3) | _OF_PROCESS)


def resident_bytes(pid: int) -> int:
    """What of it is in memory now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES


def own_bytes(pid: int) -> int:
    """What of it and of its descendants is in memory; a page that several of them share counts once."""
    return sum(_proportional_bytes(each) for each in with_descendants(pid))


def _proportional_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/{pid}/smaps_rollup has no line Pss")


def with_descendants(pid: int) -> list[int]:
    """The process and those that it and they started, which live now."""
    found = [pid]
    for each in found:
        for task in Path(f"/proc/{each}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found
