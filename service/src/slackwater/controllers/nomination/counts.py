"""What became of nominations, as plain numbers that only grow; and how long pods waited, as histograms."""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

from slackwater.model.nomination_misses import Miss

#: Upper bounds of the buckets, in seconds.
BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(slots=True)
class Seconds:
    """A histogram: `counts[i]` were at most `BUCKETS[i]` and above the bound before; the last count is of all beyond."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    sum: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.sum += seconds


@dataclass(slots=True)
class SteeringCounts:
    """`dropped`: chosen, but not told, since somebody else had a say by then. `chosen`: when filter was asked, and
    `chosen_met` those of them that were bound there. Times are since the watch first showed the pod,
    `until_bound` of every pod of our scheduler, told or not."""

    made: int = 0
    met: int = 0
    dropped: int = 0
    chosen: int = 0
    chosen_met: int = 0
    missed: dict[Miss, int] = field(default_factory=lambda: dict.fromkeys(Miss, 0))
    until_nominated: Seconds = field(default_factory=Seconds)
    until_bound: Seconds = field(default_factory=Seconds)
