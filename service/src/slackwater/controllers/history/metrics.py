"""Metrics of the history: how many entries are kept, and whether they can be written."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from slackwater.model.history import Ring


class HistoryCollector(Collector):
    """Reads the figures at each scrape: entries by ring, and writes by outcome."""

    def __init__(self, entries: Callable[[], Mapping[Ring, int]], writes: Callable[[], Mapping[str, int]]) -> None:
        self._entries = entries
        self._writes = writes

    def collect(self) -> Iterator[Metric]:
        entries = GaugeMetricFamily("slackwater_history_entries", "Entries of the history in memory.", labels=["ring"])
        for ring, count in self._entries().items():
            entries.add_metric([ring], count)
        writes = CounterMetricFamily(
            "slackwater_history_writes", "Writes of the history's ConfigMaps, by outcome: done or failed.", labels=["outcome"]
        )
        for outcome, count in self._writes().items():
            writes.add_metric([outcome], count)
        yield from (entries, writes)
