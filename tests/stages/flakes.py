"""`python -m tests.stages.flakes N [pytest arguments]`: which tests fail how often in N runs.

With arguments, the chosen tests run N times each in one pytest session. Without, all stages of `make test` run N times, save
the benchmarks. Exit status: 0, 1 where a test or a stage failed.
"""

import os
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tests.stages.plan import BENCHES, TEST, Plan
from tests.stages.record import RECORDS, REPEAT, Record, read, without_repetition
from tests.stages.run import Run

FOLDER: Final = Path(__file__).parents[1] / "output" / "flakes"


def table(records: Iterable[Record]) -> list[str]:
    """A line for each test that failed, the one that failed most often first; and how many ran how often."""
    runs: Counter[str] = Counter()
    failed: dict[str, int] = defaultdict(int)
    for record in records:
        test = without_repetition(record.test)
        runs[test] += 1
        failed[test] += record.outcome == "failed"
    worst = sorted((test for test in runs if failed[test]), key=lambda test: (-failed[test], test))
    lines = [f"failed {failed[test]} of {runs[test]} times: {test}" for test in worst]
    return [*lines, f"{len(runs)} tests, {sum(runs.values())} runs, {sum(failed.values())} failures"]


def some(times: int, arguments: Sequence[str]) -> tuple[list[Record], list[str]]:
    """Each of the chosen tests so many times; their records, and what failed beside tests."""
    environ = {**os.environ, REPEAT: str(times), RECORDS: str(FOLDER)}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", *arguments], env=environ, check=False)
    records = read(FOLDER)
    # 1: some tests failed, which the records say.
    return records, [] if done.returncode in {0, 1} and records else [f"pytest exited with {done.returncode}"]


def everything(times: int) -> tuple[list[Record], list[str]]:
    """All stages so many times; the tests' records, and the stages that failed."""
    computing = (tuple(stage for stage in lane if stage.name != BENCHES) for lane in TEST.computing)
    plan = Plan(waiting=TEST.waiting, computing=tuple(computing))
    records: list[Record] = []
    failed: list[str] = []
    for number in range(1, times + 1):
        run = Run(plan, folder=FOLDER / str(number), tell=partial(print, f"run {number}:", flush=True))
        for one in run.run():
            if one.state in {"failed", "not run"}:
                failed += [f"run {number}: {one.stage.name} {one.state}", *(f"  {line}" for line in one.causes)]
        records += [record for stage in plan.stages for record in read(run.records(stage))]
    return records, failed


def main(arguments: Sequence[str]) -> int:
    shutil.rmtree(FOLDER, ignore_errors=True)
    times, *chosen = arguments
    records, failed = some(int(times), chosen) if chosen else everything(int(times))
    print("\n".join((*table(records), *failed)))
    return 1 if failed or any(record.outcome == "failed" for record in records) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
