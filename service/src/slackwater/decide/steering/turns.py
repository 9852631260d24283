"""How fast kube-scheduler takes pods, and so how many it takes until a nomination made now is there for it to see."""

from math import ceil
from typing import Final

from slackwater.model.ids import Instant

#: Where it has taken none for so long it has nothing to do, or is not there.
_OF_LATE_SECONDS: Final = 1.0
#: A write takes this long at least, with what it takes until kube-scheduler's watch has shown it.
_LEAST_WRITE_SECONDS: Final = 0.04
#: Some take longer than most.
_MARGIN: Final = 3.0
_NEWEST: Final = 0.1
_MOST: Final = 256


class Turns:
    """Fed with each pod that it takes, told or not."""

    def __init__(self) -> None:
        self._last: Instant | None = None
        #: Between one and the next, in the mean of late.
        self._apart_seconds = 0.01

    def taken(self, now: Instant) -> None:
        if self._last is not None and now - self._last < _OF_LATE_SECONDS:
            self._apart_seconds += (now - self._last - self._apart_seconds) * _NEWEST
        self._last = now

    def meanwhile(self, write_seconds: float, now: Instant) -> int:
        """How many pods it takes while a nomination is written; 0 where it has taken none of late."""
        if self._last is None or now - self._last > _OF_LATE_SECONDS:
            return 0
        taken = _MARGIN * max(write_seconds, _LEAST_WRITE_SECONDS) / max(self._apart_seconds, 0.001)
        return min(1 + ceil(taken), _MOST)
