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
        "slackwater_steering_nominations_missed",
        "Nominations that ended without a bind to the nominated node, by reason.",
        labels=["reason"],
    )
    for why, count in counts.missed.items():
        missed.add_metric([why], count)
    yield missed
    yield CounterMetricFamily(
        "slackwater_steering_nominations_dropped",
        "Nodes chosen in advance for pods that then were not nominated, because they had changed meanwhile.",
        value=counts.dropped,
    )
    yield _histogram(
        "slackwater_steering_seconds_until_nominated",
        "Time from the watch showing a pod until a node was chosen for it.",
        counts.until_nominated,
    )
    yield _histogram(
        "slackwater_steering_seconds_until_bound",
        "Time from the watch showing a pod until it showed the pod bound, nominated in advance or not.",
        counts.until_bound,
    )
    yield CounterMetricFamily(
        "slackwater_steering_choices", "Pods for which filter returned only one node.", value=counts.chosen
    )
    yield CounterMetricFamily(
        "slackwater_steering_choices_met", "Pods bound to the one node that filter returned.", value=counts.chosen_met
    )
    yield GaugeMetricFamily(
        "slackwater_steering_nominations_open", "Nominations that have not ended yet.", value=len(nominations)
    )
    yield GaugeMetricFamily(
        "slackwater_steering_width",
        "The most nominations that may be in flight to the API server at once.",
        value=nominations.nomination_window.width,
    )
    yield GaugeMetricFamily(
        "slackwater_steering_write_seconds",
        "Recent duration of writing a nomination, with its wait in our queue.",
        value=nominations.nomination_window.write_seconds,
    )


def _histogram(name: str, meaning: str, seconds: Seconds) -> HistogramMetricFamily:
    bounds = [*(str(bound) for bound in BUCKETS), "+Inf"]
    return HistogramMetricFamily(
        name, meaning, buckets=list(zip(bounds, accumulate(seconds.counts), strict=True)), sum_value=seconds.sum
    )
