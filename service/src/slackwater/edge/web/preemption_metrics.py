"""Metrics of preemption, under kube-scheduler's names (KEP-4832) after our prefix.

The objective, errors / all < 0.01, is readable from `goroutines_execution_total{operation="preemption"}`.
"""

from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from slackwater.world.preemption_counts import RESULTS, Spread
from slackwater.world.world import World

_OPERATION: Final = "preemption"


def preemption_families(world: World) -> Iterator[Metric]:
    """Read from the world's state, so that they can never differ from it."""
    counts = world.preemptions.counts
    yield CounterMetricFamily("slackwater_preemption_attempts", "Preemptions begun.", value=counts.attempts)
    victims = HistogramMetricFamily("slackwater_preemption_victims", "Victims of a preemption.")
    victims.add_metric([], *_series(counts.victims))
    yield victims
    seconds = HistogramMetricFamily(
        "slackwater_goroutines_duration_seconds",
        "From the decision until the victims are gone, or it has failed.",
        labels=["operation"],
    )
    seconds.add_metric([_OPERATION], *_series(counts.seconds))
    yield seconds
    ends = CounterMetricFamily(
        "slackwater_goroutines_execution", "Preemptions that have ended, by result.", labels=["operation", "result"]
    )
    for result in RESULTS:
        ends.add_metric([_OPERATION, result], counts.ends[result])
    yield ends
    yield CounterMetricFamily(
        "slackwater_preemptors_touched_again",
        "Preemptors woken once more, as kube-scheduler had not come back to them.",
        value=counts.touched_again,
    )
    yield GaugeMetricFamily("slackwater_gates_shut", "Pods whose gate is shut now.", value=len(world.preemptions.gated_pods()))


def _series(spread: Spread) -> tuple[list[tuple[str, float]], float]:
    """Cumulative buckets, and the sum."""
    bounds = [*(floatToGoString(bound) for bound in spread.bounds), "+Inf"]  # type: ignore[no-untyped-call]
    return list(zip(bounds, map(float, accumulate(spread.counts)), strict=True)), spread.total
