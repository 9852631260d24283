"""helm itself, and what it renders from deploy/chart.

Flows through: values -> `helm template` -> the objects, in helm's order. Deliberately absent: clusters; helm talks to none.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support import goprogram
from tests.support.controlplane.recipe import GO_FILES, required_version

SOURCES: Final = Path(__file__).parent / "go"
CHART: Final = Path(__file__).parents[2] / "deploy" / "chart"
EXAMPLES: Final = Path(__file__).parents[2] / "examples"
#: The names of the examples, which are folders.
NAMES: Final = sorted(path.parent.name for path in EXAMPLES.glob("*/values.yaml"))
NAMESPACE: Final = "kube-system"
#: The control plane's: without a cluster helm has to be told.
KUBERNETES: Final = required_version((GO_FILES / "kubernetes" / "go.mod").read_text(), "k8s.io/kubernetes")
_DEADLINE_SECONDS: Final = 240.0

Object = dict[str, Any]


class HelmRefused(Exception):
    """helm did not render; its own words."""


def build() -> Path:
    """Path of helm, made now unless it is in the cache; errors as of `goprogram.build`."""
    return goprogram.build("helm", SOURCES, package="helm.sh/helm/v3/cmd/helm")


def ask(helm: Path, *arguments: str, values: Mapping[str, Any] | None = None) -> str:
    """What helm prints. `values` are given as a file would give them. HelmRefused unless it exits with 0."""
    given = ["--values", "-"] if values is not None else []
    done = subprocess.run(
        [helm, *arguments, *given],
        input=json.dumps(values) if values is not None else "",
        capture_output=True,
        text=True,
        timeout=_DEADLINE_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise HelmRefused(done.stderr.strip())
    return done.stdout


def template(
    helm: Path,
    values: Mapping[str, Any] | None = None,
    *,
    files: Sequence[str] = (),
    namespace: str = NAMESPACE,
    hooks: bool = False,
) -> str:
    """The manifests as text, those of hooks only if asked for. `files` are names of examples."""
    chosen = [part for name in files for part in ("--values", str(EXAMPLES / name / "values.yaml"))]
    place = ["--namespace", namespace, "--kube-version", KUBERNETES, *([] if hooks else ["--no-hooks"])]
    return ask(helm, "template", "slackwater", str(CHART), *place, *chosen, values=values)


def rendered(
    helm: Path,
    values: Mapping[str, Any] | None = None,
    *,
    files: Sequence[str] = (),
    namespace: str = NAMESPACE,
    hooks: bool = False,
) -> list[Object]:
    """The objects of the manifests."""
    return objects(template(helm, values, files=files, namespace=namespace, hooks=hooks))


def objects(text: str) -> list[Object]:
    """All objects of a YAML stream; empty documents are none."""
    return [item for item in yaml.safe_load_all(text) if item is not None]


def the(items: Sequence[Object], kind: str, name: str = "slackwater") -> Object:
    """The one object of this kind and name; LookupError unless there is exactly one."""
    found = [item for item in items if (item["kind"], item["metadata"]["name"]) == (kind, name)]
    if len(found) != 1:
        raise LookupError(f"{kind} {name}: there are {len(found)}, want one")
    return found[0]
