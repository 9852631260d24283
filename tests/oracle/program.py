"""Builds the Go program that runs kube-scheduler's plug-ins, once for each version of its sources.

The same toolchain, flags and cache as the control plane's, so that what Go compiled for kube-scheduler is used again:
seconds where the control plane is built, minutes where it is not.
"""

import hashlib
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from slackwater.app.controlplane import toolchain as toolchains
from slackwater.app.controlplane.cache import cache_root, fill
from slackwater.app.controlplane.gocommand import GoCommands
from slackwater.app.controlplane.recipe import BUILD_FLAGS, ldflags

SOURCES: Final = Path(__file__).parent / "go"
_NAME: Final = "oracle"


def build(environ: Mapping[str, str] = os.environ) -> Path:
    """Path of the program, made now unless it is in the cache.

    ToolchainError without Go; BuildFailed with the end of the output and the log's path.
    """
    toolchain = toolchains.locate(environ)
    entry = cache_root(environ) / _NAME / _key(toolchain.version)
    log = entry.with_name(entry.name + ".log")

    def make(folder: Path) -> None:
        toolchains.install(toolchain, environ)
        log.write_text("")
        print("building the oracle (seconds where the control plane is built, else minutes) ...", file=sys.stderr, flush=True)
        go = GoCommands(go=toolchain.go, log=log, environ=environ)
        go.run(_NAME, SOURCES, ["build", *BUILD_FLAGS, f"-ldflags={ldflags()}", "-o", str(folder / _NAME), "."])

    fill(entry, make)
    return entry / _NAME


def _key(go_version: tuple[int, int]) -> str:
    digest = hashlib.sha256(repr((go_version, sys.platform, platform.machine(), BUILD_FLAGS, ldflags())).encode())
    for path in sorted(path for path in SOURCES.rglob("*") if path.is_file()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(SOURCES).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]
