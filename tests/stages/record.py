"""Records what became of each test of a pytest session, so that whoever started the session can report on it.

Where SLACKWATER_TEST_RECORDS names a folder, a session writes one file there, with a line of JSON for each test. The hooks are
those of tests/conftest.py. Under xdist the controller alone writes. Where SLACKWATER_TEST_REPEAT is a number, each test is run
that many times.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

import pytest

RECORDS: Final = "SLACKWATER_TEST_RECORDS"
REPEAT: Final = "SLACKWATER_TEST_REPEAT"
#: The parameter that numbers repetitions; it is part of a test's id, behind everything else.
_REPETITION: Final = "repetition"
_MARK: Final = "again"

Outcome = Literal["passed", "skipped", "failed"]


@dataclass(slots=True, kw_only=True)
class Record:
    """One test: the worst outcome of its phases, their seconds in all, and the reason of a skip."""

    test: str
    outcome: Outcome = "passed"
    seconds: float = 0.0
    why: str = ""

    def add(self, report: pytest.TestReport) -> None:
        self.seconds += report.duration
        if report.outcome == "failed" or (report.outcome == "skipped" and self.outcome == "passed"):
            self.outcome = report.outcome
            self.why = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""


class Recorder:
    """A plug-in of one session. A test that runs again under the same id counts as failed if it failed once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._records: dict[str, Record] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._records.setdefault(report.nodeid, Record(test=report.nodeid)).add(report)

    def pytest_sessionfinish(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        lines = (json.dumps(asdict(record)) for record in self._records.values())
        (self._folder / f"{os.getpid()}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def install(config: pytest.Config) -> None:
    """Registers a recorder where one is wanted."""
    if (folder := os.environ.get(RECORDS)) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(Path(folder)))


def repeat(metafunc: pytest.Metafunc) -> None:
    """Runs the test as often as wanted. unittest's classes, which are Hypothesis' state machines, run once."""
    if times := int(os.environ.get(REPEAT, "0")):
        metafunc.fixturenames.append(_REPETITION)
        metafunc.parametrize(_REPETITION, range(times), ids=[f"{_MARK}{number}" for number in range(times)])


def without_repetition(test: str) -> str:
    """The id of a test as it is when nothing is repeated."""
    head, bracket, last = test.rpartition("[")
    if not bracket:
        return test
    parts = [
        part for part in last.removesuffix("]").split("-") if not part.startswith(_MARK) or not part[len(_MARK) :].isdigit()
    ]
    return f"{head}[{'-'.join(parts)}]" if parts else head


def read(folder: Path) -> list[Record]:
    """All records in the folder."""
    lines: Iterable[str] = (line for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines())
    return [Record(**json.loads(line)) for line in lines]
