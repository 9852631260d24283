"""What the metrics of alerts were in each minute of the last hour. It answers like Prometheus: by metric name and labels.

In: samples, once a minute. Out: present values, and by how much counters grew. Invariant: at most 61 minutes are kept.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

#: Names and values, sorted by name.
Labels = tuple[tuple[str, str], ...]
#: Values by metric and labels.
Samples = Mapping[tuple[str, Labels], float]
Matching = Callable[[Mapping[str, str]], bool]

_MINUTES: Final = 60


class MetricHistory:
    """The samples of the last hour."""

    def __init__(self) -> None:
        self._minutes: deque[Samples] = deque(maxlen=_MINUTES + 1)

    def take(self, samples: Samples) -> None:
        """Takes the samples of this minute."""
        self._minutes.append(samples)

    def covers(self, minutes: int) -> bool:
        """Have samples been taken for so long?"""
        return len(self._minutes) > minutes

    def now(self, name: str, matching: Matching = lambda _: True) -> Iterator[tuple[Labels, float]]:
        """The present series of a metric whose labels match."""
        return _of(self._minutes[-1], name, matching)

    def growth(
        self, name: str, minutes: int, matching: Matching = lambda _: True, *, by: tuple[str, ...] = ()
    ) -> dict[Labels, float]:
        """By how much a counter grew in the last minutes, or since the first sample; summed by these labels. A series that was
        not there yet had counted nothing."""
        before = next(islice(self._minutes, max(0, len(self._minutes) - 1 - minutes), None))
        found: dict[Labels, float] = {}
        for labels, value in self.now(name, matching):
            key = tuple(pair for pair in labels if pair[0] in by)
            found[key] = found.get(key, 0.0) + value - before.get((name, labels), 0.0)
        return found


def _of(samples: Samples, name: str, matching: Matching) -> Iterator[tuple[Labels, float]]:
    return ((labels, value) for (metric, labels), value in samples.items() if metric == name and matching(dict(labels)))
