"""Defines how the control plane is built: modules, targets, flags, and the key that names a build.

Only the files go/*/go.mod contain versions: `go/kubernetes` has the default version of Kubernetes, `go/kubernetes-X` version X.
There is no Go code of ours: the targets are upstream's main packages. `modules` makes the go.mod files of other versions.
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
#: The module of the default version of Kubernetes.
DEFAULT: Final = GO_FILES / "kubernetes"
_KUBERNETES: Final = "kubernetes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One binary to build."""

    name: str  #: the name of the file and of the component
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
#: Files of KWOK's module that define how nodes and pods change state (stages); `OUR_STAGES` adds others. KWOK refuses to start
#: without stages.
KWOK_STAGES: Final = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-complete.yaml",
    "pod/fast/pod-delete.yaml",
)
OUR_STAGES: Final = GO_FILES / "kwok" / "stages" / "pods.yaml"

#: The two tags are those of upstream's release builds: they leave out test hooks and gRPC's tracing pages. Without debug
#: information, which is not linked anyway, a build takes a tenth less time and a quarter less of Go's build cache.
BUILD_FLAGS: Final = (
    "-trimpath",
    "-buildvcs=false",
    "-mod=readonly",
    "-tags=grpcnotrace,notest",
    "-gcflags=all=-dwarf=false",
)


def required_version(go_mod: str, path: str) -> str:
    """The version of module `path` in the text of a go.mod, such as "v1.36.3". Raises ValueError if the text does not require
    the module."""
    found = re.search(rf"^(?:require)?\s+{re.escape(path)} (v\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise ValueError(f"go.mod requires no {path}")
    return found[1]


def version_of(module: Path = DEFAULT) -> str:
    """The version of Kubernetes that a module's go.mod requires, for example "1.36.3"."""
    return required_version((module / "go.mod").read_text(), "k8s.io/kubernetes").removeprefix("v")


def recipes() -> dict[str, Path]:
    """The folders of this recipe's Kubernetes modules, by version of Kubernetes, the oldest version first."""
    found = {version_of(module): module for module in GO_FILES.glob(f"{_KUBERNETES}*") if (module / "go.mod").exists()}
    return dict(sorted(found.items(), key=lambda item: [int(part) for part in item[0].split(".")]))


def ldflags(module: Path = DEFAULT) -> str:
    """Linker flags: they leave out debug tables, and set the version as Kubernetes' release script does."""
    version = f"v{version_of(module)}"
    major, minor, _ = version.removeprefix("v").split(".", 2)
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    # The first package's version is the answer of /version, the second's is in the User-Agent.
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s -w", *(f"-X {pkg}.{name}={value}" for pkg in packages for name, value in stamps.items())])


def recipe_key(go_version: tuple[int, int], *, go_files: Path = GO_FILES, module: Path | None = None) -> str:
    """The name of a build: 16 hex digits of a hash over everything that can change a binary, including the machine's type.
    `module`: the folder of the Kubernetes module; None: that of the default version."""
    digest = hashlib.sha256()
    for part in _hashed_inputs(go_version, go_files, module or go_files / _KUBERNETES):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()[:16]


def _hashed_inputs(go_version: tuple[int, int], go_files: Path, module: Path) -> Iterator[bytes]:
    yield repr((go_version, sys.platform, platform.machine())).encode()
    yield repr((TARGETS, KWOK_STAGES, BUILD_FLAGS, ldflags(module))).encode()
    # Only the files of the chosen Kubernetes module are hashed, under the same name for each version.
    others = {folder.name for folder in go_files.glob(f"{_KUBERNETES}*")}
    shared = {path.relative_to(go_files).as_posix(): path for path in go_files.rglob("*") if path.is_file()}
    files = {name: path for name, path in shared.items() if name.split("/")[0] not in others}
    files |= {f"{_KUBERNETES}/{path.relative_to(module).as_posix()}": path for path in module.rglob("*") if path.is_file()}
    for name, path in sorted(files.items(), key=lambda item: Path(item[0])):
        yield name.encode()
        yield path.read_bytes()
