"""Prometheus metrics of audits: the differences found, by cause, the time that audits take, and quarantined nodes."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from slackwater.controllers.audit.loop import AuditCounts
from slackwater.ports.metric_families import counter, gauge


def audit_families(counts: AuditCounts, quarantined: int) -> Iterator[Metric]:
    """Yields the metric families at each scrape. `quarantined` is the number of nodes in quarantine now."""
    ended = {"done": counts.audits, "given_up": counts.failed}
    yield counter("slackwater_audits", "Audits of the cluster state, by how they ended.", ended, "result")
    drifts = {cause.value: count for cause, count in counts.drifts.items()}
    yield counter("slackwater_audit_differences", "Differences that audits found, by cause.", drifts, "cause")
    meaning = "Differences that the last audit found and did not repair."
    yield gauge("slackwater_audit_differences_left", meaning, counts.last_left)
    yield gauge("slackwater_audit_seconds", "Duration of the last audit.", counts.last_seconds)
    meaning = "Seconds that the last audit took on the event loop that answers kube-scheduler."
    yield gauge("slackwater_audit_serving_loop_seconds", meaning, counts.last_serving_seconds)
    meaning = "The longest time that an audit has blocked that event loop."
    yield gauge("slackwater_audit_longest_slice_seconds", meaning, counts.longest_slice_seconds)
    yield counter("slackwater_quarantines", "Nodes put into quarantine.", counts.quarantines)
    yield gauge("slackwater_nodes_quarantined", "Nodes in quarantine now.", quarantined)
