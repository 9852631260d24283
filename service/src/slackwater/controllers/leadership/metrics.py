"""Leader election on the ops listener: Prometheus metrics, and the part `leader` of `/statusz`."""

from collections.abc import Iterator, Mapping
from typing import Annotated

from msgspec import Meta
from prometheus_client.core import Metric

from slackwater.model.json_answer import JsonAnswer, written
from slackwater.ports.metric_families import counter, gauge


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


def leader_families(status: LeaderStatus, forwards: Mapping[str, int]) -> Iterator[Metric]:
    """Yields the metric families. `forwards` are the counts of agents' requests on a standby, by outcome."""
    yield gauge("slackwater_leader", "1 while this replica decides and writes.", status.leads)
    yield counter("slackwater_leadership_terms", "How often this replica has become the leader.", status.leadership_terms)
    yield counter("slackwater_leader_transitions", "How often the Lease was seen to name another holder.", status.changes)
    meaning = "Agents' requests to a replica that does not lead: answered by the leader, unanswered by it, or refused."
    yield counter("slackwater_agent_forwards", meaning, forwards, "outcome")
