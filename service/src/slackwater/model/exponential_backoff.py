"""Exponential back-off: a pause that doubles with every failure in a row. All back-offs of the service are computed here."""

import math
from dataclasses import dataclass
from typing import Final

#: The most doublings that are computed: 2 to the power of this is exact as a float, and a longer pause than anybody sets.
_MOST_DOUBLINGS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialBackoff:
    """Pauses that double with each failure: `first_seconds`, twice that, four times that and so on, at most
    `longest_seconds`."""

    first_seconds: float
    longest_seconds: float = math.inf

    def seconds(self, failures: int) -> float:
        """The pause in seconds after `failures` failures in a row; 0 without a failure."""
        if failures < 1:
            return 0.0
        return min(self.first_seconds * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), self.longest_seconds)

    def jittered(self, failures: int, drawn: float) -> float:
        """The pause in seconds after `failures` failures in a row, with jitter, so that many clients do not try again at the
        same moment. `drawn` is a random number: with 0 the result is half the pause, with 1 all of it."""
        return self.seconds(failures) * (1 + drawn) / 2
