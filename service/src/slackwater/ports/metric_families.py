"""Makes Prometheus metric families of figures that are read at each scrape, so that they cannot differ from the state.

A capability's families are beside it, in its module for metrics, as a function that yields them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from slackwater.model.histogram import Spread

FamilyT = TypeVar("FamilyT", CounterMetricFamily, GaugeMetricFamily)


class Families(Collector):
    """Collects the families that `read` yields at each scrape."""

    def __init__(self, read: Callable[[], Iterable[Metric]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        yield from self._read()


def counter(name: str, meaning: str, counted: float | Mapping[Any, float], *labels: str) -> Metric:
    """A counter: one number, or with `labels` a series for each entry, whose key is the label's value or a tuple of values."""
    return _filled(CounterMetricFamily(name, meaning, labels=labels), counted)


def gauge(name: str, meaning: str, measured: float | Mapping[Any, float], *labels: str) -> Metric:
    """A gauge: one number, or with `labels` a series for each entry, whose key is the label's value or a tuple of values."""
    return _filled(GaugeMetricFamily(name, meaning, labels=labels), measured)


def _filled(family: FamilyT, series: float | Mapping[Any, float]) -> FamilyT:
    for values, value in series.items() if isinstance(series, Mapping) else [((), series)]:
        family.add_metric((values,) if isinstance(values, str) else values, value)
    return family


def histogram(name: str, meaning: str, spreads: Mapping[Any, Spread], *labels: str) -> Metric:
    """A histogram with a series for each entry, whose key is the label's value or a tuple of values."""
    family = HistogramMetricFamily(name, meaning, labels=labels)
    for values, spread in spreads.items():
        bounds = (*map(floatToGoString, spread.bounds), "+Inf")
        counts = list(zip(bounds, map(float, accumulate(spread.counts)), strict=True))
        family.add_metric((values,) if isinstance(values, str) else values, counts, spread.total)
    return family
