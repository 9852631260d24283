"""Prometheus metrics of preemption: kube-scheduler's names (KEP-4832) with our prefix.

The objective is that less than 1 % of preemptions end with an error. It is measured by
`goroutines_execution_total{operation="preemption"}`: result "error" divided by all results.
"""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from slackwater.controllers.preemption.state import RESULTS, Preemptions
from slackwater.ports.histograms import histogram

_OPERATION: Final = "preemption"


def preemption_families(preemptions: Preemptions) -> Iterator[Metric]:
    """Yields the metric families, read from the state machine at each scrape so that they cannot differ from it."""
    counts = preemptions.counts
    yield CounterMetricFamily("slackwater_preemption_attempts", "Preemptions begun.", value=counts.attempts)
    yield histogram("slackwater_preemption_victims", "Victims of a preemption.", [((), counts.victims)])
    yield histogram(
        "slackwater_goroutines_duration_seconds",
        "Time from the decision until the victims are gone, or the preemption has failed.",
        [((_OPERATION,), counts.seconds)],
        labels=["operation"],
    )
    ends = CounterMetricFamily(
        "slackwater_goroutines_execution", "Preemptions that have ended, by result.", labels=["operation", "result"]
    )
    for result in RESULTS:
        ends.add_metric([_OPERATION, result], counts.ends[result])
    yield ends
    yield CounterMetricFamily(
        "slackwater_preemptors_touched_again",
        "Preemptors activated again, because kube-scheduler had not retried them.",
        value=counts.activated_again,
    )
    yield GaugeMetricFamily("slackwater_gates_shut", "Pods whose scheduling gate is shut now.", value=preemptions.shut_gates())
