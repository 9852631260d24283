"""Decodes the ConfigMap of Cluster Autoscaler's expander `priority`."""

from typing import Final

import msgspec

from slackwater.adapters.kube.errors import UNREADABLE
from slackwater.adapters.kube.wire import Wire
from slackwater.adapters.kube.yamltext import YamlProblem, yaml_tree
from slackwater.controllers.scaleup.expanders.priority import BadPriorities, Priorities, read_priorities
from slackwater.model.selectors import whole_number

CONFIG_MAP: Final = "cluster-autoscaler-priority-expander"
_KEY: Final = "priorities"
#: The longest text. It is parsed on the event loop, and usual ones have some hundred characters.
_LONGEST: Final = 64 << 10


class _ConfigMapWire(Wire):
    data: dict[str, str] | None = None


_CONFIG_MAP: Final = msgspec.json.Decoder(_ConfigMapWire)


def decode_priorities(raw: bytes | msgspec.Raw) -> Priorities:
    """The priorities in the ConfigMap's JSON. Raises BadPriorities."""
    try:
        data = _CONFIG_MAP.decode(raw).data or {}
    except UNREADABLE as err:
        raise BadPriorities(f"ConfigMap {CONFIG_MAP}: {err}") from err
    if _KEY not in data:
        raise BadPriorities(f"ConfigMap {CONFIG_MAP}: got no key {_KEY}, want one")
    if len(data[_KEY]) > _LONGEST:
        raise BadPriorities(f"ConfigMap {CONFIG_MAP}: {_KEY} has {len(data[_KEY])} characters, want at most {_LONGEST}")
    try:
        document = yaml_tree(data[_KEY])
    except YamlProblem as err:
        raise BadPriorities(f"ConfigMap {CONFIG_MAP}: {_KEY} is no YAML: {err}") from err
    return read_priorities(_by_number(document))


def _by_number(document: object) -> object:
    """The entries by priority: keys that are whole numbers, as integers."""
    if not isinstance(document, dict):
        return document
    return {key if (number := whole_number(key)) is None else number: value for key, value in document.items()}
