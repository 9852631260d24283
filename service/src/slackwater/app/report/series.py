"""A line of a plot in bounded room: for each bucket of time the mean, the least and the largest value.

So a peak of one minute stays visible in a month. If there are too many buckets, two become one.
"""

from dataclasses import dataclass
from typing import Final

from slackwater.app.report.answer import Point

MOST_BUCKETS: Final = 250


@dataclass(slots=True)
class _Bucket:
    part: int
    at: float
    total: float
    count: int
    least: float
    most: float

    def add(self, other: "_Bucket") -> None:
        self.at = min(self.at, other.at)
        self.total += other.total
        self.count += other.count
        self.least = min(self.least, other.least)
        self.most = max(self.most, other.most)


class Series:
    """Values over time. Between values of different parts the line is broken."""

    def __init__(self) -> None:
        self._width = 1.0
        self._buckets: dict[int, _Bucket] = {}

    def add(self, at: float, value: float, part: int) -> None:
        self._put(int(at // self._width), _Bucket(part, at, value, 1, value, value))
        while len(self._buckets) > MOST_BUCKETS:
            buckets, self._buckets, self._width = self._buckets, {}, self._width * 2
            for number, bucket in sorted(buckets.items()):
                self._put(number // 2, bucket)

    def _put(self, number: int, bucket: _Bucket) -> None:
        if (known := self._buckets.get(number)) is not None:
            known.add(bucket)
        else:
            self._buckets[number] = bucket

    def pieces(self) -> list[list[Point]]:
        """The points by time, a list for each part."""
        found: dict[int, list[Point]] = {}
        for _, each in sorted(self._buckets.items()):
            point = (round(each.at), round(each.total / each.count, 6), each.least, each.most)
            found.setdefault(each.part, []).append(point)
        return list(found.values())
