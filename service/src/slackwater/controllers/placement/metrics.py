"""Prometheus metrics of node choices."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from slackwater.controllers.placement.tried_nodes import ChosenNodes
from slackwater.ports.metric_families import counter


def choice_families(chosen_nodes: ChosenNodes) -> Iterator[Metric]:
    """Yields the metric families, read from the state machine at each scrape."""
    yield counter("slackwater_node_choices", "Pods for which filter returned only one node.", chosen_nodes.made)
    yield counter("slackwater_node_choices_met", "Pods bound to the one node that filter returned.", chosen_nodes.met)
