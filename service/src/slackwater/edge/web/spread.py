"""Counts of a histogram in plain numbers, told at scrape: the library's own take a lock for each value."""

from bisect import bisect_left
from itertools import accumulate

from prometheus_client.utils import floatToGoString


class Spread:
    """A histogram's counts: one for each bound, values up to and including it, and one for what is beyond all."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def buckets(self) -> list[tuple[str, float]]:
        """(upper bound, how many are within), the last one is all."""
        bounds = (*map(floatToGoString, self._bounds), "+Inf")
        return list(zip(bounds, map(float, accumulate(self._counts)), strict=True))

    @property
    def total(self) -> float:
        return self._sum
