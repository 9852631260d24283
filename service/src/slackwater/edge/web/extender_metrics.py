"""Metrics of the extender listener, next to it. Every series of the known verbs exists from the start.

Counted in plain numbers and told at scrape: the library's own counters take a lock for each, three times a call.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

VERBS: Final = ("filter", "prioritize", "bind", "preempt")
_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_BYTES: Final = (1e3, 4e3, 16e3, 64e3, 256e3, 1e6, 4e6, 16e6, 64e6)


class ExtenderMetrics(Collector):
    """Requests by verb and HTTP status, their time and size."""

    def __init__(self, registry: CollectorRegistry) -> None:
        verbs = (*VERBS, "other")
        self._requests = {(verb, 200): 0 for verb in VERBS}
        self._seconds = {verb: _Spread(_SECONDS) for verb in verbs}
        self._sizes = {verb: _Spread(_BYTES) for verb in verbs}
        registry.register(self)

    def observe(self, verb: str, status: int, size: int, seconds: float) -> None:
        self._requests[verb, status] = self._requests.get((verb, status), 0) + 1
        self._seconds[verb].add(seconds)
        self._sizes[verb].add(size)

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "slackwater_extender_requests",
            "Extender requests answered, by verb and HTTP status.",
            labels=["verb", "code"],
        )
        for (verb, status), count in self._requests.items():
            requests.add_metric([verb, str(status)], count)
        yield requests
        yield _histogram(
            "slackwater_extender_request_duration_seconds",
            "Time from the whole request to its answer.",
            self._seconds.items(),
        )
        yield _histogram("slackwater_extender_request_size_bytes", "Size of request bodies.", self._sizes.items())


class _Spread:
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


def _histogram(name: str, meaning: str, spreads: Iterable[tuple[str, _Spread]]) -> Metric:
    family = HistogramMetricFamily(name, meaning, labels=["verb"])
    for verb, spread in spreads:
        family.add_metric([verb], spread.buckets(), spread.total)
    return family
