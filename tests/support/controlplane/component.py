"""Runs one program of the control plane as a process: starts it, keeps its log, sends signals, and stops it.

Each process has its own process group, so that Ctrl-C in a terminal reaches only this process, which then stops the programs in
order. `parent_death` starts each process, so that it never outlives this one.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import anyio

from tests.support.controlplane import parent_death
from tests.support.controlplane.errors import ComponentFailed, ControlPlaneError

_TAIL_LINES: Final = 20
_TAIL_BYTES: Final = 64 * 1024
#: The environment variables that the program inherits; beside paths, settings of a Go program's memory and threads.
_PASSED_ON: Final = ("PATH", "TMPDIR", "GOMAXPROCS", "GOGC", "GOMEMLIMIT")
_KILLED_WITHIN_SECONDS: Final = 10.0
_PAUSED_WITHIN_SECONDS: Final = 10.0
#: How often `pause` looks whether the process stands still. It takes less than a millisecond mostly.
_LOOK_EVERY_SECONDS: Final = 0.0005


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A program to run with its arguments, and the URLs by which to check that it is ready."""

    name: str
    program: Path
    arguments: tuple[str, ...]
    url: str  #: its address, without a path
    ready_paths: tuple[str, ...]  #: it is ready when all of them are answered with 200

    def run_by(self, command: Sequence[str]) -> "Launch":
        """The launch of the same program by `command`, such as `nice`, to which the program and its arguments are appended.
        Without a command, this launch."""
        if not command:
            return self
        return replace(self, program=Path(command[0]), arguments=(*command[1:], str(self.program), *self.arguments))


class RunningComponent(Protocol):
    """A started process. `returncode` is None while it runs, and negative if a signal ended it."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    async def wait(self) -> int: ...


#: Starts the program in a new process group, with its output to the log, and the given folder as working and home folder.
Opener = Callable[[Launch, BinaryIO, Path], Awaitable[RunningComponent]]


async def open_dying_with_parent(launch: Launch, log: BinaryIO, home: Path) -> RunningComponent:
    """Starts the program in a process that the kernel kills when this process ends."""
    return await anyio.open_process(
        [sys.executable, "-I", "-S", parent_death.__file__, str(os.getpid()), str(launch.program), *launch.arguments],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd=home,
        env=environment(home),
        start_new_session=True,
    )


class Component:
    """A program that can be started, and started again after it has ended. All its processes append to the same log file."""

    def __init__(self, launch: Launch, *, log: Path, home: Path, opener: Opener = open_dying_with_parent) -> None:
        self.launch = launch
        self.log = log
        self._home = home
        self._open = opener
        self._process: RunningComponent | None = None
        #: Whether the program should be running: `start` sets this, `stop` clears it. A crash or a signal does not change it.
        self.wanted = False

    @property
    def name(self) -> str:
        return self.launch.name

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        """The ID of the process and of its group."""
        return self._started().pid

    async def start(self) -> None:
        """Starts the process, without waiting until it is ready."""
        assert not self.running, self.name
        self.wanted = True
        with self.log.open("ab") as log:
            self._process = await self._open(self.launch, log, self._home)

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to the whole process group. Does nothing if the process has ended."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def pause(self) -> None:
        """Sends SIGSTOP. Returns once all threads of the process stand still: until then it may still answer.

        Raises ControlPlaneError if that takes too long."""
        self.send(signal.SIGSTOP)
        deadline = time.monotonic() + _PAUSED_WITHIN_SECONDS
        with contextlib.suppress(ChildProcessError):
            while self.running and os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
                if time.monotonic() > deadline:
                    raise ControlPlaneError(f"{self.name} did not stop within {_PAUSED_WITHIN_SECONDS:g} s of SIGSTOP")
                time.sleep(_LOOK_EVERY_SECONDS)

    async def ended(self) -> int:
        """Waits until the process has ended. Returns its exit status, negative for a signal."""
        return await self._started().wait()

    async def stop(self, *, within_seconds: float) -> None:
        """Sends SIGTERM, and SIGKILL if it still runs after `within_seconds`. Returns when it has ended."""
        self.wanted = False
        if not self.running:
            return
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)  # a paused process receives SIGTERM only when it continues
        with anyio.move_on_after(within_seconds):
            await self.ended()
        if self.running:
            self.send(signal.SIGKILL)
            with anyio.fail_after(_KILLED_WITHIN_SECONDS):
                await self.ended()

    def check(self) -> None:
        """Raises ComponentFailed, with the end of its log, if the process has ended."""
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

    def _started(self) -> RunningComponent:
        assert self._process is not None, f"{self.name} was never started"
        return self._process


def environment(home: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a started program."""
    return {name: environ[name] for name in _PASSED_ON if name in environ} | {"HOME": str(home)}
