"""How often kube-scheduler searches for pods by itself, and how many it takes until a nomination made now is written."""

from math import ceil
from typing import Final

from slackwater.model.ids import Instant

#: Without a search for so long it has not caught up with us, or has nothing to do.
_OF_LATE_SECONDS: Final = 0.25
#: A write takes this long at least, with what it takes until kube-scheduler has seen it.
_LEAST_WRITE_SECONDS: Final = 0.02
#: Some writes take longer than most.
_MARGIN: Final = 2.0
_NEWEST: Final = 0.2
_MOST: Final = 256


class Searches:
    """Fed with each search's beginning."""

    def __init__(self) -> None:
        self._last: Instant | None = None
        #: Between one and the next, in the mean of late.
        self._apart_seconds = _OF_LATE_SECONDS

    def begun(self, now: Instant) -> None:
        if self._last is not None:
            apart = min(now - self._last, _OF_LATE_SECONDS)
            self._apart_seconds += (apart - self._apart_seconds) * _NEWEST
        self._last = now

    def meanwhile(self, write_seconds: float, now: Instant) -> int:
        """How many pods it takes while a nomination is written; 0 where it has not searched of late."""
        if self._last is None or now - self._last > _OF_LATE_SECONDS:
            return 0
        taken = _MARGIN * max(write_seconds, _LEAST_WRITE_SECONDS) / max(self._apart_seconds, 0.001)
        return min(1 + ceil(taken), _MOST)
