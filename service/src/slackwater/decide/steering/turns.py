"""How fast kube-scheduler takes pods, and so how many it takes until a nomination made now is there for it to see."""

from math import ceil
from typing import Final

from slackwater.model.ids import Instant

#: Where it has taken none for so long it has nothing to do, or is not there.
_OF_LATE_SECONDS: Final = 1.0
#: It takes this long at least until kube-scheduler's watch has shown a nomination.
_LEAST_SECONDS: Final = 0.04
#: Some take longer than most.
_MARGIN: Final = 3.0
_NEWEST: Final = 0.1
_MOST: Final = 256


class Turns:
    """Fed with each pod that it takes, told or not, and with how long it took until our own watch showed a nomination."""

    def __init__(self) -> None:
        self._last: Instant | None = None
        #: Between one and the next, in the mean of late.
        self._apart_seconds = 0.01
        #: From the choice until the watch has shown it, in the mean of late.
        self._shown_seconds = _LEAST_SECONDS

    def taken(self, now: Instant) -> None:
        if self._last is not None and now - self._last < _OF_LATE_SECONDS:
            self._apart_seconds += (now - self._last - self._apart_seconds) * _NEWEST
        self._last = now

    def shown(self, seconds: float) -> None:
        """The watch has shown a nomination."""
        self._shown_seconds += (seconds - self._shown_seconds) * _NEWEST

    def meanwhile(self, now: Instant) -> int:
        """How many pods it takes until a nomination is shown; 0 where it has taken none of late."""
        if self._last is None or now - self._last > _OF_LATE_SECONDS:
            return 0
        taken = _MARGIN * max(self._shown_seconds, _LEAST_SECONDS) / max(self._apart_seconds, 0.001)
        return min(1 + ceil(taken), _MOST)
