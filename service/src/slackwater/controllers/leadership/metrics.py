"""Leader election on the ops listener: Prometheus metrics, and the part `leader` of `/statusz`."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import BaseModel, ConfigDict, Field


class LeaderStatus(BaseModel):
    """The state of leader election, as this replica sees it."""

    model_config = ConfigDict(frozen=True)

    mode: Annotated[str, Field(description="`leaderElection.mode`.")] = "none"
    leads: Annotated[bool, Field(description="This replica decides and writes.")] = True
    holder: Annotated[
        str, Field(description="The holder that the Lease names; empty if it names nobody, or there is no Lease.")
    ] = ""
    leadership_terms: Annotated[int, Field(description="How often this replica has become the leader.")] = 1
    changes: Annotated[int, Field(description="How often the Lease was seen to name another holder.")] = 0


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
        forwards = CounterMetricFamily(
            "slackwater_agent_forwards",
            "Agents' requests to a replica that does not lead: answered by the leader, unanswered by it, or refused.",
            labels=["outcome"],
        )
        for outcome, count in self._forwards().items():
            forwards.add_metric([outcome], count)
        yield forwards
