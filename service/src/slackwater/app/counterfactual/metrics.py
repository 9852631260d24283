"""Prometheus metrics of the log of the sides, by the newest sample of each."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from slackwater.app.counterfactual.process import CounterfactualProcess
from slackwater.ports.metric_families import counter, gauge

_MICROS = 1_000_000


def report_families(process: CounterfactualProcess) -> Iterator[Metric]:
    """The families of the sides, and of the process that writes them."""
    newest = process.newest
    yield gauge(
        "slackwater_report_nodes",
        "Nodes by side: the real cluster, and, in a shadow, the one that Slackwater would have.",
        {side: sample.nodes for side, sample in newest.items()},
        "side",
    )
    yield gauge(
        "slackwater_report_cost_per_hour",
        "What the nodes of each side cost an hour, in the currency of the prices.",
        {side: sample.micros / _MICROS for side, sample in newest.items()},
        "side",
    )
    yield gauge(
        "slackwater_report_pending_pods",
        "Pods without a node by side.",
        {side: sample.pending for side, sample in newest.items()},
        "side",
    )
    yield counter("slackwater_report_restarts_total", "How often the process that writes the log ended.", process.restarts)
    yield counter("slackwater_report_cpu_seconds_total", "CPU time of the process that writes the log.", process.cpu_seconds)
