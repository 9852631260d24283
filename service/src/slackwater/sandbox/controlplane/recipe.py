"""What the control plane is built from: modules, targets, flags, and the key that names one build.

Data only. Versions live in go/*/go.mod and nowhere else; there is no Go code of ours, the targets are upstream's
own main packages.
"""

import hashlib
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

GO_FILES: Final = Path(__file__).parent / "go"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One binary."""

    name: str  #: of the file, and of the component
    module: str  #: folder under `GO_FILES`
    package: str  #: import path of the main package


TARGETS: Final = (
    Target(name="etcd", module="kubernetes", package="go.etcd.io/etcd/server/v3"),
    Target(name="kube-apiserver", module="kubernetes", package="k8s.io/kubernetes/cmd/kube-apiserver"),
    Target(name="kube-controller-manager", module="kubernetes", package="k8s.io/kubernetes/cmd/kube-controller-manager"),
    Target(name="kube-scheduler", module="kubernetes", package="k8s.io/kubernetes/cmd/kube-scheduler"),
    Target(name="kwok", module="kwok", package="sigs.k8s.io/kwok/cmd/kwok"),
)
MODULES: Final = tuple(dict.fromkeys(target.module for target in TARGETS))

KWOK_PATH: Final = "sigs.k8s.io/kwok"
#: Files of KWOK's own module that say how a node and a pod live; `OUR_STAGES` completes them. Without any stage KWOK
#: refuses to start.
KWOK_STAGES: Final = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-complete.yaml",
    "pod/fast/pod-delete.yaml",
)
OUR_STAGES: Final = GO_FILES / "kwok" / "stages" / "pods.yaml"

#: Upstream's release builds use the same two tags: they leave test hooks and gRPC's tracing pages out. No debug
#: information is made, since none is linked: a tenth less time, a quarter less of Go's build cache.
BUILD_FLAGS: Final = (
    "-trimpath",
    "-buildvcs=false",
    "-mod=readonly",
    "-tags=grpcnotrace,notest",
    "-gcflags=all=-dwarf=false",
)


def required_version(go_mod: str, path: str) -> str:
    """Version of module `path` in the text of a go.mod, for example "v1.36.3"; ValueError where it is not required."""
    found = re.search(rf"^(?:require)?\s+{re.escape(path)} (v\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise ValueError(f"go.mod requires no {path}")
    return found[1]


def ldflags(go_files: Path = GO_FILES) -> str:
    """Linker flags: no debug tables, and the version that Kubernetes' own release script stamps."""
    version = required_version((go_files / "kubernetes" / "go.mod").read_text(), "k8s.io/kubernetes")
    major, minor, _ = version.removeprefix("v").split(".", 2)
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    # The first is what /version answers, the second what goes into the User-Agent.
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s -w", *(f"-X {pkg}.{name}={value}" for pkg in packages for name, value in stamps.items())])


def recipe_key(go_version: tuple[int, int], *, go_files: Path = GO_FILES) -> str:
    """Names the build: 16 hex digits over everything that can change a binary, the machine's kind included."""
    digest = hashlib.sha256()
    for part in _ingredients(go_version, go_files):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()[:16]


def _ingredients(go_version: tuple[int, int], go_files: Path) -> Iterator[bytes]:
    yield repr((go_version, sys.platform, platform.machine())).encode()
    yield repr((TARGETS, KWOK_STAGES, BUILD_FLAGS, ldflags(go_files))).encode()
    for path in sorted(path for path in go_files.rglob("*") if path.is_file()):
        yield path.relative_to(go_files).as_posix().encode()
        yield path.read_bytes()
