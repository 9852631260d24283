"""Counts of how nominations ended, as numbers that only grow, and histograms of how long pods waited."""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

from slackwater.model.nomination_misses import Miss

#: Upper bounds of the buckets, in seconds.
BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(slots=True)
class Seconds:
    """A histogram: `counts[i]` counts values of at most `BUCKETS[i]` above the bound before; the last counts all beyond."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    sum: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.sum += seconds


@dataclass(slots=True)
class SteeringCounts:
    """Counts of nominations in advance, and of nodes that filter chose.

    `dropped`: a node was found, but something else had decided about the pod by then. `chosen`: filter answered with one node
    only; `chosen_met`: and the pod was bound there. Times are since the watch first showed the pod; `until_bound` counts every
    pod of our scheduler, nominated or not."""

    made: int = 0
    met: int = 0
    dropped: int = 0
    chosen: int = 0
    chosen_met: int = 0
    missed: dict[Miss, int] = field(default_factory=lambda: dict.fromkeys(Miss, 0))
    until_nominated: Seconds = field(default_factory=Seconds)
    until_bound: Seconds = field(default_factory=Seconds)
