"""Reads the names that a PEM certificate is valid for, and says whether they cover the name that kube-scheduler checks.

The certificate is the extender listener's, if `scheduler-config --check --config F` can read it. Chains and dates are not
checked: kube-scheduler verifies those and logs the failure.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateNames:
    """A certificate's subject alternative names, the only names that Go checks. IP addresses are in canonical form."""

    dns: tuple[str, ...]
    addresses: tuple[str, ...]

    def cover(self, name: str) -> bool:
        """Would a TLS client that connects to `name`, a host name or IP address, accept the certificate?"""
        try:
            return str(ipaddress.ip_address(name)) in self.addresses
        except ValueError:
            return any(_matches(pattern.lower(), name.lower().rstrip(".")) for pattern in self.dns)

    def __str__(self) -> str:
        names: Sequence[str] = (*self.dns, *self.addresses)
        return ", ".join(names) or "no name at all"


def certificate_names(pem: bytes) -> CertificateNames:
    """The names of the first certificate in `pem`. Raises ValueError if there is none."""
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
    """Does a DNS name match a certificate's name? A wildcard matches exactly the first label."""
    if not pattern.startswith("*."):
        return pattern == name
    return name.partition(".")[2] == pattern[2:] and not name.startswith(".")
