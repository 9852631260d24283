"""Karpenter's controller with its kwok provider, built from its Go module, and its CustomResourceDefinitions."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support import goprogram
from tests.support.controlplane import toolchain
from tests.support.controlplane.recipe import required_version

_HERE: Final = Path(__file__).parent
_SOURCES: Final = _HERE / "go"
_MODULE: Final = "sigs.k8s.io/karpenter"
_CRDS: Final = ("pkg/apis/crds", "kwok/apis/crds")


def version() -> str:
    """As "v1.15.0"."""
    return required_version((_SOURCES / "go.mod").read_text(), _MODULE)


def find() -> Path | None:
    """Path of the controller if it is in the cache."""
    return goprogram.find("karpenter", _SOURCES, toolchain=_go())


def build() -> Path:
    """Path of the controller, made now unless it is in the cache; errors as of `goprogram.build`."""
    return goprogram.build("karpenter", _SOURCES, package=f"{_MODULE}/kwok", toolchain=_go())


def crds() -> list[dict[str, Any]]:
    """Those of Karpenter and of its kwok provider, which come with the module; it is fetched where only the program is kept."""
    environment = toolchain.clean_environment(os.environ)
    ask = [str(_go().go), "mod", "download", "-json", _MODULE]
    found = subprocess.run(ask, cwd=_SOURCES, env=environment, capture_output=True, text=True, check=True, timeout=60)
    files = [file for folder in _CRDS for file in sorted((Path(json.loads(found.stdout)["Dir"]) / folder).glob("*.yaml"))]
    return [yaml.safe_load(file.read_text()) for file in files]


def _go() -> toolchain.Toolchain:
    return toolchain.of_wheel(requirements=_HERE / "go-toolchain.txt")
