"""Manages the cache folder for builds and toolchains. At most one process at a time fills an entry.

An entry appears whole or not at all: it is made in another folder and then renamed. Entries never change, so reading needs no
lock. Nothing removes old entries; there is one for each version of the recipe, and people may delete the folder at any time.
"""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

#: Longer than any build: a process that holds an entry for so long is stuck.
LOCK_DEADLINE_SECONDS = 3600.0


def cache_root(environ: Mapping[str, str] = os.environ) -> Path:
    """The cache folder: $SLACKWATER_CACHE_DIR, else $XDG_CACHE_HOME/slackwater, else ~/.cache/slackwater."""
    if own := environ.get("SLACKWATER_CACHE_DIR"):
        return Path(own).absolute()
    shared = environ.get("XDG_CACHE_HOME")
    return (Path(shared).absolute() if shared else Path.home() / ".cache") / "slackwater"


def fill(entry: Path, make: Callable[[Path], None], *, waiting: Callable[[], None] = lambda: None) -> bool:
    """Makes the folder `entry` unless it exists: calls `make` with an empty folder, and renames that to `entry`. Returns
    whether this call made it.

    Calls `waiting` once if another process is making the entry. An error of `make` is raised after its unfinished folder was
    deleted. Raises TimeoutError if another process holds the entry for longer than an hour.
    """
    if entry.is_dir():
        return False
    entry.parent.mkdir(parents=True, exist_ok=True)
    with _locked(entry.with_name(entry.name + ".lock"), waiting):
        if entry.is_dir():
            return False
        # Unfinished folders of killed processes. No process is making this entry now, because this one holds the lock.
        for left_over in entry.parent.glob(f"{entry.name}.tmp-*"):
            shutil.rmtree(left_over, ignore_errors=True)
        fresh = Path(tempfile.mkdtemp(dir=entry.parent, prefix=f"{entry.name}.tmp-"))
        try:
            make(fresh)
            fresh.chmod(0o755)
            fresh.rename(entry)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
    return True


@contextmanager
def _locked(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    # The lock file is never removed. Otherwise a waiting process could lock the removed file, and another one a new file.
    with path.open("ab") as file:
        deadline = time.monotonic() + LOCK_DEADLINE_SECONDS
        held = _try_lock(file.fileno())
        if not held:
            waiting()
        while not held and not _try_lock(file.fileno()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path} is held by another process for {LOCK_DEADLINE_SECONDS:.0f} s")
            time.sleep(0.1)
        yield


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
