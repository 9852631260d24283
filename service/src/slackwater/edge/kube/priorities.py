"""The ConfigMap of Cluster Autoscaler's expander `priority`, as its users have it."""

from typing import Any, Final

import msgspec
import yaml

from slackwater.decide.scaleup.expanders.priority import BadPriorities, Priorities, read_priorities
from slackwater.edge.kube.wire import Wire

CONFIG_MAP: Final = "cluster-autoscaler-priority-expander"
_KEY: Final = "priorities"


class _ConfigMapWire(Wire):
    data: dict[str, str] | None = None


_CONFIG_MAP: Final = msgspec.json.Decoder(_ConfigMapWire)


def decode_priorities(raw: bytes | msgspec.Raw) -> Priorities:
    """From the ConfigMap's JSON. Raises BadPriorities."""
    try:
        data = _CONFIG_MAP.decode(raw).data or {}
    except msgspec.DecodeError as err:
        raise BadPriorities(f"ConfigMap {CONFIG_MAP}: {err}") from err
    if _KEY not in data:
        raise BadPriorities(f"ConfigMap {CONFIG_MAP}: got no key {_KEY}, want one")
    try:
        document: Any = yaml.safe_load(data[_KEY])
    except (yaml.YAMLError, ValueError, RecursionError) as err:
        raise BadPriorities(f"ConfigMap {CONFIG_MAP}: {_KEY} is no YAML: {' '.join(str(err).split())}") from err
    return read_priorities(document)
