"""podman, with a store of its own for each session: images and containers of this machine's users are not touched.

Containers share the host's network, since the control plane listens on loopback. Nothing is pulled from anywhere.
"""

import contextlib
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: A container that its test forgot ends by itself.
_LIFETIME_SECONDS: Final = 840
_DEADLINE_SECONDS: Final = 600.0


class PodmanFailed(Exception):
    """podman exited with an error; its own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Podman:
    """The program with the arguments that all commands share, and the ID of the one image in its store."""

    command: tuple[str, ...]
    image: str = ""

    def ask(self, *arguments: str | Path) -> str:
        """What the command prints on stdout; PodmanFailed unless it exits with 0."""
        done = subprocess.run(
            [*self.command, *arguments], capture_output=True, text=True, timeout=_DEADLINE_SECONDS, check=False
        )
        if done.returncode != 0:
            raise PodmanFailed(f"podman {arguments[0]}: {done.stderr.strip()}{done.stdout.strip()}")
        return done.stdout

    def run(self, options: Sequence[str], arguments: Sequence[str]) -> str:
        """Runs a container of the image to its end; what it printed."""
        return self.ask("run", "--rm", *_SHARED, *limits(), *options, self.image, *arguments)

    def start(self, name: str, options: Sequence[str], arguments: Sequence[str]) -> None:
        """Starts a container of the image."""
        self.ask("run", "--detach", "--name", name, *_SHARED, *limits(), *options, self.image, *arguments)

    def logs(self, name: str) -> str:
        """Both streams of a container, which may have ended."""
        done = subprocess.run([*self.command, "logs", name], capture_output=True, text=True, timeout=60, check=False)
        return done.stdout + done.stderr

    def stop(self, name: str, *, within_seconds: int) -> int:
        """Sends SIGTERM, and SIGKILL after a time, as a kubelet does; the exit status."""
        self.ask("stop", "--time", str(within_seconds), name)
        return int(self.ask("inspect", "--format", "{{.State.ExitCode}}", name))


_SHARED: Final = ("--network", "host", "--pull", "never", "--timeout", str(_LIFETIME_SECONDS))


def limits() -> tuple[str, ...]:
    """Limits that any caller may set: where root lacks CAP_SYS_RESOURCE, podman's defaults are refused."""
    named = (("nofile", resource.RLIMIT_NOFILE, 16384), ("nproc", resource.RLIMIT_NPROC, 4096))
    found = ((name, resource.getrlimit(kind)[1], most) for name, kind, most in named)
    chosen = [(name, most if hard == resource.RLIM_INFINITY else min(hard, most)) for name, hard, most in found]
    return tuple(part for name, limit in chosen for part in ("--ulimit", f"{name}={limit}:{limit}"))


@contextlib.contextmanager
def loaded(layout: Path, version: str) -> Iterator[Podman]:
    """podman with the image of an OCI layout in a new store, which is removed afterwards with all containers."""
    store = Path(tempfile.mkdtemp(prefix="sw-"))  # podman wants short paths
    places = [f"--{name}={store / name}" for name in ("root", "runroot", "tmpdir")]
    # runc also runs where cgroups are of both versions, as in some virtual machines.
    runtime = ["--runtime=runc"] if shutil.which("runc") else []
    command = ("podman", *places, "--cgroup-manager=cgroupfs", "--events-backend=none", *runtime)
    empty = Podman(command=command)
    try:
        image = empty.ask("pull", "--quiet", f"oci:{layout}:{version}").strip()
        yield Podman(command=command, image=image)
    finally:
        empty.ask("rm", "--all", "--force", "--time", "1")
        empty.ask("rmi", "--all", "--force")
        shutil.rmtree(store, ignore_errors=True)
