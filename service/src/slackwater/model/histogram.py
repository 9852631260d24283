"""A histogram in plain numbers, which the metrics endpoint reads at scrape. A metrics library's histogram would take a lock for
each value."""

from bisect import bisect_left


class Spread:
    """A histogram of the noted values. `counts[i]` is the number of values that were at most `bounds[i]` and above the bound
    before; the last count is of values above all bounds. `total` is the sum of the values."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def note(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value
