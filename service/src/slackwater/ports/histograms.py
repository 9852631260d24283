"""Makes Prometheus metric families of plain numbers: of `Spread` histograms, and of counts by one label."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from slackwater.model.histogram import Spread

LabelT = TypeVar("LabelT", bound=str)


def histogram(
    name: str, meaning: str, spreads: Iterable[tuple[Sequence[str], Spread]], *, labels: Sequence[str] = ()
) -> Metric:
    """Returns a histogram family. Each entry of `spreads` is one series: the values of `labels`, and the counts."""
    family = HistogramMetricFamily(name, meaning, labels=labels)
    for values, spread in spreads:
        bounds = (*map(floatToGoString, spread.bounds), "+Inf")
        family.add_metric(values, list(zip(bounds, map(float, accumulate(spread.counts)), strict=True)), spread.total)
    return family


def counters(name: str, meaning: str, label: str, counts: Mapping[LabelT, float]) -> Metric:
    """Returns a counter family with one series for each value of the label."""
    return _filled(CounterMetricFamily(name, meaning, labels=[label]), counts)


def gauges(name: str, meaning: str, label: str, values: Mapping[LabelT, float]) -> Metric:
    """Returns a gauge family with one series for each value of the label."""
    return _filled(GaugeMetricFamily(name, meaning, labels=[label]), values)


def _filled(family: CounterMetricFamily | GaugeMetricFamily, values: Mapping[LabelT, float]) -> Metric:
    for value, number in values.items():
        family.add_metric([value], number)
    return family
