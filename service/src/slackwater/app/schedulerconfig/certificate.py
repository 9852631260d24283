"""The names a PEM certificate is valid for, and whether one of them is the one that kube-scheduler checks.

Flows through: the extender listener's certificate, where `scheduler-config --check --config F` can read it.
Deliberately absent: chains and dates; kube-scheduler verifies those itself, and says so.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateNames:
    """Subject alternative names; Go looks at nothing else. IP addresses are in their canonical text."""

    dns: tuple[str, ...]
    addresses: tuple[str, ...]

    def cover(self, name: str) -> bool:
        """Whether a TLS client that wants `name`, a host name or IP address, accepts the certificate."""
        try:
            return str(ipaddress.ip_address(name)) in self.addresses
        except ValueError:
            return any(_matches(pattern.lower(), name.lower().rstrip(".")) for pattern in self.dns)

    def __str__(self) -> str:
        names: Sequence[str] = (*self.dns, *self.addresses)
        return ", ".join(names) or "no name at all"


def certificate_names(pem: bytes) -> CertificateNames:
    """The names of the first certificate in `pem`. Raises ValueError where there is none."""
    certificate = x509.load_pem_x509_certificate(pem)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return CertificateNames(dns=(), addresses=())
    return CertificateNames(
        dns=tuple(names.get_values_for_type(x509.DNSName)),
        addresses=tuple(str(address) for address in names.get_values_for_type(x509.IPAddress)),
    )


def _matches(pattern: str, name: str) -> bool:
    """A wildcard stands for the first label only."""
    if not pattern.startswith("*."):
        return pattern == name
    return name.partition(".")[2] == pattern[2:] and not name.startswith(".")
