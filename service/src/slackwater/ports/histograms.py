"""Converts `Spread` histograms to Prometheus metric families."""

from collections.abc import Iterable, Sequence
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from slackwater.model.histogram import Spread


def histogram(
    name: str, meaning: str, spreads: Iterable[tuple[Sequence[str], Spread]], *, labels: Sequence[str] = ()
) -> Metric:
    """Returns a histogram family. Each entry of `spreads` is one series: the values of `labels`, and the counts."""
    family = HistogramMetricFamily(name, meaning, labels=labels)
    for values, spread in spreads:
        bounds = (*map(floatToGoString, spread.bounds), "+Inf")
        family.add_metric(values, list(zip(bounds, map(float, accumulate(spread.counts)), strict=True)), spread.total)
    return family
