"""Builds a Go program that tests run, once for each version of its sources.

The same toolchain, flags and cache as the control plane's, so that what Go compiled for it is used again: seconds where the
control plane is built, minutes where it is not. Deliberately absent: what the programs do.
"""

import hashlib
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.controlplane import toolchain as toolchains
from tests.support.controlplane.cache import cache_root, fill
from tests.support.controlplane.recipe import BUILD_FLAGS, DEFAULT, ldflags
from tests.support.controlplane.toolchain import GoCommands, Toolchain


def find(
    name: str,
    sources: Path,
    *,
    tags: Sequence[str] = (),
    module: Path | None = None,
    toolchain: Toolchain | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Path | None:
    """Path of the program if it is in the cache. `toolchain` as for `build`."""
    key = _key((toolchain or toolchains.locate(environ)).version, sources, _flags(tags), module)
    entry = cache_root(environ) / name / key
    return entry / name if entry.is_dir() else None


def build(
    name: str,
    sources: Path,
    *,
    package: str = ".",
    tags: Sequence[str] = (),
    module: Path | None = None,
    toolchain: Toolchain | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Path:
    """Path of the program `name`, made now from the module in `sources` unless it is in the cache.

    `tags` are build tags beside those of the control plane. `module` is a folder with a go.mod to build with instead of that of
    `sources`. `toolchain`: where another one is needed than builds the control plane.

    ToolchainError without Go; BuildFailed with the end of the output and the log's path.
    """
    toolchain = toolchain or toolchains.locate(environ)
    flags = _flags(tags)
    entry = cache_root(environ) / name / _key(toolchain.version, sources, flags, module)
    log = entry.with_name(entry.name + ".log")

    def make(folder: Path) -> None:
        toolchains.install(toolchain, environ)
        log.write_text("")
        note = f"building the program {name} (seconds where the control plane is built, else minutes) ..."
        print(note, file=sys.stderr, flush=True)
        go = GoCommands(go=toolchain.go, log=log, environ=environ)
        with_module = () if module is None else (f"-modfile={module / 'go.mod'}",)
        linking = f"-ldflags={ldflags(module or DEFAULT)}"
        go.run(name, sources, ["build", *flags, *with_module, linking, "-o", str(folder / name), package])

    fill(entry, make)
    return entry / name


def build_if_used(session: pytest.Session, fixture: str, build: Callable[[], object]) -> None:
    """Builds the program where a collected test uses the fixture, with the progress in sight. To be called before the first
    test: with a cold Go cache a build takes longer than a test may."""
    used = any(fixture in getattr(item, "fixturenames", ()) for item in session.items)
    if used and not session.config.option.collectonly:
        with session.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            build()


def _flags(tags: Sequence[str]) -> tuple[str, ...]:
    return tuple(",".join((flag, *tags)) if flag.startswith("-tags=") else flag for flag in BUILD_FLAGS)


def _key(go_version: tuple[int, int], sources: Path, flags: tuple[str, ...], module: Path | None) -> str:
    linking = ldflags(module or DEFAULT)
    digest = hashlib.sha256(repr((go_version, sys.platform, platform.machine(), flags, linking)).encode())
    for folder in (sources,) if module is None else (sources, module):
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]
