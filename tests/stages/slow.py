"""Which tests take long: `make check` leaves them to `make test`.

`tests/slow.txt` lists them, one a line, without parameters. `python -m tests.stages.slow` measures all quick tests and
writes it again. Both play a test that is not listed.
"""

import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from tests.stages.record import RECORDS, Record, read

OPTION: Final = "--without-slow"
LIST: Final = Path(__file__).parents[1] / "slow.txt"
#: A test that takes longer, its set-up included, is slow.
SECONDS: Final = 0.25


def add_option(parser: pytest.Parser) -> None:
    """Adds the option that leaves slow tests out."""
    parser.addoption(OPTION, action="store_true", help="leaves out the tests that tests/slow.txt lists")


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects the slow tests where that was asked for."""
    if not config.getoption(OPTION):
        return
    slow = frozenset(LIST.read_text().split("\n"))
    left_out = [item for item in items if _function(item.nodeid) in slow]
    items[:] = [item for item in items if _function(item.nodeid) not in slow]
    config.hook.pytest_deselected(items=left_out)


def slow_ones(records: Iterable[Record]) -> list[str]:
    """The slow tests among the records, sorted. One slow case makes the whole test slow."""
    longest: dict[str, float] = defaultdict(float)
    for record in records:
        longest[_function(record.test)] = max(longest[_function(record.test)], record.seconds)
    return sorted(test for test, seconds in longest.items() if seconds > SECONDS)


def _function(test: str) -> str:
    return test.partition("[")[0]


def main() -> int:
    """Runs all quick tests and writes the list. Exit status: that of the tests."""
    with tempfile.TemporaryDirectory() as folder:
        status = subprocess.run(["make", "unit", "SLOW=1"], env={**os.environ, RECORDS: folder}, check=False).returncode
        if status == 0:
            LIST.write_text("".join(f"{test}\n" for test in slow_ones(read(Path(folder)))))
    return status


if __name__ == "__main__":
    sys.exit(main())
