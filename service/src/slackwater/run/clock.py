"""The one place of `run` that reads time. Tests hand in another function."""

import time
from collections.abc import Callable

from slackwater.model.ids import Instant

Clock = Callable[[], Instant]


def monotonic() -> Instant:
    return Instant(time.monotonic())
