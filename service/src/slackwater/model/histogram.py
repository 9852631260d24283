"""A histogram in plain numbers, read at scrape: a metrics library's histogram takes a lock for each value."""

from bisect import bisect_left


class Spread:
    """A histogram. `counts[i]` values were at most `bounds[i]` and above the bound before it; the last count has the values
    above all bounds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def note(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value
