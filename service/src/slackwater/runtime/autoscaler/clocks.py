"""The clocks that the autoscaler's loop reads, and the measurement of the time for which it blocks the event loop."""

from collections.abc import Callable
from dataclasses import dataclass, field

from slackwater.model.ids import Instant, UnixTime


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
