"""Each test is recorded with its CPU, repeated tests are counted as one, and the report names skips and the slowest."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stages.flakes import table
from tests.stages.plan import Stage
from tests.stages.record import RECORDS, REPEAT, Record, read, without_repetition
from tests.stages.report import summary
from tests.stages.run import Result

ROOT = Path(__file__).parents[3]
TESTS = """
import itertools, pytest, time
end = time.process_time() + 0.2
while time.process_time() < end: pass
turns = itertools.count()
def test_passes(): pass
@pytest.mark.parametrize("what", ["a-b"])
def test_parametrized(what): pass
def test_skipped(): pytest.skip("no such thing here")
def test_sometimes(): assert next(turns) % 2
@pytest.fixture
def broken(): yield; raise ValueError
def test_ends_badly(broken): pass
def test_computes():
    import time
    end = time.process_time() + 0.2
    while time.process_time() < end: pass
def test_lets_a_child_compute():
    import subprocess, sys
    subprocess.run([sys.executable, "-c", "import time; list(iter(lambda: time.process_time() < 0.2, False))"], check=True)
def test_waits():
    import time
    time.sleep(0.2)
"""


def recorded(tmp_path: Path, *more: str, times: int = 0) -> dict[str, Record]:
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    environ = {**os.environ, "PYTHONPATH": str(ROOT), RECORDS: str(tmp_path / "records"), REPEAT: str(times)}
    lean = ["-p", "no:schemathesis", "-p", "no:anyio"]  # half of what it takes to begin
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(tmp_path), *lean, *more, str(tmp_path)]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return {record.test.partition("::")[2]: record for record in read(tmp_path / "records")}


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_each_test_is_recorded_once_with_its_worst_outcome(tmp_path: Path, workers: str) -> None:
    found = recorded(tmp_path, workers)
    assert {name: record.outcome for name, record in found.items()} == {
        "test_passes": "passed",
        "test_parametrized[a-b]": "passed",
        "test_skipped": "skipped",
        "test_sometimes": "failed",
        "test_ends_badly": "failed",
        "test_computes": "passed",
        "test_lets_a_child_compute": "passed",
        "test_waits": "passed",
    }
    assert found["test_skipped"].why == "Skipped: no such thing here"
    assert found["test_sometimes"].why == "assert (0 % 2) + where 0 = next(count(1))"
    assert found["test_ends_badly"].why == "ValueError"
    assert found["test_computes"].cpu >= 0.2
    assert found["test_lets_a_child_compute"].cpu >= 0.2
    assert found["test_passes"].cpu < 0.2, "no test is blamed for what collecting takes"
    assert found["test_waits"].cpu < 0.2 <= found["test_waits"].seconds


def test_a_repeated_test_is_counted_as_one(tmp_path: Path) -> None:
    found = recorded(tmp_path, "-n0", "-k", "sometimes or parametrized", times=4)
    assert len(found) == 8
    assert table(found.values()) == ["failed 2 of 4 times: test_it.py::test_sometimes", "2 tests, 8 runs, 2 failures"]


@pytest.mark.parametrize(
    ("test", "want"),
    [
        ("t.py::test_a", "t.py::test_a"),
        ("t.py::test_a[again3]", "t.py::test_a"),
        ("t.py::test_a[x-y-again12]", "t.py::test_a[x-y]"),
        ("t.py::test_a[again]", "t.py::test_a[again]"),
        ("t.py::test_a[x-again3-asyncio]", "t.py::test_a[x-asyncio]"),
    ],
)
def test_the_number_of_a_repetition_is_taken_off(test: str, want: str) -> None:
    assert without_repetition(test) == want


def test_the_report_names_the_slowest_tests_and_every_skip_once() -> None:
    many = [Record(test=f"t.py::test_{number}", seconds=float(number)) for number in range(30)]
    skipped = [Record(test=f"s.py::test_{number}", outcome="skipped", why="Skipped: no CPU") for number in range(2)]
    stage = Stage(name="a")
    lines = summary([Result(stage=stage, state="passed", cpu=3.0)], {"a": [*many, *skipped]}, seconds=1, cpu=1).splitlines()
    assert "a                passed        0 s      3 s CPU  30 passed, 2 skipped" in lines
    assert "  2 tests: s.py: no CPU" in lines
    slowest = lines[lines.index("the slowest 20 tests:") + 1 :][:20]
    assert [line.split()[-1] for line in slowest] == [f"t.py::test_{number}" for number in range(29, 9, -1)]
