"""Finds configurations in a file of objects, which are not read there, so that answers can say how to pass them.

A dump of a cluster has them in ConfigMaps, and a repository beside its manifests.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from slackwater.app.offline.objects import CONFIGURATIONS, FoundObject

CONFIG_MAP: Final = "ConfigMap"
#: In the JSON of a ConfigMap, whose texts are YAML or JSON.
_HELD: Final = re.compile(rf'kind(?:\\+")?: *(?:\\+")?({"|".join(CONFIGURATIONS)})\b'.encode())


def unread_configurations(by_kind: Mapping[str, Sequence[FoundObject]]) -> Iterator[str]:
    """Yields a text for people about each configuration of the file."""
    for item in by_kind[CONFIG_MAP]:
        for kind in dict.fromkeys(found.decode() for found in _HELD.findall(item.raw)):
            yield f"the {kind} in {item.title}, which is not read from here: {CONFIGURATIONS[kind]}"
    for kind, advice in CONFIGURATIONS.items():
        for item in by_kind[kind]:
            where = "of the file" if item.path == kind else f"at {item.path}"
            yield f"the {kind} {where}, which is not read from here: {advice}"
