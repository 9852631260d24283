"""Adds up the figures of one side: node hours, money, pending pods and evictions, from its samples and its waits.

A sample counts until the next one of its side. Sums are integers: of counts or micros, times milliseconds.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from slackwater.app.counterfactual.durations import quantile, total
from slackwater.app.counterfactual.lines import Sample, Side, Waits
from slackwater.app.report.answer import Metric, PendingTimes, SideFigures
from slackwater.app.report.series import Series
from slackwater.app.report.window import MILLISECONDS_OF_HOUR, amount_text
from slackwater_protocol.money import MICROS, rounded, signed_text

METRICS: Final[tuple[Metric, ...]] = ("nodes", "money", "pending", "evictions")


def micros_per_hour(amount: int, milliseconds: int) -> int:
    """`amount`: micros an hour, times milliseconds."""
    return rounded(amount, max(milliseconds, 1))


@dataclass(slots=True)
class SideTotals:
    """`amount`: micros an hour, times milliseconds; `sampled`: the milliseconds of which samples tell."""

    side: Side
    amount: int = 0
    sampled: int = 0
    evictions: int = 0
    series: dict[Metric, Series] = field(default_factory=lambda: {metric: Series() for metric in METRICS})
    _node_time: int = 0
    _pending_time: int = 0
    _waits: dict[int, Counter[int]] = field(default_factory=dict)
    _sample: Sample | None = None
    _since: int = 0

    def take(self, sample: Sample, counted: int, *, within: bool, part: int) -> None:
        """`counted`: the window's milliseconds until the sample. `within`: the sample is within the window."""
        self.until(counted)
        self._sample = sample
        if not within:
            return
        self.evictions += sample.evictions
        values = (sample.nodes, sample.micros / MICROS, sample.pending, self.evictions)
        for metric, value in zip(METRICS, values, strict=True):
            self.series[metric].add(sample.at, value, part)

    def until(self, counted: int) -> None:
        """Adds the time since the last call."""
        gone, self._since = counted - self._since, counted
        if self._sample is not None:
            self.sampled += gone
            self.amount += self._sample.micros * gone
            self._node_time += self._sample.nodes * gone
            self._pending_time += self._sample.pending * gone

    def forget_sample(self) -> None:
        """The side begins again: nothing is known of it until its next sample."""
        self._sample = None

    def wait(self, waits: Waits) -> None:
        for priority, buckets in waits.seconds.items():
            self._waits.setdefault(priority, Counter()).update(buckets)

    @property
    def node_hours(self) -> float:
        return self._node_time / MILLISECONDS_OF_HOUR

    def figures(self) -> SideFigures:
        every = total(self._waits.values())
        waits = [(None, every), *sorted(self._waits.items(), reverse=True)]
        return SideFigures(
            side=self.side,
            node_hours=round(self.node_hours, 3),
            money=amount_text(self.amount),
            per_hour=signed_text(micros_per_hour(self.amount, self.sampled)),
            evictions=self.evictions,
            pending_pod_hours=round(self._pending_time / MILLISECONDS_OF_HOUR, 3),
            pending=[_pending_times(priority, buckets) for priority, buckets in waits if buckets],
        )


def _pending_times(priority: int | None, buckets: Counter[int]) -> PendingTimes:
    p50, p95, p99 = (round(quantile(buckets, share) or 0.0, 1) for share in (0.50, 0.95, 0.99))
    return PendingTimes(priority=priority, pods=buckets.total(), p50=p50, p95=p95, p99=p99)
