"""Metrics of the history: how many entries are kept, and whether they can be written."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from slackwater.model.history import Ring
from slackwater.ports.histograms import counters, gauges


class HistoryCollector(Collector):
    """Reads the figures at each scrape: entries by ring, and writes by outcome."""

    def __init__(self, entries: Callable[[], Mapping[Ring, int]], writes: Callable[[], Mapping[str, int]]) -> None:
        self._entries = entries
        self._writes = writes

    def collect(self) -> Iterator[Metric]:
        yield gauges("slackwater_history_entries", "Entries of the history in memory.", "ring", self._entries())
        meaning = "Writes of the history's ConfigMaps, by outcome: done or failed."
        yield counters("slackwater_history_writes", meaning, "outcome", self._writes())
