"""The one place of `run` that reads time. Tests and the simulation hand in other functions."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from slackwater.model.ids import Instant

Clock = Callable[[], Instant]


def monotonic() -> Instant:
    return Instant(time.monotonic())


def unix_time() -> float:
    """Seconds since 1970, by the clock on the wall: for what people read, and what outlives the process."""
    return time.clock_gettime(time.CLOCK_REALTIME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Both clocks of one process."""

    monotonic: Clock = monotonic
    wall: Callable[[], float] = unix_time
