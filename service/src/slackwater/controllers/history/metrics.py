"""Metrics of the history: how many entries are kept, and whether they can be written."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric

from slackwater.model.history import Ring
from slackwater.ports.metric_families import counter, gauge


def history_families(entries: Mapping[Ring, int], writes: Mapping[str, int]) -> Iterator[Metric]:
    """Yields the metric families: entries by ring, and writes by outcome."""
    yield gauge("slackwater_history_entries", "Entries of the history in memory.", entries, "ring")
    yield counter(
        "slackwater_history_writes", "Writes of the history's ConfigMaps, by outcome: done or failed.", writes, "outcome"
    )
