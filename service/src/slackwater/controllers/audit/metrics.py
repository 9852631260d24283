"""Prometheus metrics of audits: the differences found, by cause, the time that audits take, and quarantined nodes."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from slackwater.controllers.audit.loop import AuditCounts
from slackwater.ports.histograms import counters


def audit_families(counts: AuditCounts, quarantined: int) -> Iterator[Metric]:
    """Yields the metric families at each scrape. `quarantined` is the number of nodes in quarantine now."""
    ended = {"done": counts.audits, "given_up": counts.failed}
    yield counters("slackwater_audits", "Audits of the cluster state, by how they ended.", "result", ended)
    drifts = {cause.value: count for cause, count in counts.drifts.items()}
    yield counters("slackwater_audit_differences", "Differences that audits found, by cause.", "cause", drifts)
    yield GaugeMetricFamily(
        "slackwater_audit_differences_left", "Differences that the last audit found and did not repair.", value=counts.last_left
    )
    yield GaugeMetricFamily("slackwater_audit_seconds", "Duration of the last audit.", value=counts.last_seconds)
    yield GaugeMetricFamily(
        "slackwater_audit_serving_loop_seconds",
        "Seconds that the last audit took on the event loop that answers kube-scheduler.",
        value=counts.last_serving_seconds,
    )
    yield GaugeMetricFamily(
        "slackwater_audit_longest_slice_seconds",
        "The longest time that an audit has blocked that event loop.",
        value=counts.longest_slice_seconds,
    )
    yield CounterMetricFamily("slackwater_quarantines", "Nodes put into quarantine.", value=counts.quarantines)
    yield GaugeMetricFamily("slackwater_nodes_quarantined", "Nodes in quarantine now.", value=quarantined)
