"""Start times of a group's nodes: from the call that requests a node until the node takes pods.

Instances that existed at the first observation are not measured, since nobody knows when they were requested. An instance that
somebody else requested counts from when its provider first lists it. Nobody knows either which call an instance belongs to: new
instances are matched with open requests in order.
"""

from collections import deque
from collections.abc import Collection
from typing import Final

from slackwater.model.ids import Instant
from slackwater.model.nodegroups import InstanceId

_MOST: Final = 16
_MOST_ASKED: Final = 10_000


class StartTimes:
    """The start times of one group."""

    def __init__(self) -> None:
        self._asked: deque[Instant] = deque(maxlen=_MOST_ASKED)
        self._begun: dict[InstanceId, Instant] = {}
        #: The instances listed at the last observation; None before the first.
        self._there: frozenset[InstanceId] | None = None
        self._seconds: deque[float] = deque(maxlen=_MOST)

    @property
    def seconds(self) -> tuple[float, ...]:
        """The start times of the last nodes that started, the newest last."""
        return tuple(self._seconds)

    def restore(self, seconds: Collection[float]) -> None:
        """Adds the start times that an earlier process measured; those of this process are newer."""
        newer = list(self._seconds)
        self._seconds.clear()
        self._seconds.extend([*seconds, *newer])

    def asked(self, nodes: int, now: Instant) -> None:
        self._asked.extend([now] * min(nodes, _MOST_ASKED))

    def nothing_comes(self) -> None:
        """Forgets open requests: all requested nodes have come, or will not come."""
        self._asked.clear()

    def observe(self, there: Collection[InstanceId], started: Collection[InstanceId], now: Instant) -> None:
        """Updates the start times with the instances listed now, and those of them that take pods."""
        if self._there is not None:
            for id_ in sorted(frozenset(there) - self._there):
                self._begun[id_] = self._asked.popleft() if self._asked else now
        self._there = frozenset(there)
        for id_ in list(self._begun):
            if id_ not in self._there:
                del self._begun[id_]
            elif id_ in started:
                self._seconds.append(now - self._begun.pop(id_))
