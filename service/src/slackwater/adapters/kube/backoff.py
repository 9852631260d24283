"""How long to wait before the next attempt: twice as long each time, with jitter, bounded, short again after a success."""

from dataclasses import dataclass
from random import Random


@dataclass(slots=True, kw_only=True)
class Backoff:
    """Waits between half of and the whole of first, 2 x first, 4 x first ... at most `longest_seconds`."""

    rng: Random
    first_seconds: float = 0.1
    longest_seconds: float = 10.0
    attempts: int = 0  #: since the last success

    def next_seconds(self) -> float:
        permit_limit = min(self.longest_seconds, self.first_seconds * 2.0 ** min(self.attempts, 60))
        self.attempts += 1
        return permit_limit * (1 + self.rng.random()) / 2

    def reset(self) -> None:
        self.attempts = 0
