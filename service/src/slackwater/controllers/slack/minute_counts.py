"""Counts by the minute of Unix time in a ring buffer, which keeps the newest minutes only."""

from collections.abc import Sequence

import numpy as np

from slackwater.model.columns import Int64


class MinuteCounts:
    """Counts for the newest `most` minutes. `begin` is the first minute that was observed."""

    def __init__(self, most: int, begin: int) -> None:
        self._counts = np.zeros(most, np.int64)
        self.begin = begin
        #: The newest minute in the ring.
        self._newest = begin
        #: The last answer of `until`, and its minute.
        self._told: tuple[int, Int64] | None = None

    def add(self, minute: int, count: int = 1) -> bool:
        """Adds to a minute. False if the minute is older than the ring or than `begin`."""
        self._reach(minute)
        if minute < self._oldest():
            return False
        self._counts[minute % len(self._counts)] += count
        if self._told is not None and minute < self._told[0]:
            self._told = None
        return True

    def at(self, minute: int) -> int:
        self._reach(minute)
        return int(self._counts[minute % len(self._counts)]) if minute >= self._oldest() else 0

    def until(self, minute: int) -> Int64:
        """The counts of all known minutes before this one, the newest last; not to be written to. Shape (minutes,)."""
        self._reach(minute)
        if self._told is None or self._told[0] != minute:
            self._told = minute, self._counts[np.arange(self._oldest(), minute) % len(self._counts)]
        return self._told[1]

    def restore(self, begin: int, counts: Sequence[int]) -> None:
        """Replaces all counts by these, which an earlier `until` returned, beginning at minute `begin`."""
        self._counts[:] = 0
        self._told = None
        self.begin = self._newest = begin
        for minute, count in enumerate(counts, start=begin):
            self.add(minute, count)

    def _oldest(self) -> int:
        return max(self.begin, self._newest - len(self._counts) + 1)

    def _reach(self, minute: int) -> None:
        if minute > self._newest:
            size = len(self._counts)
            passed = min(minute - self._newest, size)
            self._counts[np.arange(minute - passed + 1, minute + 1) % size] = 0
            self._newest = minute
