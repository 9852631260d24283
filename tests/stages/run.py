"""Runs a plan: each stage as a process, lanes as threads. A stage that fails stops those that need it, and no other.

What a stage prints goes into a file of its own; the end of it is printed if the stage fails. Ctrl-C reaches the stages too,
since they are in the terminal's process group.
"""

import os
import resource
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tests.stages.plan import Plan, Stage, missing
from tests.stages.record import RECORDS

State = Literal["passed", "failed", "skipped", "not run"]
#: The command of a stage.
Command = Callable[[Stage], Sequence[str]]

_NICE: Final = 5
_SIGN_OF_LIFE_SECONDS: Final = 60.0
_SHOWN_LINES: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of a stage. `why` says it of one that was skipped or not run."""

    stage: Stage
    state: State
    seconds: float = 0.0
    why: str = ""


def make(stage: Stage) -> Sequence[str]:
    """The command of a stage of the Makefile."""
    return (os.environ.get("MAKE", "make"), "--no-print-directory", stage.name)


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
            self._run_lane(self._plan.alone, 0)
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
                self._tell(self._end_of_log(result.stage))

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
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ, check=False)
        with self._lock:
            del self._running[stage.name]
        return Result(stage=stage, state="failed" if done.returncode else "passed", seconds=time.monotonic() - began)

    def _give_signs_of_life(self, ended: threading.Event) -> None:
        while not ended.wait(_SIGN_OF_LIFE_SECONDS):
            with self._lock:
                now = time.monotonic()
                self._tell("... " + ", ".join(f"{name} for {now - began:.0f} s" for name, began in self._running.items()))

    def _end_of_log(self, stage: Stage) -> str:
        lines = self.log(stage).read_text(errors="replace").splitlines()
        return "\n".join((f"--- the end of {self.log(stage)}:", *lines[-_SHOWN_LINES:], f"--- {stage.name} failed"))


def cpu_seconds() -> float:
    """Of this process and all children that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _line(result: Result) -> str:
    return f"{result.stage.name} {result.state}{f': {result.why}' if result.why else f' in {result.seconds:.0f} s'}"
