"""Defines the clocks; only this module reads the time. Tests and the simulation pass other functions.

`Watch` measures for how long work blocks the event loop.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from slackwater.model.ids import Instant, UnixTime

#: While a `SteadyClock` differs from the wall clock, it gains or loses at most this share of the time that passes.
_MOST_SLEW: Final = 0.05

Clock = Callable[[], Instant]


def monotonic() -> Instant:
    return Instant(time.monotonic())


def unix_time() -> float:
    """Seconds since 1970 by the wall clock, for times that people read or that are persisted."""
    return time.clock_gettime(time.CLOCK_REALTIME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The two clocks of one process: `monotonic` for intervals, `wall` for Unix time."""

    monotonic: Clock = monotonic
    wall: Callable[[], float] = unix_time


class SteadyClock:
    """A clock of Unix time for intervals: it starts at the wall clock's time, and then follows the monotonic clock.

    When the wall clock is set, this clock does not jump: it approaches the wall clock by at most a twentieth of the time that
    passes. So intervals are exact to 5 %, and timestamps that it gives to objects stay close to the wall clock.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """The clocks of a loop. `clock` is for intervals, `wall` for times that people read. `steady` is Unix time that never
    jumps, for intervals that begin or end with a timestamp of an object."""

    clock: Callable[[], Instant]
    wall: Callable[[], UnixTime]
    steady: Callable[[], UnixTime]


@dataclass(slots=True)
class Watch:
    """Measures for how many seconds the event loop was blocked: in total, and the longest `with` block."""

    clock: Callable[[], Instant]
    total: float = 0.0
    longest: float = 0.0
    _began: Instant = field(default=Instant(0.0))

    def __enter__(self) -> None:
        self._began = self.clock()

    def __exit__(self, *_: object) -> None:
        piece = self.clock() - self._began
        self.total += piece
        self.longest = max(self.longest, piece)
