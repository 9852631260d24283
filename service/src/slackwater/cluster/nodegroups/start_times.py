"""How long the nodes of a group take to start: from the call that asked for one until it takes pods.

What was there when the group was first looked at tells nothing: nobody knows when it was asked for. A machine that somebody
else asked for counts from when its provider first lists it. Which call a machine is of is not known either: the calls that
are not met yet are met in their order.
"""

from collections import deque
from collections.abc import Collection
from typing import Final

from slackwater.model.ids import Instant
from slackwater.model.nodegroups import InstanceId

_MOST: Final = 16
_MOST_ASKED: Final = 10_000


class StartTimes:
    """Of one group."""

    def __init__(self) -> None:
        self._asked: deque[Instant] = deque(maxlen=_MOST_ASKED)
        self._begun: dict[InstanceId, Instant] = {}
        #: All that were listed at the last look; None before the first.
        self._there: frozenset[InstanceId] | None = None
        self._seconds: deque[float] = deque(maxlen=_MOST)

    @property
    def seconds(self) -> tuple[float, ...]:
        """Of the last nodes that started, the newest last."""
        return tuple(self._seconds)

    def restore(self, seconds: Collection[float]) -> None:
        """What an earlier process saw; what this one saw is newer."""
        newer = list(self._seconds)
        self._seconds.clear()
        self._seconds.extend([*seconds, *newer])

    def asked(self, nodes: int, now: Instant) -> None:
        self._asked.extend([now] * min(nodes, _MOST_ASKED))

    def nothing_comes(self) -> None:
        """What was asked for has come, or will not."""
        self._asked.clear()

    def observe(self, there: Collection[InstanceId], started: Collection[InstanceId], now: Instant) -> None:
        """Which machines are listed now, and which of them take pods."""
        if self._there is not None:
            for id_ in sorted(frozenset(there) - self._there):
                self._begun[id_] = self._asked.popleft() if self._asked else now
        self._there = frozenset(there)
        for id_ in list(self._begun):
            if id_ not in self._there:
                del self._begun[id_]
            elif id_ in started:
                self._seconds.append(now - self._begun.pop(id_))
