"""Prometheus metrics of disagreements with kube-scheduler."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from slackwater.controllers.disagreement.state import Disagreements
from slackwater.ports.metric_families import counter, gauge


def disagreement_families(known: Disagreements) -> Iterator[Metric]:
    """Yields the metric families at each scrape."""
    meaning = "Pods that kube-scheduler kept refusing although they fit by the rules that Slackwater knows."
    yield counter("slackwater_refusals_disputed", meaning, known.refusals_disputed)
    meaning = "Pods that kube-scheduler keeps refusing now although they fit by the rules that Slackwater knows."
    yield gauge("slackwater_pods_disputed", meaning, known.disputed)
    meaning = "Sampled binds of kube-scheduler that were judged by the rules that Slackwater knows."
    yield counter("slackwater_binds_compared", meaning, known.binds_compared)
    meaning = "Compared binds to a node that refuses the pod by the rules that Slackwater knows."
    yield counter("slackwater_binds_disagreed", meaning, known.binds_disagreed)
