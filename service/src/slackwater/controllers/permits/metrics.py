"""Prometheus metrics of the agents listener. The request series of every known protocol version exists from the start."""

from collections import Counter
from collections.abc import Callable, Container, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from slackwater.model.histogram import Spread
from slackwater.ports.metric_families import counter, histogram
from slackwater_protocol.agent_versions import ProtocolVersion, version_name

_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_VERSIONS: Final = {int(version): version_name(version) for version in ProtocolVersion}
#: The version label of all requests that could not be decoded or have an unsupported version.
OTHER: Final = "other"
#: The node label if the pod's node is not known.
NO_NODE: Final = "<none>"
#: With at most this many series, `result` does not look for nodes that are gone.
_FEW: Final = 64


class AgentMetrics(Collector):
    """Counts agents' requests by status, version and node, and the time that they take. Makes metrics of the counts at scrape.

    `nodes` returns the names of existing nodes. The series of a node are removed when the node is gone.
    """

    def __init__(self, registry: CollectorRegistry, nodes: Callable[[], Container[str]]) -> None:
        self._nodes = nodes
        self._requests = Counter({("200", version): 0 for version in _VERSIONS.values()})
        self._by_status = Counter[str]()
        self._results = Counter[tuple[str, str, str]]()
        self._look_at = _FEW
        self._seconds = Spread(_SECONDS)
        self.migrating = 0  #: answers that announced the pod's migration to its agent
        self.pending = 0  #: answers below the available room, since the higher permit limit was not persisted yet
        registry.register(self)

    def observe(self, status: int, version: int, seconds: float) -> None:
        """Counts one answer to a permit request. `version`: the protocol version on the wire, 0 if not decoded."""
        code = str(status)
        self._requests[code, _VERSIONS.get(version, OTHER)] += 1
        self._by_status[code] += 1
        self._seconds.note(seconds)

    def result(self, status: int, node: str, *, has_metrics: bool) -> None:
        """Counts one answer to a decoded request. `node`: the pod's node; "" if not known."""
        self._results[str(status), node or NO_NODE, "true" if has_metrics else "false"] += 1
        if len(self._results) > self._look_at:
            self._drop_gone()

    def _drop_gone(self) -> None:
        """Removes the series of nodes that are gone.

        `result` calls this again when the series have doubled, so the cost for each new series is constant on average.
        """
        nodes = self._nodes()
        for key in [key for key in self._results if key[1] != NO_NODE and key[1] not in nodes]:
            del self._results[key]
        self._look_at = max(2 * len(self._results), _FEW)

    def collect(self) -> Iterator[Metric]:
        meaning = "Agent requests answered, by HTTP status and protocol version."
        yield counter("slackwater_agent_requests", meaning, self._requests, "code", "version")
        meaning = "Time from the complete request to its answer, with the wait that the request allows."
        yield histogram("slackwater_agent_request_duration_seconds", meaning, {(): self._seconds})
        meaning = "Answers that announced a migration to the agent of the pod."
        yield counter("slackwater_agent_migrations_announced", meaning, self.migrating)
        meaning = "Answers that granted less than there was room for, because the higher permit limit was not written yet."
        yield counter("slackwater_agent_permit_limits_awaited", meaning, self.pending)
        yield counter("slackwater_resource_requests", "All agent requests, by HTTP status.", self._by_status, "code")
        self._drop_gone()
        meaning = "Agent requests that were decoded, by HTTP status, the pod's node, and whether they reported a load."
        yield counter("slackwater_resource_requests_results", meaning, self._results, "code", "node", "has_metrics")
