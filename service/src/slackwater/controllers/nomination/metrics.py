"""Prometheus metrics of nominations in advance and node choices: their outcomes, and how long pods waited."""

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from slackwater.controllers.nomination.counts import BUCKETS, Seconds
from slackwater.controllers.nomination.state import AdvanceNominations


def nomination_families(nominations: AdvanceNominations) -> Iterator[Metric]:
    """Yields the metric families, read from the state machine at each scrape."""
    counts = nominations.counts
    yield CounterMetricFamily("slackwater_steering_nominations", "Pods nominated in advance.", value=counts.made)
    yield CounterMetricFamily(
        "slackwater_steering_nominations_met",
        "Pods nominated in advance that were bound to the nominated node.",
        value=counts.met,
    )
    missed = CounterMetricFamily(
        "slackwater_steering_nominations_missed", "Nominations that came to nothing, by reason.", labels=["reason"]
    )
    for why, count in counts.missed.items():
        missed.add_metric([why], count)
    yield missed
    yield CounterMetricFamily(
        "slackwater_steering_nominations_dropped",
        "Nodes chosen in advance for pods that were not nominated after all: they had changed by then.",
        value=counts.dropped,
    )
    yield _histogram(
        "slackwater_steering_seconds_until_nominated",
        "From the moment the watch showed a pod until a node was chosen for it.",
        counts.until_nominated,
    )
    yield _histogram(
        "slackwater_steering_seconds_until_bound",
        "From the moment the watch showed a pod until it showed it bound, nominated in advance or not.",
        counts.until_bound,
    )
    yield CounterMetricFamily("slackwater_steering_choices", "Pods for which filter named one node only.", value=counts.chosen)
    yield CounterMetricFamily(
        "slackwater_steering_choices_met", "Of those, pods that were bound there.", value=counts.chosen_met
    )
    yield GaugeMetricFamily(
        "slackwater_steering_nominations_open", "Nominations that have not ended yet.", value=len(nominations)
    )
    yield GaugeMetricFamily(
        "slackwater_steering_width",
        "Nominations that may be on their way to the API server at once.",
        value=nominations.nomination_window.width,
    )
    yield GaugeMetricFamily(
        "slackwater_steering_write_seconds",
        "How long a nomination takes to be written of late, its wait in our queue included.",
        value=nominations.nomination_window.write_seconds,
    )


def _histogram(name: str, meaning: str, seconds: Seconds) -> HistogramMetricFamily:
    bounds = [*(str(bound) for bound in BUCKETS), "+Inf"]
    return HistogramMetricFamily(
        name, meaning, buckets=list(zip(bounds, accumulate(seconds.counts), strict=True)), sum_value=seconds.sum
    )
