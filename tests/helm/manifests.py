"""The plain manifests of deploy/, as the chart's defaults render.

Flows through: what helm prints -> the texts of `slackwater.yaml` and `gate/policy.yaml`, comments and all. What `rbac.yaml` has
is left out: that file is written from the code itself. Deliberately absent: any change of what helm rendered.
"""

import re
from pathlib import Path
from typing import Final

import yaml

from tests.helm.program import CHART, template

DEPLOY: Final = CHART.parent
_MADE: Final = "Rendered from deploy/chart by `make docs HELM=1`; change it there."
_HEADS: Final = {
    "slackwater.yaml": f"""\
# {_MADE}
# One Pod with two containers: a kube-scheduler of its own, for pods with `schedulerName: slackwater`, and slackwater, which
# that scheduler asks over loopback. Apply rbac.yaml too: it has the account. docs/operations.md explains what is chosen here.
""",
    "gate/policy.yaml": f"# {_MADE}\n",
    "shadow/slackwater.yaml": f"""\
# {_MADE}
# Slackwater as a shadow, with its account. It plans nodes once its configuration has node groups; the account needs more rights
# then: `slackwater config rbac --shadow F` prints them.
""",
}


def manifests(helm: Path) -> dict[str, str]:
    """The text of each file by its path under deploy/."""
    written = {_name(part) for part in _documents((DEPLOY / "rbac.yaml").read_text())}
    plain = [part for part in _documents(template(helm)) if _name(part) not in written]
    default = {_name(part) for part in plain} | written
    gate = [part for part in _documents(template(helm, {"gate": {"enabled": True}})) if _name(part) not in default]
    shadow = _documents(template(helm, {"shadow": True}))
    return {
        path: _HEADS[path] + "".join(f"---\n{part}" for part in parts)
        for path, parts in (("slackwater.yaml", plain), ("gate/policy.yaml", gate), ("shadow/slackwater.yaml", shadow))
    }


def _documents(text: str) -> list[str]:
    """The documents of a YAML stream that have something in them, without helm's own comments."""
    parts = re.split(r"^---\n", re.sub(r"^# Source: .*\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE)
    return [f"{part.strip()}\n" for part in parts if yaml.safe_load(part) is not None]


def _name(document: str) -> tuple[str, str]:
    item = yaml.safe_load(document)
    return item["kind"], item["metadata"]["name"]
