"""What to say about an object that does not exist: what somebody who named it may have meant.

sought = Absent(PodKey("default", "web-2"))
sought.look_at(keys)               # as often as there are parts of all keys
sought.hint                        # "; pods of this name are in namespace shop"
"""

from collections.abc import Iterable
from typing import Final

from slackwater.model.ids import PodKey
from slackwater.model.near_names import near_name
from slackwater.model.texts import first_few

_MOST_NAMED: Final = 4
_MOST_KNOWN: Final = 20


class Absent:
    """A pod, or with an empty namespace another object, that is looked for among the keys of those that exist."""

    def __init__(self, key: PodKey) -> None:
        self._key = key
        self._namespaces: list[str] = []
        self._begun: list[str] = []
        self._near: list[str] = []

    def look_at(self, keys: Iterable[PodKey]) -> None:
        """Looks at some of the keys."""
        namespace, name = self._key
        begin, first = f"{name}-", name[:1]
        alike = []
        for other in keys:
            if other.name == name:
                self._namespaces.append(other.namespace)
            elif other.namespace == namespace and other.name.startswith(begin):
                self._begun.append(other.name)
            elif other.namespace == namespace and other.name[:1].lower() == first.lower():
                alike.append(other.name)
        near = near_name(name, sorted(alike))
        if near is not None:
            self._near.append(near)

    @property
    def hint(self) -> str:
        """What to write after "it does not exist"; empty if nothing is like it."""
        if self._namespaces:
            return f"; pods of this name are in namespace {first_few(sorted(self._namespaces), _MOST_NAMED)}"
        if self._near:
            return f"; did you mean {min(self._near)}?"
        return f"; there are {first_few(sorted(self._begun), _MOST_NAMED)}" if self._begun else ""


def known_text(names: Iterable[str]) -> str:
    """The names that there are, of a kind that has few objects."""
    return f"; known: {first_few(sorted(names), _MOST_KNOWN) or 'none'}"
