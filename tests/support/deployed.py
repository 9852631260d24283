"""The objects of the manifests that are rendered from the chart: `deploy/slackwater.yaml`, without the account's rights."""

from pathlib import Path
from typing import Any, Final

import yaml

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
#: Without `rbac.yaml`, which the code writes.
DEPLOYED: Final[list[dict[str, Any]]] = list(yaml.safe_load_all((DEPLOY / "slackwater.yaml").read_text()))
