"""Metrics of the world, read from its state when they are scraped, so that they can never differ from it."""

from collections.abc import Callable, Collection, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from slackwater.adapters.http.nomination_metrics import steering_families
from slackwater.adapters.http.preemption_metrics import preemption_families
from slackwater.model.reasons import MEANINGS, Reason
from slackwater.runtime.dispatcher import DispatcherStats
from slackwater.runtime.state_machine import World

_COUNTS = (
    ("attempts", "slackwater_scheduling_attempts", "Scheduling attempts seen: filter calls, and failures of in-tree filters."),
    ("adopted", "slackwater_pods_adopted", "Pods found bound that this service did not bind."),
    ("confirmed", "slackwater_binds_confirmed", "Bindings of this service that the watch has shown."),
    ("holds", "slackwater_holds_taken", "Holds taken at filter."),
    ("holds_expired", "slackwater_holds_expired", "Holds that ended by time, without a bind."),
    (
        "sample_starvations",
        "slackwater_sample_starvations",
        "Filter calls whose whole sample was rejected though another node fits.",
    ),
    ("nominations", "slackwater_nominations", "Nominations made in answer to sample starvation."),
    ("nominations_met", "slackwater_nominations_met", "Nominated pods that were bound to the nominated node."),
    ("over_total", "slackwater_admissions_over_total", "Pods that others bound to a node without room for them."),
    (
        "odd_requests",
        "slackwater_agent_unaligned_requests",
        "Agent requests for resources that are no multiple of the compute unit; answered all the same.",
    ),
    ("permit_writes", "slackwater_permit_writes", "Permit annotations sent to be written."),
    (
        "permit_write_failures",
        "slackwater_permit_write_failures",
        "Of those, refused, lost, or meeting another text than expected.",
    ),
    ("migrations_decided", "slackwater_migrations_decided", "Decisions that a virtual machine leaves its node."),
    ("migrations_created", "slackwater_migrations_created", "VirtualMachineMigrations made."),
    ("migration_create_fails", "slackwater_migration_create_fails", "VirtualMachineMigrations that could not be made."),
    (
        "migrations_without_landing",
        "slackwater_migrations_without_landing",
        "Decisions that came to nothing, since no node takes the machine.",
    ),
)


class WorldCollector(Collector):
    """Yields the families on each scrape."""

    def __init__(
        self,
        world: World,
        *,
        writes: Callable[[], DispatcherStats],
        dropped_events: Callable[[], int],
        feeds: Callable[[], Iterable[Metric]],
        audits: Callable[[], Iterable[Metric]] = tuple,
    ) -> None:
        self._world = world
        self._writes = writes
        self._dropped_events = dropped_events
        self._feeds = feeds
        self._audits = audits

    def collect(self) -> Iterator[Metric]:
        tally = self._world.tally
        for field, name, meaning in _COUNTS:
            yield CounterMetricFamily(name, meaning, value=getattr(tally, field))
        failures = CounterMetricFamily(
            "slackwater_scheduling_failures", "Scheduling attempts that failed, by whose word.", labels=["by"]
        )
        failures.add_metric(["slackwater"], tally.failures - tally.failures_in_tree)
        failures.add_metric(["in_tree"], tally.failures_in_tree)
        yield failures
        yield _by_reason("slackwater_filter_verdicts", "Verdicts of filter on nodes, by reason.", tally.verdicts.tolist())
        yield _by_reason(
            "slackwater_bind_refusals", "Refused binds, by reason.", tally.bind_refusals.tolist(), without=[Reason.OK]
        )
        yield from self._migration_ends()
        yield self._should_deny()
        yield from preemption_families(self._world)
        yield from steering_families(self._world)
        yield from self._gauges()
        yield from self._dispatched()
        yield from self._feeds()
        yield from self._audits()

    def _migration_ends(self) -> Iterator[Metric]:
        tally = self._world.tally
        for name, meaning, counts in (
            ("slackwater_migrations_deleted", "Finished VirtualMachineMigrations deleted.", tally.migrations_deleted),
            ("slackwater_migration_delete_fails", "Deletions of those that failed.", tally.migration_delete_fails),
        ):
            family = CounterMetricFamily(name, meaning, labels=["phase"])
            for phase, count in counts.items():
                family.add_metric([phase or "unknown"], count)
            yield family

    def _should_deny(self) -> Metric:
        """A node's series ends with the node: where nodes come and go there would be more of them with each."""
        family = CounterMetricFamily(
            "slackwater_reserve_should_deny",
            "Pods that others bound to a node without room for them, by node.",
            labels=["node"],
        )
        for node, count in self._world.tally.over_total_on.items():
            family.add_metric([node], count)
        return family

    def _gauges(self) -> Iterator[Metric]:
        world = self._world
        yield GaugeMetricFamily("slackwater_synced", "1 once everything was listed.", value=int(world.synced))
        yield GaugeMetricFamily("slackwater_nodes", "Nodes in the picture.", value=len(world.nodes))
        yield GaugeMetricFamily("slackwater_pods", "Pods in the picture, ended ones included.", value=len(world.pods))
        yield GaugeMetricFamily("slackwater_claims", "Pods that count on a node.", value=len(world.claims))
        yield GaugeMetricFamily(
            "slackwater_claims_unconfirmed", "Reservations that the watch has not shown yet.", value=world.claims.unconfirmed()
        )
        yield GaugeMetricFamily("slackwater_holds", "Holds now.", value=len(world.holds))
        yield GaugeMetricFamily("slackwater_vertical_pods", "Counted pods that grow in place.", value=len(world.standings))
        yield GaugeMetricFamily(
            "slackwater_permit_writes_waiting", "Permits being written now.", value=world.ceilings.writing()
        )
        yield GaugeMetricFamily("slackwater_migrations", "Migrations decided or running now.", value=len(world.migrating.moves))
        yield GaugeMetricFamily(
            "slackwater_migration_queue", "Machines that may leave their node.", value=len(world.migrating.choice.queue)
        )
        yield GaugeMetricFamily("slackwater_denials", "Denied binds remembered now.", value=len(world.denials))

    def _dispatched(self) -> Iterator[Metric]:
        stats = self._writes()
        calls = CounterMetricFamily(
            "slackwater_api_calls", "Attempts of API writes, by effect and verdict.", labels=["effect", "verdict"]
        )
        for (effect, verdict), count in sorted(stats.calls.items()):
            calls.add_metric([effect, verdict], count)
        yield calls
        yield GaugeMetricFamily("slackwater_api_calls_waiting", "Effects not ended yet.", value=stats.waiting)
        yield CounterMetricFamily(
            "slackwater_events_dropped", "Events for people that were dropped under load.", value=self._dropped_events()
        )


def _by_reason(name: str, meaning: str, counts: list[int], *, without: Collection[Reason] = ()) -> Metric:
    family = CounterMetricFamily(name, meaning, labels=["reason"])
    for reason in [reason for reason in Reason if reason not in without]:
        family.add_metric([MEANINGS[reason].label], counts[reason])
    return family
