"""What the kernel counts of a process: CPU seconds and resident memory. Linux only."""

import os
from pathlib import Path
from typing import Final

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """User and system time of all its threads, dead ones too; 10 ms resolution."""
    # The command, in parentheses, may hold spaces; what follows it may not. Fields as in proc_pid_stat(5).
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = fields[11], fields[12]
    return (int(user) + int(system)) / _TICKS_PER_SECOND


def resident_bytes(pid: int) -> int:
    """What of it is in memory now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
