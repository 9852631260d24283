"""Runs one go command: in a module of the recipe, with a clean environment, its output in a log and line by line.

Go's own settings of the user (proxy, caches) hold; what would change the result (GOFLAGS, GOOS, a go.work, another
toolchain) does not.
"""

import contextlib
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from slackwater.sandbox.controlplane.errors import BuildFailed

#: For one command. The longest one measured takes 4 minutes on 2 cores.
DEADLINE_SECONDS: Final = 1800.0
_QUOTED_LINES: Final = 15
_DROPPED: Final = ("GOOS", "GOARCH", "GOEXPERIMENT", "GOAMD64", "GOARM64", "CC", "CXX")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoCommands:
    """Where go commands run, and where their output goes."""

    go: Path
    log: Path
    environ: Mapping[str, str]

    def run(
        self,
        step: str,
        module: Path,
        arguments: Sequence[str],
        *,
        on_line: Callable[[str], None] = lambda _: None,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> list[str]:
        """The last lines that `go *arguments` printed; BuildFailed, which names `step`, unless it exits with 0."""
        last: deque[str] = deque(maxlen=_QUOTED_LINES)
        overdue = threading.Event()
        with self.log.open("a") as log, self._started(module, arguments) as process:
            log.write(f"$ go {' '.join(arguments)}\n")
            with _deadline(process, deadline_seconds, overdue):
                for line in _lines(process):
                    log.write(line)
                    last.append(line.rstrip())
                    on_line(line.rstrip())
                exit_code = process.wait()
        if overdue.is_set():
            raise BuildFailed(step, reason=f"took over {deadline_seconds:g} s", output=last, log=self.log)
        if exit_code != 0:
            raise BuildFailed(step, reason=f"go exited with {exit_code}", output=last, log=self.log)
        return list(last)

    @contextlib.contextmanager
    def _started(self, module: Path, arguments: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
        # A session of its own, so that compilers and linkers are stopped with their go command.
        process = subprocess.Popen(
            [self.go, *arguments],
            cwd=module,
            env=clean_environment(self.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            _kill_group(process)
            _lines(process).close()
            process.wait()


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without what would change what is built."""
    kept = {name: value for name, value in environ.items() if name not in _DROPPED}
    # The compiler's own garbage collection, not the program's: a tenth less time for no more memory at its peak.
    kept.setdefault("GOGC", "300")
    # Not an empty GOFLAGS: go reads an empty variable as "see the user's settings file".
    return kept | {"GOFLAGS": "-mod=readonly", "GOWORK": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}


@contextlib.contextmanager
def _deadline(process: subprocess.Popen[str], seconds: float, overdue: threading.Event) -> Iterator[None]:
    def end() -> None:
        overdue.set()
        _kill_group(process)

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _lines(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def _kill_group(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
