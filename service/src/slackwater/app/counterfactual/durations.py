"""Counts of durations by size, which take a bounded room, can be added up, and give quantiles.

A duration of s seconds is counted in the bucket floor(log(s) / log(FACTOR)), as in DDSketch (Masson et al., 2019), so a
quantile is at most 5 % from the true one. Durations below a second share one bucket.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import floor, log
from typing import Final

FACTOR: Final = 1.05
#: The bucket of durations below a second.
_SHORT: Final = -1
#: The longest duration that has a bucket of its own: about four months.
_LONGEST: Final = 10_000_000.0

#: How many durations fall into each bucket.
Buckets = Mapping[int, int]


def bucket_of(seconds: float) -> int:
    return _SHORT if seconds < 1.0 else floor(log(min(seconds, _LONGEST)) / log(FACTOR))


def seconds_of(bucket: int) -> float:
    """The middle of the bucket, in seconds."""
    return 0.0 if bucket == _SHORT else FACTOR ** (bucket + 0.5)


def total(parts: Iterable[Buckets]) -> Counter[int]:
    """The buckets of all parts together."""
    found = Counter[int]()
    for part in parts:
        found.update(part)
    return found


def quantile(buckets: Buckets, share: float) -> float | None:
    """The smallest duration that at least `share` of all do not exceed, in seconds; None if there are none."""
    left = share * sum(buckets.values())
    for bucket, count in sorted(buckets.items()):
        left -= count
        if left <= 0:
            return seconds_of(bucket)
    return None
