"""Reports the event sources: metrics and entries in `/statusz` from the counters of their reflectors, and log lines about
objects that cannot be read. Each problem is logged once, so that an object that changes often does not fill the log.

The metrics count every event, and `/dumpstate` has the nodes that are closed.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Final

import structlog
from prometheus_client.core import Metric

from slackwater.adapters.http.status import EventSourceStatus
from slackwater.adapters.kube.reflector import Reflector
from slackwater.ports.metric_families import counter, gauge


def families(event_sources: Mapping[str, Reflector[Any]], failed_events: Mapping[str, int]) -> Iterator[Metric]:
    """The metrics of all event sources. `failed_events`: events that could not be applied, by type."""
    for name, meaning in (
        ("events", "Events taken from the API server."),
        ("lists", "Lists begun."),
        ("watches", "Watches begun."),
        ("broken_objects", "Objects skipped as unreadable."),
    ):
        counts = {source: getattr(reflector, name) for source, reflector in event_sources.items()}
        yield counter(f"slackwater_event_source_{name}", meaning, counts, "resource")
    breaks = {(source, cause): n for source, reflector in event_sources.items() for cause, n in reflector.breaks.items()}
    meaning = "Lists and watches broken off, by cause."
    yield counter("slackwater_event_source_breaks", meaning, breaks, "resource", "cause")
    alive = {source: reflector.alive for source, reflector in event_sources.items()}
    yield gauge("slackwater_event_source_alive", "1 from an answer of the API server until a break.", alive, "resource")
    yield counter("slackwater_failed_events", "Events that could not be applied, by type.", failed_events, "event")


def status_of(reflector: Reflector[Any]) -> EventSourceStatus:
    """The entry of an event source in `/statusz`."""
    return EventSourceStatus(
        alive=reflector.alive,
        absent=reflector.absent,
        events=reflector.events,
        lists=reflector.lists,
        watches=reflector.watches,
        broken_objects=reflector.broken_objects,
    )


_log = structlog.get_logger(__name__)

#: The most objects that are remembered; the one that was reported longest ago is forgotten first.
_MOST: Final = 4096
#: The most characters of a problem's text: it quotes what the object has.
_LONGEST: Final = 500


class BrokenObjects:
    """What reflectors call for an object that they cannot read; see the module."""

    def __init__(self) -> None:
        self._said: OrderedDict[tuple[str, str], int] = OrderedDict()

    def __call__(self, resource: str, name: str, error: Exception) -> None:
        """Logs the problem, unless it was the last one that was logged for this object."""
        text = str(error)
        key, problem = (resource, name), hash(text)
        if self._said.get(key) == problem:
            return
        self._said[key] = problem
        self._said.move_to_end(key)
        if len(self._said) > _MOST:
            self._said.popitem(last=False)
        _log.error("object cannot be read", resource=resource, name=name, error=text[:_LONGEST])
