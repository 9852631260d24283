"""Starts `slackwater` processes from one that has imported the service already.

Importing takes two seconds of CPU, and the tests on the control plane start the service some hundred times. One process a
test worker imports it once and forks the service from itself: a process of its own, with its own environment, log and process
group, that runs `main` with the arguments of the command line. Only the start of Python and the imports are saved. The
tests of `tests/packages`, and those that run the service by another command, start the program itself.

Requests and answers are JSON, one packet each, over a socket that the worker made. The process serves one request at a time:
`start` forks and answers the pid, `reap` waits for one that has ended and answers its status.
"""

import json
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

import anyio

from tests.support.controlplane import parent_death
from tests.support.controlplane.component import Launch, environment

_PACKET: Final = 1 << 16
_START_SECONDS: Final = 240.0
_ROOT: Final = Path(__file__).parents[3]


class PreloadedProgram:
    """The worker's side. Starts the other side when it is first needed; that one ends with the worker."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    async def open(self, launch: Launch, log: BinaryIO, home: Path) -> "ForkedProcess":
        """Implements `component.Opener`. `launch.program` is not looked at: the program is `slackwater`."""
        request = {"start": [launch.name, *launch.arguments], "home": str(home), "environment": environment(home)}
        return ForkedProcess(self.ask(request, log)["pid"], self)

    def ask(self, request: dict[str, Any], log: BinaryIO | None = None) -> dict[str, Any]:
        """Sends one request, with the log file that a `start` needs, and returns the answer."""
        if self._socket is None:
            self._socket = self._connect()
        socket.send_fds(self._socket, [json.dumps(request).encode()], [] if log is None else [log.fileno()])
        answer = self._socket.recv(_PACKET)
        assert answer, "the process that imports the service beforehand has ended"
        return dict(json.loads(answer))

    def _connect(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(_START_SECONDS)
        with theirs:
            theirs.set_inheritable(True)
            command = [sys.executable, "-I", "-S", parent_death.__file__, str(os.getpid())]
            command += [sys.executable, "-m", __name__, str(theirs.fileno())]
            # Not `Popen`, which warns about a process that outlives it: this one ends when our end of the socket is closed.
            os.posix_spawn(sys.executable, command, {**environment(Path.home()), "PYTHONPATH": str(_ROOT)}, setsid=True)
        return ours


class ForkedProcess:
    """A process that another one forked. Implements `component.RunningComponent`."""

    def __init__(self, pid: int, program: PreloadedProgram) -> None:
        self.pid = pid
        self._program = program
        self._pidfd = os.pidfd_open(pid)
        self._returncode: int | None = None

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        if self._returncode is None and select.select([self._pidfd], [], [], 0)[0]:
            self._returncode = int(self._program.ask({"reap": self.pid})["status"])
            os.close(self._pidfd)
        return self._returncode

    async def wait(self) -> int:
        """Waits until it has ended; its exit status."""
        if self.returncode is None:
            await anyio.wait_readable(self._pidfd)
        code = self.returncode
        assert code is not None
        return code


PRELOADED: Final = PreloadedProgram()


# --- the process that forks -----------------------------------------------------------------------------------------------


def _serve(requests: socket.socket) -> None:
    """Returns when the worker has gone; in a forked process it ends by SystemExit."""
    while True:
        text, descriptors, _, _ = socket.recv_fds(requests, _PACKET, 1)
        if not text:
            return
        request = json.loads(text)
        if "reap" in request:
            _, status = os.waitpid(request["reap"], 0)
            answer = {"status": os.waitstatus_to_exitcode(status)}
        else:
            parent, pid = os.getpid(), os.fork()
            if not pid:
                requests.close()
                _become(request, descriptors[0], parent=parent)
            os.close(descriptors[0])
            answer = {"pid": pid}
        requests.send(json.dumps(answer).encode())


def _become(request: dict[str, Any], log: int, *, parent: int) -> None:
    """Runs the command as `execv` would have it run, and ends."""
    parent_death.die_with(parent)
    os.setsid()
    os.chdir(request["home"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for descriptor in (sys.stdout.fileno(), sys.stderr.fileno()):
        os.dup2(log, descriptor)
    os.close(log)
    sys.argv = request["start"]
    from slackwater.cli.main import main

    sys.exit(main())


def _preload() -> None:
    """Imports what `slackwater serve` imports."""
    import gc

    import slackwater.app.process
    import slackwater.cli.commands.serve
    import slackwater.cli.main  # noqa: F401

    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _preload()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _serve(socket.socket(fileno=int(sys.argv[1])))
