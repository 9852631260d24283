"""`python -m tests.mutants [NAME-PART]`: puts each mutant into a copy of the service, and checks that its test fails.

Prints a line a mutant with the test that noticed it. Exits with 1 if a test passes in spite of its mutant, or fails without it.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.mutants.listed import MUTANTS, SOURCES, Mutant

#: pytest's exit codes: all passed, some failed.
_PASSED: Final = 0
_FAILED: Final = 1
#: Runs pytest on the package in the folder of its first argument, whatever is installed.
_PYTEST: Final = """
import sys
sys.path.insert(0, sys.argv[1])
import pytest, slackwater
assert slackwater.__file__.startswith(sys.argv[1]), slackwater.__file__
sys.exit(pytest.main(["-q", "-x", "-n", "0", "-p", "no:cacheprovider", *sys.argv[2:]]))
"""


def _run(tests: Sequence[str], sources: Path) -> int:
    command = [sys.executable, "-c", _PYTEST, str(sources), *tests]
    environ = {**os.environ, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, env=environ, check=False, capture_output=True).returncode


def noticed(mutant: Mutant, folder: Path) -> bool:
    """Whether the mutant's test fails in a copy of the service, below `folder`, that has the mutant."""
    sources = folder / "src"
    shutil.copytree(SOURCES, sources, ignore=shutil.ignore_patterns("__pycache__"))
    (sources / mutant.path.relative_to(SOURCES)).write_text(mutant.mutated(), encoding="utf-8")
    return _run([mutant.test], sources) == _FAILED


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("part", nargs="?", default="", help="mutants whose name has this text")
    part = parser.parse_args(arguments).part
    chosen = [mutant for mutant in MUTANTS if part in mutant.name]
    if not chosen:
        parser.error(f"no mutant has {part!r} in its name")
    if _run(sorted({mutant.test for mutant in chosen}), SOURCES) != _PASSED:
        print("a test fails without any mutant", file=sys.stderr)
        return 1
    survivors = 0
    for mutant in chosen:
        with tempfile.TemporaryDirectory() as folder:
            caught = noticed(mutant, Path(folder))
        survivors += not caught
        print(f"{'caught' if caught else 'SURVIVED'}  {mutant.name}\n          {mutant.test}", flush=True)
    print(f"mutants={len(chosen)} survivors={survivors}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
