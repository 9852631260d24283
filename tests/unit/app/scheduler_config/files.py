"""A clean KubeSchedulerConfiguration, changed in one field, and what `check` finds in it."""

import copy
from typing import Any

import yaml

from slackwater.app.scheduler_config.check import check
from slackwater.app.scheduler_config.config_tree import Finding
from slackwater.app.scheduler_config.generate import generate
from slackwater.app.scheduler_config.transport import CertificateNames
from slackwater.app.settings import Settings, loads
from tests.support.configuration import HEADER

#: Slackwater binds, and kube-scheduler chooses.
BINDS = loads(HEADER + "extender: {bind: true}\n")
CLEAN: dict[str, Any] = yaml.safe_load(generate(Settings(), kubeconfig=None, extender_url=None))
REMOVED = object()


def changed(**fields: Any) -> dict[str, Any]:
    """The clean file; fields of the top level, or of the extender with the prefix `x_`."""
    file = copy.deepcopy(CLEAN)
    for name, value in fields.items():
        holder, key = (file["extenders"][0], name[2:]) if name.startswith("x_") else (file, name)
        if value is REMOVED:
            holder.pop(key, None)
        else:
            holder[key] = value
    return file


def binding(**fields: Any) -> dict[str, Any]:
    """The clean file for `BINDS`, changed."""
    return changed(**{"x_bindVerb": "bind", "profiles": [{"schedulerName": "slackwater"}]} | fields)


def found(file: dict[str, Any], settings: Settings | None = None, certificate: CertificateNames | None = None) -> list[Finding]:
    return check(yaml.safe_dump(file, sort_keys=False), settings, certificate=certificate)


def traps(
    file: dict[str, Any], settings: Settings | None = None, certificate: CertificateNames | None = None
) -> list[tuple[str, str, str]]:
    return [(finding.path, finding.trap, finding.severity) for finding in found(file, settings, certificate)]


def https(**tls: Any) -> dict[str, Any]:
    return changed(x_urlPrefix="https://127.0.0.1:10297/scheduler", x_enableHTTPS=True, x_tlsConfig=tls)


X = "extenders[0]"
