"""Metrics of the agents' listener, next to it. Every series of the known versions exists from the start."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from slackwater_protocol.agent_versions import ProtocolVersion, is_answered, version_name

_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
#: Of a request that could not be read, or that speaks a version we do not: one series, whatever the number.
OTHER: Final = "other"
#: The node of a pod that is not known.
NO_NODE: Final = "<none>"


class AgentMetrics:
    """Requests by status and version, their time, and what agents do that they should not."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "slackwater_agent_requests",
            "Agent requests answered, by HTTP status and protocol version.",
            ["code", "version"],
            registry=registry,
        )
        self._seconds = Histogram(
            "slackwater_agent_request_duration_seconds",
            "Time from the request's head to the end of its answer; waiting that was asked for is part of it.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.migrating: Final = Counter(
            "slackwater_agent_migrations_told", "Answers that told an agent of its pod's migration.", registry=registry
        )
        self.pending: Final = Counter(
            "slackwater_agent_ceilings_awaited",
            "Answers that granted less than there was room for, since the higher ceiling was not written yet.",
            registry=registry,
        )
        self._by_status = Counter(
            "slackwater_resource_requests", "All agent requests, by HTTP status.", ["code"], registry=registry
        )
        self._results = Counter(
            "slackwater_resource_requests_results",
            "Agent requests that could be read, by HTTP status, the pod's node, and whether they told a load.",
            ["code", "node", "has_metrics"],
            registry=registry,
        )
        self._by_result: dict[tuple[int, str, bool], Counter] = {}
        self._by_code = {(200, int(v)): self._requests.labels("200", version_name(v)) for v in ProtocolVersion}

    def observe(self, status: int, version: int, seconds: float) -> None:
        """`version` as on the wire; 0 where it could not be read."""
        counter = self._by_code.get((status, version))
        if counter is None:
            name = version_name(version) if is_answered(version) else OTHER
            counter = self._requests.labels(str(status), name)
            if name != OTHER:
                self._by_code[status, version] = counter
        counter.inc()
        self._by_status.labels(str(status)).inc()
        self._seconds.observe(seconds)

    def result(self, status: int, node: str, *, has_metrics: bool) -> None:
        """`node` is empty where the pod is on none that is known."""
        counter = self._by_result.get((status, node, has_metrics))
        if counter is None:
            counter = self._results.labels(str(status), node or NO_NODE, str(has_metrics).lower())
            self._by_result[status, node, has_metrics] = counter
        counter.inc()
