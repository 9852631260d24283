"""Leader election on the ops listener: Prometheus metrics, and the part `leader` of `/statusz`."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated

from msgspec import Meta
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from slackwater.model.json_answer import JsonAnswer, written
from slackwater.ports.histograms import counters


class LeaderStatus(JsonAnswer, frozen=True, kw_only=True):
    """The state of leader election, as this replica sees it."""

    mode: Annotated[str, Meta(description="`leaderElection.mode`.")] = written("none")
    leads: Annotated[bool, Meta(description="This replica decides and writes.")] = written(True)
    holder: Annotated[
        str, Meta(description="The holder that the Lease names; empty if it names nobody, or there is no Lease.")
    ] = written("")
    leadership_terms: Annotated[int, Meta(description="How often this replica has become the leader.")] = written(
        1, name="leadership_terms"
    )
    changes: Annotated[int, Meta(description="How often the Lease was seen to name another holder.")] = written(0)


def alone() -> LeaderStatus:
    """Returns the status of a service with a single replica, which always leads."""
    return LeaderStatus()


class LeaderCollector(Collector):
    """Reads the metrics at each scrape. `forwards` returns the counts of agents' requests on a standby, by outcome."""

    def __init__(self, status: Callable[[], LeaderStatus], forwards: Callable[[], Mapping[str, int]]) -> None:
        self._status = status
        self._forwards = forwards

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        yield GaugeMetricFamily("slackwater_leader", "1 while this replica decides and writes.", value=int(status.leads))
        yield CounterMetricFamily(
            "slackwater_leadership_terms", "How often this replica has become the leader.", value=status.leadership_terms
        )
        yield CounterMetricFamily(
            "slackwater_leader_transitions", "How often the Lease was seen to name another holder.", value=status.changes
        )
        yield counters(
            "slackwater_agent_forwards",
            "Agents' requests to a replica that does not lead: answered by the leader, unanswered by it, or refused.",
            "outcome",
            self._forwards(),
        )
