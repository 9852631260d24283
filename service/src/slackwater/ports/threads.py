"""Runs long pieces of work in worker threads, so that the event loop gets its turn meanwhile."""

import ctypes
import sys
from collections.abc import Callable
from typing import Final, TypeVar

import anyio.to_thread

T = TypeVar("T")

#: Python's thread switch interval once there was such work, instead of 5 ms: the event loop waits so long for its turn.
_SWITCH_SECONDS: Final = 1e-4


#: M_MMAP_THRESHOLD of the C library, and its value here in bytes.
_MMAP_THRESHOLD: Final = -3
_LARGE_BYTES: Final = 2**20


def keep_large_values_apart() -> None:
    """Gives values of 1 MiB and more memory of their own, where the C library can, which goes back with them. By default that
    limit grows to 32 MiB with the values that are freed; then what is left of them is shared by smaller ones, which stay.
    Columns for 100,000 nodes are smaller, so they are not mapped anew each time."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_MMAP_THRESHOLD, _LARGE_BYTES)


def return_memory() -> None:
    """Returns memory that was freed to the system, where the C library can: large objects leave much of it behind."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


async def in_thread(work: Callable[[], T]) -> T:
    """Runs `work` in a worker thread. The event loop may use what it uses, unless `work` and the loop change the same thing."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    return await anyio.to_thread.run_sync(work)
