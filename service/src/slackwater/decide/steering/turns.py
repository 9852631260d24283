"""How fast kube-scheduler takes pods, and so how long it needs until it comes to one of them.

A pod that was told takes it a fraction of the time of one for which it searches, so the two are timed apart. A nomination is in
time where the pods before it take longer than it takes until a nomination is shown, with a margin: some take longer than most.
The margin grows with each that came too late, and shrinks again while they are met. Deliberately absent: how many there are.
"""

from collections.abc import Iterable
from typing import Final

from slackwater.model.ids import Instant

#: A pod's place in kube-scheduler's queue: its priority, negative, and as the how-manieth it came.
Turn = tuple[int, int]

#: Where it has taken none for so long it has nothing to do, or is not there.
_OF_LATE_SECONDS: Final = 1.0
#: It takes this long at least until kube-scheduler's watch has shown a nomination.
_LEAST_SECONDS: Final = 0.04
_LEAST_MARGIN: Final = 3.0
_MOST_MARGIN: Final = 12.0
_WIDER: Final = 1.25
_NARROWER: Final = 0.99
_NEWEST: Final = 0.1
#: A pause, in which it had nothing to do, says little of how fast it is.
_PAUSE: Final = 3.0
_LEAST_APART_SECONDS: Final = 0.0005


class Turns:
    """Fed with each pod that it takes, told or not, and with how long it took until our own watch showed a nomination."""

    def __init__(self) -> None:
        self._last: Instant | None = None
        self._last_told = False
        #: From one pod to the next, in the mean of late; by whether the first of the two was told.
        self._apart = {False: 0.01, True: 0.005}
        #: From the choice until the watch has shown it, in the mean of late.
        self._shown_seconds = _LEAST_SECONDS
        self._margin = _LEAST_MARGIN

    def taken(self, now: Instant, *, told: bool) -> None:
        if self._last is not None and now - self._last < _OF_LATE_SECONDS:
            mean = self._apart[self._last_told]
            seconds = min(max(now - self._last, _LEAST_APART_SECONDS), _PAUSE * mean)
            self._apart[self._last_told] = mean + (seconds - mean) * _NEWEST
        self._last, self._last_told = now, told

    def shown(self, seconds: float) -> None:
        """The watch has shown a nomination."""
        self._shown_seconds += (seconds - self._shown_seconds) * _NEWEST

    def met(self) -> None:
        self._margin = max(self._margin * _NARROWER, _LEAST_MARGIN)

    def late(self) -> None:
        """kube-scheduler was there before the nomination."""
        self._margin = min(self._margin * _WIDER, _MOST_MARGIN)

    def queue(self, told: Iterable[Turn], now: Instant) -> "Queue":
        """`told` are the turns of pods that were told and that it has not come to."""
        idle = self._last is None or now - self._last > _OF_LATE_SECONDS
        seconds = 0.0 if idle else self._margin * max(self._shown_seconds, _LEAST_SECONDS)
        return Queue(seconds, told if seconds else (), self._apart)


class Queue:
    """kube-scheduler's queue, walked along once from its head."""

    def __init__(self, seconds: float, told: Iterable[Turn], apart: dict[bool, float]) -> None:
        """A nomination takes `seconds` until it is shown; 0 where nobody takes pods."""
        self._left_seconds = seconds
        self._told = sorted(told, reverse=True)
        self._apart = apart

    def is_far(self, turn: Turn) -> bool:
        """Will a nomination made now be there before kube-scheduler comes to this turn? Where not, that pod is searched for.

        Asked about the turns of pods that were not told, in order.
        """
        while self._left_seconds > 0 and self._told and self._told[-1] < turn:
            self._told.pop()
            self._left_seconds -= self._apart[True]
        if self._left_seconds <= 0:
            return True
        self._left_seconds -= self._apart[False]
        return False
