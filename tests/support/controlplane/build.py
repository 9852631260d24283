"""Builds the control plane's binaries once for each recipe, and finds earlier builds.

A build is a folder of the cache named by `recipe_key`, with the five binaries and the file of KWOK's stages. Everything is
compiled from Go modules; no ready-made binaries are downloaded, and no container is needed.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from tests.support.controlplane import toolchain as toolchains
from tests.support.controlplane.cache import cache_root, fill
from tests.support.controlplane.errors import BuildFailed
from tests.support.controlplane.modules import module_of
from tests.support.controlplane.recipe import (
    BUILD_FLAGS,
    DEFAULT,
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
from tests.support.controlplane.toolchain import GoCommands

StepState = Literal["running", "done"]

_TOOLCHAIN_STEP: Final = "Go toolchain"
_STAGES_STEP: Final = "KWOK stages"
STEPS: Final = (
    _TOOLCHAIN_STEP,
    *(f"modules of {module}" for module in MODULES),
    *(target.name for target in TARGETS),
    _STAGES_STEP,
)
#: The name of the step in which this process waits for another one that makes the same build.
WAITING: Final = "waiting for another process that builds it"
_STAGES_FILE: Final = "kwok-stages.yaml"
#: Attempts to download the modules: a registry may fail once. Go keeps what was downloaded.
_FETCH_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildStep:
    """The progress of a build, reported when a step starts, while it runs, and when it is done."""

    name: str  #: one of `STEPS`, or `WAITING`
    index: int  #: 1..total, 0 for `WAITING`
    total: int
    seconds: float  #: since the step started
    state: StepState = "running"
    packages: int = 0  #: compiled so far in this step


Progress = Callable[[BuildStep], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """The files of a finished build, in one folder."""

    directory: Path

    def of(self, component: str) -> Path:
        """Path of the binary named `component`, one of `TARGETS`."""
        return self.directory / component

    @property
    def kwok_stages(self) -> Path:
        """The configuration file of KWOK, which refuses to start without one."""
        return self.directory / _STAGES_FILE


def find(environ: Mapping[str, str] = os.environ, *, kubernetes: str | None = None) -> Binaries | None:
    """The build of the present recipe for a version of Kubernetes (None: the default); None if it is not in the cache."""
    entry = _entry(toolchains.locate(environ), environ, module_of(kubernetes, environ=environ))
    return Binaries(directory=entry) if entry.is_dir() else None


def build(
    progress: Progress | None = None, *, environ: Mapping[str, str] = os.environ, kubernetes: str | None = None
) -> Binaries:
    """Returns the build of the present recipe for a version of Kubernetes (None: the default). If it is not in the cache, makes
    it, which takes minutes if Go's own cache is empty.

    Raises ToolchainError without Go, and BuildFailed with the end of the output and the log's path.
    """
    toolchain = toolchains.locate(environ)
    module = module_of(kubernetes, environ=environ)
    entry = _entry(toolchain, environ, module)
    report = progress or _silent
    log = entry.with_name(entry.name + ".log")

    def make(folder: Path) -> None:
        log.write_text("")
        go = GoCommands(go=toolchain.go, log=log, environ=environ)
        _Build(go=go, folder=folder, progress=report, kubernetes=module).run(toolchain, environ)

    waiting = BuildStep(name=WAITING, index=0, total=len(STEPS), seconds=0.0)
    fill(entry, make, waiting=lambda: report(waiting))
    return Binaries(directory=entry)


def _entry(toolchain: toolchains.Toolchain, environ: Mapping[str, str], module: Path) -> Path:
    return cache_root(environ) / "controlplane" / recipe_key(toolchain.version, module=module)


def _silent(_step: BuildStep) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class _Build:
    go: GoCommands
    folder: Path
    progress: Progress
    kubernetes: Path = DEFAULT

    def run(self, toolchain: toolchains.Toolchain, environ: Mapping[str, str]) -> None:
        with self._step(_TOOLCHAIN_STEP):
            toolchains.install(toolchain, environ)
        for module in MODULES:
            self._fetch(module)
        for target in TARGETS:
            self._compile(target)
        with self._step(_STAGES_STEP):
            self._write_stages()

    def _module(self, name: str) -> Path:
        return self.kubernetes if name == DEFAULT.name else GO_FILES / name

    def _fetch(self, module: str) -> None:
        step = f"modules of {module}"
        packages = [target.package for target in TARGETS if target.module == module]
        with self._step(step):
            for attempt in range(1, _FETCH_ATTEMPTS + 1):
                try:
                    self.go.run(step, self._module(module), ["list", "-deps", *BUILD_FLAGS, *packages])
                except BuildFailed:
                    if attempt == _FETCH_ATTEMPTS:
                        raise
                else:
                    return

    def _compile(self, target: Target) -> None:
        with self._step(target.name) as compiled:
            output = str(self.folder / target.name)
            flags = ["build", "-v", *BUILD_FLAGS, f"-ldflags={ldflags(self.kubernetes)}", "-o", output]
            self.go.run(target.name, self._module(target.module), [*flags, target.package], on_line=compiled)

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
    """Joins KWOK's stage files under `source` and our own to one YAML stream. Raises FileNotFoundError if KWOK's release lacks
    a file."""
    return "---\n".join(path.read_text() for path in (*(source / name for name in KWOK_STAGES), OUR_STAGES))
