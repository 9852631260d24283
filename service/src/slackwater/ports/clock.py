"""The clocks: the only place that reads time. Tests and the simulation pass other functions."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from slackwater.model.ids import Instant, UnixTime

#: A `SteadyClock` gains or loses at most this share of the time that passes, until it agrees with the wall clock.
_MOST_SLEW: Final = 0.05

Clock = Callable[[], Instant]


def monotonic() -> Instant:
    return Instant(time.monotonic())


def unix_time() -> float:
    """Seconds since 1970, by the wall clock: for what people read, and what outlives the process."""
    return time.clock_gettime(time.CLOCK_REALTIME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Both clocks of one process."""

    monotonic: Clock = monotonic
    wall: Callable[[], float] = unix_time


class SteadyClock:
    """Unix time for intervals: it begins as the wall clock and then follows the monotonic clock.

    When the wall clock is set, this clock does not jump: it approaches the wall clock by at most a twentieth of the time that
    passes. So an interval is always right to 5 %, and the times that it writes into objects stay near the truth.
    """

    def __init__(self, times: Times) -> None:
        self._times = times
        self._read_at = times.monotonic()
        self._time = times.wall()

    def __call__(self) -> UnixTime:
        now = self._times.monotonic()
        passed, self._read_at = now - self._read_at, now
        most = _MOST_SLEW * passed
        self._time += passed
        self._time += min(max(self._times.wall() - self._time, -most), most)
        return UnixTime(self._time)
