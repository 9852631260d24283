"""Builds the control plane's binaries once for each recipe, and finds them again.

A build is a folder of the cache named by `recipe_key`: the five binaries and the file of KWOK's stages. Everything
comes from Go modules; nothing is downloaded ready-made, and no container is needed.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from slackwater.sandbox.controlplane import toolchain as toolchains
from slackwater.sandbox.controlplane.cache import cache_root, fill
from slackwater.sandbox.controlplane.errors import BuildFailed
from slackwater.sandbox.controlplane.gocommand import GoCommands
from slackwater.sandbox.controlplane.recipe import (
    BUILD_FLAGS,
    GO_FILES,
    KWOK_PATH,
    KWOK_STAGES,
    MODULES,
    OUR_STAGES,
    TARGETS,
    Target,
    ldflags,
    recipe_key,
)

StepState = Literal["running", "done"]

_TOOLCHAIN_STEP: Final = "Go toolchain"
_STAGES_STEP: Final = "KWOK stages"
STEPS: Final = (
    _TOOLCHAIN_STEP,
    *(f"modules of {module}" for module in MODULES),
    *(target.name for target in TARGETS),
    _STAGES_STEP,
)
#: The name of step 0, in which a process is whose build another one is making.
WAITING: Final = "waiting for another process that builds it"
_STAGES_FILE: Final = "kwok-stages.yaml"
#: A registry that hiccups once should not cost a newcomer the demo; what was fetched is kept by Go.
_FETCH_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildStep:
    """Where a build is. Sent when a step starts, while it goes on, and when it is done."""

    name: str  #: one of `STEPS`, or `WAITING`
    index: int  #: 1..total, 0 for `WAITING`
    total: int
    seconds: float  #: since the step started
    state: StepState = "running"
    packages: int = 0  #: compiled so far in this step


Progress = Callable[[BuildStep], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """One finished build."""

    directory: Path

    def of(self, component: str) -> Path:
        """Path of the binary named `component`, one of `TARGETS`."""
        return self.directory / component

    @property
    def kwok_stages(self) -> Path:
        """The configuration file without which KWOK refuses to start."""
        return self.directory / _STAGES_FILE


def find(environ: Mapping[str, str] = os.environ) -> Binaries | None:
    """The build of the present recipe if it is in the cache."""
    entry = _entry(toolchains.locate(environ), environ)
    return Binaries(directory=entry) if entry.is_dir() else None


def build(progress: Progress | None = None, *, environ: Mapping[str, str] = os.environ) -> Binaries:
    """The build of the present recipe, made now unless it is in the cache; blocks (minutes where Go's cache is cold).

    ToolchainError without Go; BuildFailed with the end of the output and the log's path.
    """
    toolchain = toolchains.locate(environ)
    entry = _entry(toolchain, environ)
    tell = progress or _silent
    log = entry.with_name(entry.name + ".log")

    def make(folder: Path) -> None:
        log.write_text("")
        go = GoCommands(go=toolchain.go, log=log, environ=environ)
        _Build(go=go, folder=folder, progress=tell).run(toolchain, environ)

    waiting = BuildStep(name=WAITING, index=0, total=len(STEPS), seconds=0.0)
    fill(entry, make, waiting=lambda: tell(waiting))
    return Binaries(directory=entry)


def _entry(toolchain: toolchains.Toolchain, environ: Mapping[str, str]) -> Path:
    return cache_root(environ) / "controlplane" / recipe_key(toolchain.version)


def _silent(_step: BuildStep) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class _Build:
    go: GoCommands
    folder: Path
    progress: Progress

    def run(self, toolchain: toolchains.Toolchain, environ: Mapping[str, str]) -> None:
        with self._step(_TOOLCHAIN_STEP):
            toolchains.install(toolchain, environ)
        for module in MODULES:
            self._fetch(module)
        for target in TARGETS:
            self._compile(target)
        with self._step(_STAGES_STEP):
            self._write_stages()

    def _fetch(self, module: str) -> None:
        step = f"modules of {module}"
        packages = [target.package for target in TARGETS if target.module == module]
        with self._step(step):
            for attempt in range(1, _FETCH_ATTEMPTS + 1):
                try:
                    self.go.run(step, GO_FILES / module, ["list", "-deps", *BUILD_FLAGS, *packages])
                except BuildFailed:
                    if attempt == _FETCH_ATTEMPTS:
                        raise
                else:
                    return

    def _compile(self, target: Target) -> None:
        with self._step(target.name) as compiled:
            output = str(self.folder / target.name)
            flags = ["build", "-v", *BUILD_FLAGS, f"-ldflags={ldflags()}", "-o", output]
            self.go.run(target.name, GO_FILES / target.module, [*flags, target.package], on_line=compiled)

    def _write_stages(self) -> None:
        ask = ["list", "-m", "-f", "{{.Dir}}", KWOK_PATH]
        [source] = self.go.run(_STAGES_STEP, GO_FILES / "kwok", ask)
        (self.folder / _STAGES_FILE).write_text(join_stages(Path(source) / "kustomize" / "stage"))

    @contextmanager
    def _step(self, name: str) -> Iterator[Callable[[str], None]]:
        started = time.monotonic()
        at = BuildStep(name=name, index=STEPS.index(name) + 1, total=len(STEPS), seconds=0.0)
        packages = 0

        def compiled(_line: str) -> None:
            nonlocal packages
            packages += 1
            self.progress(replace(at, seconds=time.monotonic() - started, packages=packages))

        self.progress(at)
        yield compiled
        self.progress(replace(at, seconds=time.monotonic() - started, packages=packages, state="done"))


def join_stages(source: Path) -> str:
    """KWOK's stages under `source`, and ours, as one YAML stream; FileNotFoundError where a release has one no more."""
    return "---\n".join(path.read_text() for path in (*(source / name for name in KWOK_STAGES), OUR_STAGES))
