"""kubectl itself, built from Kubernetes' Go module, as the control plane is."""

from pathlib import Path
from typing import Final

from tests.support import goprogram

SOURCES: Final = Path(__file__).parent / "go"


def build() -> Path:
    """Path of kubectl, made now unless it is in the cache; errors as of `goprogram.build`."""
    return goprogram.build("kubectl", SOURCES, package="k8s.io/kubernetes/cmd/kubectl")
