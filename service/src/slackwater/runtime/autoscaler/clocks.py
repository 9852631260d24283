"""The times of a loop: the clocks it reads, and what it takes of the serving loop."""

from collections.abc import Callable
from dataclasses import dataclass, field

from slackwater.model.ids import Instant, UnixTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """`clock` for intervals, `wall` for what people read. `steady` never jumps: it is for intervals that begin or end with a
    time that an object carries."""

    clock: Callable[[], Instant]
    wall: Callable[[], UnixTime]
    steady: Callable[[], UnixTime]


@dataclass(slots=True)
class Watch:
    """Seconds that the serving loop was not free, piece by piece."""

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
