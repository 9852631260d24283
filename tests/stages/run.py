"""Runs a plan: each stage as a process, lanes as threads. A stage that fails stops those that need it, and no other.

What a stage prints goes into a file of its own; if the stage fails, the end of it is printed and then, in a few lines, what
failed. Ctrl-C reaches the stages too, since they are in the terminal's process group.
"""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Literal

from tests.stages.plan import Plan, Stage, missing
from tests.stages.record import RECORDS, read

State = Literal["passed", "failed", "skipped", "not run"]
#: The command of a stage.
Command = Callable[[Stage], Sequence[str]]

#: Of the lanes that compute beside one that waits. At 10 the kernel gives a process of the latter nine times as much of a core
#: as one of the former. At 5 it is three times as much, and tests on the control plane missed times that binds have.
_NICE: Final = 10
_SIGN_OF_LIFE_SECONDS: Final = 60.0
_SHOWN_LINES: Final = 200
#: Of what a stage printed, where no test says what failed.
_LAST_LINES: Final = 20
_SHOWN_TESTS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of a stage. `why` says it of one that was skipped or not run. `cpu`: CPU seconds of all its processes.
    `causes`: lines that say what failed."""

    stage: Stage
    state: State
    seconds: float = 0.0
    cpu: float = 0.0
    why: str = ""
    causes: tuple[str, ...] = ()


def make(stage: Stage) -> Sequence[str]:
    """The command of a stage of the Makefile."""
    return (os.environ.get("MAKE", "make"), "--no-print-directory", *(stage.make or (stage.name,)))


class Run:
    """One run of a plan. `folder` gets what the stages print, and their tests' records."""

    def __init__(self, plan: Plan, *, folder: Path, command: Command = make, tell: Callable[[str], None] = print) -> None:
        self._plan = plan
        self._folder = folder
        self._command = command
        self._tell = tell
        self._results: dict[str, Result] = {}
        self._done = {stage.name: threading.Event() for stage in plan.stages}
        self._running: dict[str, float] = {}
        self._lock = threading.Lock()
        self._interrupted = False

    def run(self) -> list[Result]:
        """Runs all stages; their results in the plan's order."""
        self._folder.mkdir(parents=True, exist_ok=True)
        lanes = [(self._plan.waiting, 0), *((lane, _NICE if self._plan.waiting else 0) for lane in self._plan.computing)]
        ended = threading.Event()
        witness = threading.Thread(target=self._give_signs_of_life, args=(ended,), daemon=True)
        witness.start()
        try:
            with ThreadPoolExecutor(len(lanes)) as pool:
                running = [pool.submit(self._run_lane, stages, nice) for stages, nice in lanes]
                try:
                    for lane in running:
                        lane.result()
                except KeyboardInterrupt:
                    self._interrupted = True
                    raise
        finally:
            ended.set()
            witness.join()
        return [self._results[stage.name] for stage in self._plan.stages]

    def records(self, stage: Stage) -> Path:
        """The folder of the records of a stage's tests."""
        return self._folder / stage.name

    def log(self, stage: Stage) -> Path:
        """The file with what a stage printed."""
        return self._folder / f"{stage.name}.log"

    def _run_lane(self, stages: Sequence[Stage], nice: int) -> None:
        for stage in stages:
            for need in stage.needs:
                self._done[need].wait()
            try:
                self._keep(self._result(stage, nice))
            finally:
                self._done[stage.name].set()

    def _keep(self, result: Result) -> None:
        with self._lock:
            self._results[result.stage.name] = result
            self._tell(_line(result))
            if result.state == "failed":
                self._tell("\n".join((self._end_of_log(result.stage), f"--- {result.stage.name} failed:", *result.causes)))

    def _result(self, stage: Stage, nice: int) -> Result:
        if self._interrupted:
            return Result(stage=stage, state="not run", why="interrupted")
        if why := missing(stage):
            return Result(stage=stage, state="skipped", why=why)
        if lacking := [need for need in stage.needs if need not in self._results or self._results[need].state != "passed"]:
            return Result(stage=stage, state="not run", why=f"it needs {', '.join(lacking)}")
        with self._lock:
            self._tell(f"{stage.name} ...")
            self._running[stage.name] = began = time.monotonic()
        environ = {**os.environ, RECORDS: str(self.records(stage).absolute())}
        with self.log(stage).open("wb") as log:
            command = ["nice", "-n", str(nice), *self._command(stage)]
            status, cpu = _run(command, log, environ)
        with self._lock:
            del self._running[stage.name]
        seconds = time.monotonic() - began
        if not status:
            return Result(stage=stage, state="passed", seconds=seconds, cpu=cpu)
        return Result(stage=stage, state="failed", seconds=seconds, cpu=cpu, causes=self._causes(stage))

    def _give_signs_of_life(self, ended: threading.Event) -> None:
        while not ended.wait(_SIGN_OF_LIFE_SECONDS):
            with self._lock:
                now = time.monotonic()
                self._tell("... " + ", ".join(f"{name} for {now - began:.0f} s" for name, began in self._running.items()))

    def _end_of_log(self, stage: Stage) -> str:
        return "\n".join((f"--- the end of {self.log(stage)}:", *self._lines(stage)[-_SHOWN_LINES:]))

    def _causes(self, stage: Stage) -> tuple[str, ...]:
        """The failed tests with their words; if there is none, the last lines that the stage printed."""
        tests = [f"{record.test}: {record.why}" for record in read(self.records(stage)) if record.outcome == "failed"]
        if not tests:
            return tuple(line for line in self._lines(stage) if line.strip())[-_LAST_LINES:]
        more = len(tests) - _SHOWN_TESTS
        return (*tests[:_SHOWN_TESTS], *([f"and {more} more tests: see {self.log(stage)}"] if more > 0 else ()))

    def _lines(self, stage: Stage) -> list[str]:
        return self.log(stage).read_text(errors="replace").splitlines()


def _run(command: Sequence[str], log: BinaryIO, environ: Mapping[str, str]) -> tuple[int, float]:
    """The exit status of a command, and the CPU seconds of it and of all its descendants that were waited for."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime


def _line(result: Result) -> str:
    how = f": {result.why}" if result.why else f" in {result.seconds:.0f} s, {result.cpu:.0f} s of CPU"
    return f"{result.stage.name} {result.state}{how}"
