"""Finds or makes the Go module with which a version of Kubernetes is built.

The folders `go/kubernetes*` of the recipe have the modules of the supported versions, with checksums. For any other version,
such as a newer patch release, a module is made in the cache: it replaces the staging modules that upstream's go.mod names by
their releases. Go's checksum database verifies what is downloaded.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support.controlplane import toolchain as toolchains
from tests.support.controlplane.cache import cache_root, fill
from tests.support.controlplane.errors import ControlPlaneError, VersionError
from tests.support.controlplane.recipe import DEFAULT, recipes
from tests.support.controlplane.toolchain import GoCommands

_VERSION: Final = re.compile(r"v?(1\.\d{1,3}\.\d{1,4}(?:-(?:alpha|beta|rc)\.\d{1,3})?)", re.ASCII)
_STAGING: Final = re.compile(r"^\s+(k8s\.io/\S+) => \./staging/", re.MULTILINE)
_ETCD: Final = "go.etcd.io/etcd/server/v3"
_STEP: Final = "module of Kubernetes"


def module_of(kubernetes: str | None, *, environ: Mapping[str, str] = os.environ) -> Path:
    """The folder with the go.mod of a version of Kubernetes (None: the default). Makes it if neither the recipe nor the cache
    has it.

    Raises VersionError for a text that is no full version, ToolchainError without Go, and BuildFailed if the registry has
    no such version.
    """
    if kubernetes is None:
        return DEFAULT
    found = _VERSION.fullmatch(kubernetes)
    if found is None:
        raise VersionError(f"got version {kubernetes[:60]!r}, want a full one like 1.35.4; built here: {', '.join(recipes())}")
    version = found[1]
    return recipes().get(version) or _made(version, environ)


def _made(version: str, environ: Mapping[str, str]) -> Path:
    entry = cache_root(environ) / "kubernetes-modules" / version
    toolchain = toolchains.locate(environ)
    log = entry.with_name(entry.name + ".log")

    def make(folder: Path) -> None:
        toolchains.install(toolchain, environ)
        log.write_text("")
        go = GoCommands(go=toolchain.go, log=log, environ=environ)
        upstream = _upstream(go, folder, version)
        (folder / "go.mod").write_text(go_mod(upstream, version))
        go.run(_STEP, folder, ["mod", "tidy"], module_mode="mod")

    fill(entry, make)
    return entry


def _upstream(go: GoCommands, folder: Path, version: str) -> str:
    """The go.mod of k8s.io/kubernetes itself."""
    (folder / "go.mod").write_text("module slackwater.dev/controlplane/none\n")
    lines = go.run(_STEP, folder, ["list", "-m", "-f", "{{.GoMod}}", f"k8s.io/kubernetes@v{version}"], module_mode="mod")
    return Path(lines[-1]).read_text()


def go_mod(upstream: str, version: str) -> str:
    """The text of a go.mod that builds the components of this version. `upstream`: the go.mod of k8s.io/kubernetes."""
    language = re.search(r"^go (\S+)", upstream, re.MULTILINE)
    etcd = re.search(r"^\s+go\.etcd\.io/etcd/api/v3 (v\S+)", upstream, re.MULTILINE)
    staging = _STAGING.findall(upstream)
    if language is None or etcd is None or not staging:
        raise ControlPlaneError(f"the go.mod of k8s.io/kubernetes v{version} has no go line, no etcd, or no staging modules")
    head, _, rest = (DEFAULT / "go.mod").read_text().partition("\ngo ")
    tools = rest[rest.index("tool (") : rest.index("require (")]
    replaced = "".join(f"\t{path} => {path} v0{version[1:]}\n" for path in staging)
    required = f"\t{_ETCD} {etcd[1]} // indirect\n\tk8s.io/kubernetes v{version} // indirect\n"
    return f"{head}\n\ngo {language[1]}\n\n{tools}require (\n{required})\n\nreplace (\n{replaced})\n".replace("\n\n\n", "\n\n")
