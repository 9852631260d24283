"""How long the nodes of a node group take to start."""

from collections import deque
from collections.abc import Collection
from typing import Final

from slackwater.model.ids import Instant
from slackwater.model.nodegroups import InstanceId

_MOST: Final = 16
_MOST_ASKED: Final = 10_000


class StartTimes:
    """Measures how long the nodes of one group take from the request until they start."""

    def __init__(self) -> None:
        self._asked: deque[Instant] = deque(maxlen=_MOST_ASKED)
        self._begun: dict[InstanceId, Instant] = {}
        #: The instances listed at the last observation; None before the first.
        self._there: frozenset[InstanceId] | None = None
        self._seconds: deque[float] = deque(maxlen=_MOST)
        #: When each listed instance was requested, if we requested it.
        self.asked_at: dict[InstanceId, Instant] = {}

    @property
    def seconds(self) -> tuple[float, ...]:
        """How long the nodes that started last took to start, in seconds, the newest last."""
        return tuple(self._seconds)

    def restore(self, seconds: Collection[float]) -> None:
        """Adds what an earlier process measured, as older than what this process measured."""
        newer = list(self._seconds)
        self._seconds.clear()
        self._seconds.extend([*seconds, *newer])

    def asked(self, nodes: int, now: Instant) -> None:
        self._asked.extend([now] * min(nodes, _MOST_ASKED))

    def forget_open_requests(self) -> None:
        """Forgets open requests: all requested nodes have appeared, or will not."""
        self._asked.clear()

    def observe(self, there: Collection[InstanceId], started: Collection[InstanceId], now: Instant) -> None:
        """Updates the start times from the instances that are listed now and those of them that take pods."""
        if self._there is not None:
            for id_ in sorted(frozenset(there) - self._there):
                if self._asked:
                    self.asked_at[id_] = self._asked.popleft()
                self._begun[id_] = self.asked_at.get(id_, now)
        self._there = frozenset(there)
        self.asked_at = {id_: at for id_, at in self.asked_at.items() if id_ in self._there}
        for id_ in list(self._begun):
            if id_ not in self._there:
                del self._begun[id_]
            elif id_ in started:
                self._seconds.append(now - self._begun.pop(id_))
