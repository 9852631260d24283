"""Prometheus metrics of the listeners' TLS certificates: expiry, refused files and renewals."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from slackwater.adapters.http.certificates import Certificates


class CertificateCollector(Collector):
    """Reads the state of each listener's `Certificates` at each scrape."""

    def __init__(self, certificates: Mapping[str, Certificates]) -> None:
        self._certificates = certificates

    def collect(self) -> Iterator[Metric]:
        ends = GaugeMetricFamily(
            "slackwater_tls_certificate_not_after_seconds",
            "When the certificate that a listener presents ends; Unix seconds.",
            labels=["listener"],
        )
        stale = GaugeMetricFamily(
            "slackwater_tls_files_refused",
            "1 while the present content of a listener's TLS files cannot be used.",
            labels=["listener"],
        )
        renewals = CounterMetricFamily(
            "slackwater_tls_renewals",
            "New contents of a listener's TLS files that were taken into use.",
            labels=["listener"],
        )
        for name, held in self._certificates.items():
            ends.add_metric([name], held.not_after)
            stale.add_metric([name], int(held.problem is not None))
            renewals.add_metric([name], held.renewals)
        yield from (ends, stale, renewals)
