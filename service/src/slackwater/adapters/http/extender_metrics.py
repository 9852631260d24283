"""Prometheus metrics of the extender listener. Every series of the known verbs exists from the start.

Values are counted in plain numbers and collected at scrape: the client library's own counters would take three locks a call.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from slackwater.adapters.http.histograms import histogram
from slackwater.model.spread import Spread

VERBS: Final = ("filter", "prioritize", "bind", "preempt")
_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_BYTES: Final = (1e3, 4e3, 16e3, 64e3, 256e3, 1e6, 4e6, 16e6, 64e6)


class ExtenderMetrics(Collector):
    """Counts requests by verb and HTTP status, with histograms of their time and body size."""

    def __init__(self, registry: CollectorRegistry) -> None:
        verbs = (*VERBS, "other")
        self._requests = {(verb, 200): 0 for verb in VERBS}
        self._seconds = {verb: Spread(_SECONDS) for verb in verbs}
        self._sizes = {verb: Spread(_BYTES) for verb in verbs}
        registry.register(self)

    def observe(self, verb: str, status: int, size: int, seconds: float) -> None:
        self._requests[verb, status] = self._requests.get((verb, status), 0) + 1
        self._seconds[verb].note(seconds)
        self._sizes[verb].note(size)

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "slackwater_extender_requests",
            "Extender requests answered, by verb and HTTP status.",
            labels=["verb", "code"],
        )
        for (verb, status), count in self._requests.items():
            requests.add_metric([verb, str(status)], count)
        yield requests
        yield histogram(
            "slackwater_extender_request_duration_seconds",
            "Time from the whole request to its answer.",
            _by_verb(self._seconds),
            labels=["verb"],
        )
        sizes = _by_verb(self._sizes)
        yield histogram("slackwater_extender_request_size_bytes", "Size of request bodies.", sizes, labels=["verb"])


def _by_verb(spreads: dict[str, Spread]) -> Iterator[tuple[Sequence[str], Spread]]:
    return (((verb,), spread) for verb, spread in spreads.items())
