"""Prometheus metrics of node choices."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from slackwater.controllers.placement.tried_nodes import ChosenNodes


def choice_families(chosen_nodes: ChosenNodes) -> Iterator[Metric]:
    """Yields the metric families, read from the state machine at each scrape."""
    yield CounterMetricFamily(
        "slackwater_node_choices", "Pods for which filter returned only one node.", value=chosen_nodes.made
    )
    yield CounterMetricFamily(
        "slackwater_node_choices_met", "Pods bound to the one node that filter returned.", value=chosen_nodes.met
    )
