"""Logs objects that cannot be read, each once for each problem, so that an object that changes often does not fill the log.

In: what the reflectors could not read. Out: log lines. The metrics of the event sources count every event, and `/dumpstate`
has the nodes that are closed.
"""

from collections import OrderedDict
from typing import Final

import structlog

_log = structlog.get_logger(__name__)

#: The most objects that are remembered; the one that was reported longest ago is forgotten first.
_MOST: Final = 4096
#: The most characters of a problem's text: it quotes what the object has.
_LONGEST: Final = 500


class BrokenObjects:
    """What reflectors call for an object that they cannot read; see the module."""

    def __init__(self) -> None:
        self._said: OrderedDict[tuple[str, str], int] = OrderedDict()

    def __call__(self, resource: str, name: str, error: Exception) -> None:
        """Logs the problem, unless it was the last one that was logged for this object."""
        text = str(error)
        key, problem = (resource, name), hash(text)
        if self._said.get(key) == problem:
            return
        self._said[key] = problem
        self._said.move_to_end(key)
        if len(self._said) > _MOST:
            self._said.popitem(last=False)
        _log.error("object cannot be read", resource=resource, name=name, error=text[:_LONGEST])
