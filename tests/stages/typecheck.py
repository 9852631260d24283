"""`python -m tests.stages.typecheck`: runs mypy. A fresh clone begins with what the last run without a finding has left.

mypy compares the contents of each file with its cache, so a cache of another clone is a good one, whatever has changed since.
The clone's own cache is a folder in it. A run without a finding packs it into one file of the project's cache folder; a clone
without a cache unpacks that. The file is replaced as a whole, so clones may run at the same time.
"""

import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.controlplane.cache import cache_root

OWN: Final = Path(__file__).parents[2] / ".mypy_cache"


def checked(command: Sequence[str], *, own: Path, shared: Path) -> int:
    """Runs the command, which reads and writes the cache `own`; its exit status."""
    if not own.exists() and shared.exists():
        with tarfile.open(shared) as packed:
            packed.extractall(own, filter="data")
    status = subprocess.run(command, check=False).returncode
    if status == 0:
        _pack(own, shared)
    return status


def _pack(own: Path, shared: Path) -> None:
    shared.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=shared.parent) as folder:
        fresh = Path(folder) / shared.name
        with tarfile.open(fresh, "w") as packed:
            packed.add(own, ".")
        fresh.replace(shared)


def main(arguments: Sequence[str]) -> int:
    command = [str(Path(sys.executable).with_name("mypy")), f"--cache-dir={OWN}", *arguments]
    return checked(command, own=OWN, shared=cache_root() / "mypy.tar")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
