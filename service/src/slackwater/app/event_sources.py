"""Builds the metrics of the event sources and their entries in `/statusz`, from the counters of their reflectors."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from slackwater.adapters.http.status import EventSourceStatus
from slackwater.adapters.kube.reflector import ReflectorStats


def families(event_sources: Mapping[str, ReflectorStats], failed_events: Mapping[str, int]) -> Iterator[Metric]:
    """The metrics of all event sources. `failed_events`: events that could not be applied, by type."""
    events = CounterMetricFamily("slackwater_event_source_events", "Events taken from the API server.", labels=["resource"])
    lists = CounterMetricFamily("slackwater_event_source_lists", "Lists begun.", labels=["resource"])
    watches = CounterMetricFamily("slackwater_event_source_watches", "Watches begun.", labels=["resource"])
    breaks = CounterMetricFamily(
        "slackwater_event_source_breaks", "Lists and watches broken off, by cause.", labels=["resource", "cause"]
    )
    broken = CounterMetricFamily(
        "slackwater_event_source_broken_objects", "Objects skipped as unreadable.", labels=["resource"]
    )
    alive = GaugeMetricFamily(
        "slackwater_event_source_alive", "1 from an answer of the API server until a break.", labels=["resource"]
    )
    for name, stats in event_sources.items():
        events.add_metric([name], stats.events)
        lists.add_metric([name], stats.lists)
        watches.add_metric([name], stats.watches)
        broken.add_metric([name], stats.broken_objects)
        alive.add_metric([name], int(stats.alive))
        for cause, count in stats.breaks.items():
            breaks.add_metric([name, cause], count)
    failed = CounterMetricFamily("slackwater_failed_events", "Events that could not be applied, by type.", labels=["event"])
    for kind, count in failed_events.items():
        failed.add_metric([kind], count)
    yield from (events, lists, watches, breaks, broken, alive, failed)


def status_of(stats: ReflectorStats) -> EventSourceStatus:
    """The entry of an event source in `/statusz`."""
    return EventSourceStatus(
        alive=stats.alive,
        absent=stats.absent,
        events=stats.events,
        lists=stats.lists,
        watches=stats.watches,
        broken_objects=stats.broken_objects,
    )
