"""Records what became of each test of a pytest session, so that whoever started the session can report on it.

Where SLACKWATER_TEST_RECORDS names a folder, a session writes one file there, with a line of JSON for each test. The hooks are
those of tests/conftest.py. Under xdist the controller alone writes. Where SLACKWATER_TEST_REPEAT is a number, each test is run
that many times.
"""

import json
import os
import resource
from collections.abc import Generator, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import shorten
from typing import Final, Literal

import pytest

RECORDS: Final = "SLACKWATER_TEST_RECORDS"
REPEAT: Final = "SLACKWATER_TEST_REPEAT"
#: The parameter that numbers repetitions; it is part of a test's id, behind everything else.
_REPETITION: Final = "repetition"
_MARK: Final = "again"
_LONGEST_WORDS: Final = 500
#: The attribute of a report with CPU seconds.
_CPU: Final = "cpu_seconds"

Outcome = Literal["passed", "skipped", "failed"]


@dataclass(slots=True, kw_only=True)
class Record:
    """One test: the worst outcome of its phases, their seconds in all, the CPU seconds of the test's process and of children
    that ended meanwhile, and the reason of a skip or the words of the failure."""

    test: str
    outcome: Outcome = "passed"
    seconds: float = 0.0
    cpu: float = 0.0
    why: str = ""

    def add(self, report: pytest.TestReport) -> None:
        self.seconds += report.duration
        self.cpu += getattr(report, _CPU, 0.0)
        if report.outcome == "failed" or (report.outcome == "skipped" and self.outcome == "passed"):
            self.outcome = report.outcome
            self.why = report.longrepr[2] if isinstance(report.longrepr, tuple) else _words(report)


def _words(report: pytest.TestReport) -> str:
    """What a failed test said, in one line that is not too long for a summary."""
    crash = getattr(report.longrepr, "reprcrash", None)
    words = crash.message if crash is not None else str(report.longrepr or "")
    return shorten(words, _LONGEST_WORDS, placeholder=" ...")


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


class CpuClock:
    """A plug-in of each process that runs tests: adds to each report the CPU seconds since the one before, or since the test
    began."""

    def __init__(self) -> None:
        self._last = 0.0

    def pytest_runtest_logstart(self) -> None:
        self._last = cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = cpu_seconds()
        # xdist sends all attributes of a report to the process that records.
        setattr(report, _CPU, now - self._last)
        self._last = now
        return report


def cpu_seconds() -> float:
    """CPU seconds of this process and of all its children that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def install(config: pytest.Config) -> None:
    """Registers a recorder and a clock where records are wanted."""
    if not (folder := os.environ.get(RECORDS)):
        return
    config.pluginmanager.register(CpuClock())
    if not hasattr(config, "workerinput"):
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
