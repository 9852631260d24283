"""How fast kube-scheduler takes pods, and so how long it needs until it comes to one of them.

A pod that was told takes it a fraction of the time of one for which it searches, so the two are timed apart. A nomination is in
time where the pods before it take longer than it takes until a nomination is shown, with a margin: some take longer than most.
The margin grows where one came too late, and shrinks again while they are met.

All this holds where it takes pods in their order. What it listed at its start it takes in none: then any pod may be the next,
and nominations are worth making as long as all of the queue together takes it that long.
"""

from collections.abc import Collection, Iterable
from typing import Final

from slackwater.model.ids import Instant

#: A pod's place in kube-scheduler's queue: its priority, negative, and as the how-manieth it came.
Turn = tuple[int, int]

#: Where it has taken none for so long it has nothing to do, or is not there.
_OF_LATE_SECONDS: Final = 1.0
#: It takes this long at least until kube-scheduler's watch has shown a nomination.
_LEAST_SECONDS: Final = 0.04
_LEAST_MARGIN: Final = 3.0
_MOST_MARGIN: Final = 6.0
_WIDER: Final = 1.25
_NARROWER: Final = 0.99
_NEWEST: Final = 0.1
#: A pause, in which it had nothing to do, says little of how fast it is.
_PAUSE: Final = 3.0
_LEAST_APART_SECONDS: Final = 0.0005
#: The share of pods taken before which one was taken that came later. Without any order it is a half.
_NO_ORDER: Final = 0.2


class Turns:
    """Fed with each pod that it takes, told or not, and with how long it took until our own watch showed a nomination."""

    def __init__(self) -> None:
        self._last: Instant | None = None
        #: The same, whatever it was kept waiting: what a record is played from knows nothing of that.
        self._taken_at: Instant | None = None
        self._last_told = False
        self._last_turn: Turn = (0, 0)
        self._back_share = 0.0
        #: From one pod to the next, in the mean of late; by whether the first of the two was told.
        self._apart = {False: 0.01, True: 0.005}
        #: From the choice until the watch has shown it, in the mean of late.
        self._shown_seconds = _LEAST_SECONDS
        self._margin = _LEAST_MARGIN
        self._widened_at = Instant(0.0)

    def taken(self, turn: Turn, now: Instant, *, told: bool) -> None:
        if self._last is not None and now - self._last < _OF_LATE_SECONDS:
            mean = self._apart[self._last_told]
            seconds = min(max(now - self._last, _LEAST_APART_SECONDS), _PAUSE * mean)
            self._apart[self._last_told] = mean + (seconds - mean) * _NEWEST
        if turn[0] == self._last_turn[0]:
            self._back_share += ((turn < self._last_turn) - self._back_share) * _NEWEST
        self._last, self._last_told, self._last_turn = now, told, turn
        self._taken_at = now

    def waited(self, seconds: float) -> None:
        """It was kept waiting: that says nothing of how fast it is."""
        if self._last is not None:
            self._last = Instant(self._last + seconds)

    @property
    def saved_seconds(self) -> float:
        """What it saves with a pod that was told."""
        return self._apart[False] - self._apart[True]

    def at_work(self, now: Instant) -> bool:
        """Has it taken a pod of late?"""
        return self.idle_at(_OF_LATE_SECONDS, now) is not None

    def idle_at(self, seconds: float, now: Instant) -> Instant | None:
        """When it will have taken no pod for so long, if it takes none any more; None: that is so now."""
        at = None if self._taken_at is None else Instant(self._taken_at + seconds)
        return at if at is not None and at > now else None

    def shown(self, seconds: float) -> None:
        """The watch has shown a nomination."""
        self._shown_seconds += (seconds - self._shown_seconds) * _NEWEST

    def met(self) -> None:
        self._margin = max(self._margin * _NARROWER, _LEAST_MARGIN)

    def late(self, now: Instant, *, made_at: Instant) -> None:
        """kube-scheduler was there before the nomination. Those on their way together widen the margin once."""
        if self.in_order and made_at >= self._widened_at:
            self._margin = min(self._margin * _WIDER, _MOST_MARGIN)
            self._widened_at = now

    @property
    def in_order(self) -> bool:
        """Does it take pods in the order in which they came?"""
        return self._back_share < _NO_ORDER

    def queue(self, told: Collection[Turn], waiting: int, now: Instant, *, stands: bool = False) -> "Queue":
        """`told` are the turns of pods that were told and that it has not come to, `waiting` how many others there are. It
        `stands` where it is kept waiting."""
        idle = stands or self._last is None or now - self._last > _OF_LATE_SECONDS
        seconds = 0.0 if idle else self._margin * max(self._shown_seconds, _LEAST_SECONDS)
        if not self.in_order and len(told) * self._apart[True] + waiting * self._apart[False] >= seconds:
            seconds = 0.0
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
