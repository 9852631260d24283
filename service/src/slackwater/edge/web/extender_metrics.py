"""Metrics of the extender listener, next to it. Every series of the known verbs exists from the start."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

VERBS: Final = ("filter", "prioritize", "bind", "preempt")
_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_BYTES: Final = (1e3, 4e3, 16e3, 64e3, 256e3, 1e6, 4e6, 16e6, 64e6)


class ExtenderMetrics:
    """Requests by verb and HTTP status, their time and size."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "slackwater_extender_requests",
            "Extender requests answered, by verb and HTTP status.",
            ["verb", "code"],
            registry=registry,
        )
        seconds = Histogram(
            "slackwater_extender_request_duration_seconds",
            "Time from the request's head to the end of its answer.",
            ["verb"],
            buckets=_SECONDS,
            registry=registry,
        )
        sizes = Histogram(
            "slackwater_extender_request_size_bytes", "Size of request bodies.", ["verb"], buckets=_BYTES, registry=registry
        )
        verbs = (*VERBS, "other")
        self._seconds = {verb: seconds.labels(verb) for verb in verbs}
        self._sizes = {verb: sizes.labels(verb) for verb in verbs}
        self._by_code = {(verb, 200): self._requests.labels(verb, "200") for verb in VERBS}

    def observe(self, verb: str, status: int, size: int, seconds: float) -> None:
        counter = self._by_code.get((verb, status))
        if counter is None:
            counter = self._by_code[verb, status] = self._requests.labels(verb, str(status))
        counter.inc()
        self._seconds[verb].observe(seconds)
        self._sizes[verb].observe(size)
