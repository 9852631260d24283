"""The Go program that runs kube-scheduler's plug-ins: its sources, and where it is built, for each version of Kubernetes.

The sources of all versions are the same but for files that build tags select, named after the versions that they are for. The
modules are those of the control plane's recipe.
"""

from pathlib import Path
from typing import Final

from slackwater.model.kubernetes_rules import NEWEST_MINOR, OLDEST_MINOR, KubernetesVersion
from tests.support import goprogram
from tests.support.controlplane.modules import module_of
from tests.support.controlplane.recipe import version_of

SOURCES: Final = Path(__file__).parent / "go"
#: The minor version whose files need no build tag.
_UNTAGGED: Final = 36


def build(kubernetes: str | None = None) -> Path:
    """Path of the program for a version, None for the default one. It is made now unless it is in the cache; errors as of
    `goprogram.build` and `module_of`."""
    module = _module(kubernetes)
    return goprogram.build("oracle", SOURCES, tags=_tags(kubernetes), module=module)


def find(kubernetes: str) -> Path | None:
    """Path of the program for a version if it is in the cache."""
    return goprogram.find("oracle", SOURCES, tags=_tags(kubernetes), module=_module(kubernetes))


def _module(kubernetes: str | None) -> Path:
    return module_of(kubernetes or version_of())


def _tags(kubernetes: str | None) -> tuple[str, ...]:
    """The build tag of the version's files; a newer version is tried with the newest one's."""
    minor = _UNTAGGED if kubernetes is None else KubernetesVersion.parse(kubernetes).minor
    known = min(max(minor, OLDEST_MINOR), NEWEST_MINOR)
    return () if known == _UNTAGGED else (f"kubernetes_1_{known}",)
