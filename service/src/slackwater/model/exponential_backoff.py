"""Exponential back-off: a pause that doubles with every failure in a row. The only place that computes one."""

import math
from dataclasses import dataclass
from typing import Final

#: 2 to the power of this is exact as a float, and longer than anybody waits.
_MOST_DOUBLINGS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialBackoff:
    """The pauses `first_seconds`, twice that, four times that ..., at most `longest_seconds`."""

    first_seconds: float
    longest_seconds: float = math.inf

    def seconds(self, failures: int) -> float:
        """The pause after `failures` in a row. Without a failure there is none."""
        if failures < 1:
            return 0.0
        return min(self.first_seconds * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), self.longest_seconds)

    def jittered(self, failures: int, drawn: float) -> float:
        """The same, between half of the pause (`drawn` is 0) and all of it (1), so that many do not try again at once."""
        return self.seconds(failures) * (1 + drawn) / 2
