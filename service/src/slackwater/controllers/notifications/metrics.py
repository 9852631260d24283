"""Notifications on the ops listener: Prometheus metrics."""

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import Metric

from slackwater.ports.metric_families import counter


def notification_families(counts: Mapping[Any, int]) -> Iterator[Metric]:
    """Yields the metric families. `counts`: messages by outcome."""
    yield counter("slackwater_notifications", "Messages to the webhook, by outcome.", counts, "outcome")
