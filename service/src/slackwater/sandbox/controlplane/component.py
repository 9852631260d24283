"""One program of the control plane as a running process: its log, its signals, its end.

Each has a process group of its own, so that Ctrl-C in a terminal reaches only us and we stop them in order, and is
started through `leash`, so that none outlives us.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import anyio

from slackwater.sandbox.controlplane import leash
from slackwater.sandbox.controlplane.errors import ComponentFailed

_TAIL_LINES: Final = 20
_TAIL_BYTES: Final = 64 * 1024
#: What a Go program may be told about its own memory and threads; everything else of our environment stays out.
_PASSED_ON: Final = ("PATH", "TMPDIR", "GOMAXPROCS", "GOGC", "GOMEMLIMIT")
_KILLED_WITHIN_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What to run, and where it says that it is ready."""

    name: str
    program: Path
    arguments: tuple[str, ...]
    url: str  #: where it serves, without a path
    ready_paths: tuple[str, ...]  #: it is ready when all of them answer 200

    def run_by(self, command: Sequence[str]) -> "Launch":
        """The same, run by a command that is given the program and its arguments; an empty one changes nothing."""
        if not command:
            return self
        return replace(self, program=Path(command[0]), arguments=(*command[1:], str(self.program), *self.arguments))


class Running(Protocol):
    """A process that was started. `returncode` is None while it runs, and negative if a signal ended it."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    async def wait(self) -> int: ...


#: Starts the program with its output to the log, `home` as its folder, and a process group of its own.
Opener = Callable[[Launch, BinaryIO, Path], Awaitable[Running]]


async def open_leashed(launch: Launch, log: BinaryIO, home: Path) -> Running:
    """Starts the program in a process that dies with this one."""
    return await anyio.open_process(
        [sys.executable, "-I", "-S", leash.__file__, str(os.getpid()), str(launch.program), *launch.arguments],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd=home,
        env=environment(home),
        start_new_session=True,
    )


class Component:
    """A process of ours. `start` first; after it ended, `start` again runs it again with the same log file."""

    def __init__(self, launch: Launch, *, log: Path, home: Path, opener: Opener = open_leashed) -> None:
        self.launch = launch
        self.log = log
        self._home = home
        self._open = opener
        self._process: Running | None = None
        #: Whether it ought to run: started, and not stopped since. A signal that kills it changes nothing here.
        self.wanted = False

    @property
    def name(self) -> str:
        return self.launch.name

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        """Of the process, which is also its group's."""
        return self._started().pid

    async def start(self) -> None:
        """Starts the process; it is not ready yet."""
        assert not self.running, self.name
        self.wanted = True
        with self.log.open("ab") as log:
            self._process = await self._open(self.launch, log, self._home)

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to the whole process group; nothing happens if it has ended."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    async def ended(self) -> int:
        """Waits until the process is gone; its exit status, negative for a signal."""
        return await self._started().wait()

    async def stop(self, *, within_seconds: float) -> None:
        """SIGTERM, and SIGKILL if it still runs after `within_seconds`; returns when it is gone."""
        self.wanted = False
        if not self.running:
            return
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)  # a paused process gets its SIGTERM only when it goes on
        with anyio.move_on_after(within_seconds):
            await self.ended()
        if self.running:
            self.send(signal.SIGKILL)
            with anyio.fail_after(_KILLED_WITHIN_SECONDS):
                await self.ended()

    def check(self) -> None:
        """ComponentFailed, with the end of its log, if the process has ended."""
        if not self.running:
            code = self._started().returncode
            assert code is not None, self.name
            raise ComponentFailed(self.name, exit_code=code, output=self.tail(), log=self.log)

    def tail(self) -> list[str]:
        """The last lines of the log."""
        if not self.log.exists():
            return []
        with self.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            return list(deque(file.read().decode(errors="replace").splitlines(), maxlen=_TAIL_LINES))

    def _started(self) -> Running:
        assert self._process is not None, f"{self.name} was never started"
        return self._process


def environment(home: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a started program."""
    return {name: environ[name] for name in _PASSED_ON if name in environ} | {"HOME": str(home)}
