"""Prometheus metrics of preemption: kube-scheduler's names (KEP-4832) with our prefix.

The objective is that less than 1 % of preemptions end with an error. It is measured by
`goroutines_execution_total{operation="preemption"}`: result "error" divided by all results.
"""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric

from slackwater.controllers.preemption.counts import RESULTS
from slackwater.controllers.preemption.state import Preemptions
from slackwater.ports.metric_families import counter, gauge, histogram

_OPERATION: Final = "preemption"


def preemption_families(preemptions: Preemptions) -> Iterator[Metric]:
    """Yields the metric families, read from the state machine at each scrape so that they cannot differ from it."""
    counts = preemptions.counts
    yield counter("slackwater_preemption_attempts", "Preemptions begun.", counts.attempts)
    yield histogram("slackwater_preemption_victims", "Victims of a preemption.", {(): counts.victims})
    meaning = "Time from the decision until the victims are gone, or the preemption has failed."
    yield histogram("slackwater_goroutines_duration_seconds", meaning, {_OPERATION: counts.seconds}, "operation")
    ends = {(_OPERATION, result): counts.ends[result] for result in RESULTS}
    meaning = "Preemptions that have ended, by result."
    yield counter("slackwater_goroutines_execution", meaning, ends, "operation", "result")
    meaning = "Preemptors activated again, because kube-scheduler had not retried them."
    yield counter("slackwater_preemptors_touched_again", meaning, counts.activated_again)
    shut = sum(found.shut for _, found in preemptions.items())
    yield gauge("slackwater_gates_shut", "Pods whose scheduling gate is shut now.", shut)
