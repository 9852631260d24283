"""Virtual time, and what happens at it: actions, each at its time; at the same time in the order in which they were added."""

import heapq
from collections.abc import Callable

from slackwater.model.ids import UnixTime


class Timeline:
    """`now` moves only by `run_until`, which runs what is due on the way."""

    def __init__(self, start: UnixTime) -> None:
        self.now = self._start = start
        self._due: list[tuple[UnixTime, int, Callable[[], None]]] = []
        self._added = 0

    @property
    def passed(self) -> float:
        """The seconds since the start."""
        return self.now - self._start

    @property
    def next_at(self) -> UnixTime | None:
        """When the next action is due; None if none is."""
        return self._due[0][0] if self._due else None

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        self._added += 1
        heapq.heappush(self._due, (UnixTime(self.now + seconds), self._added, act))

    def tick_after(self, at: UnixTime, interval: float) -> UnixTime:
        """The first tick at or after `at`; ticks are whole intervals from the start."""
        return UnixTime(self._start + -(-(at - self._start) // interval) * interval)

    def run_until(self, end: UnixTime) -> None:
        while self._due and self._due[0][0] <= end:
            self.now, _, act = heapq.heappop(self._due)
            act()
        self.now = end
