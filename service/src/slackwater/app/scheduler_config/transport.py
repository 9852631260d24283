"""Checks the connection from kube-scheduler to the extender: URL, HTTPS, verification, client certificates.

- `transport_findings`: the findings on one extender. Sources: k8s.io/kubernetes v1.36.3, pkg/scheduler/extender.go
  (makeTransport: without a CA, `enableHTTPS` sets Insecure), and k8s.io/client-go/rest (a CA together with `insecure` is an
  error).
- `certificate_names`: the names that the extender listener's certificate is valid for, if `scheduler-config --check --config F`
  can read it. Chains and dates are not checked: kube-scheduler verifies those and logs the failure.

In: one extender of the cleaned tree. Out: findings. No connection is made, and no file is read.
"""

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from slackwater.app.scheduler_config.config_tree import Finding
from slackwater.app.settings import Settings
from slackwater.configuration.addresses import Address
from slackwater.configuration.problems import Steps, json_path, show


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateNames:
    """A certificate's subject alternative names, the only names that Go checks. IP addresses are in canonical form."""

    dns: tuple[str, ...]
    addresses: tuple[str, ...]

    def cover(self, name: str) -> bool:
        """True if a TLS client that connects to `name`, a host name or IP address, would accept the certificate."""
        try:
            return str(ipaddress.ip_address(name)) in self.addresses
        except ValueError:
            return any(_matches(pattern.lower(), name.lower().rstrip(".")) for pattern in self.dns)

    def __str__(self) -> str:
        names: Sequence[str] = (*self.dns, *self.addresses)
        return ", ".join(names) or "no name at all"


def certificate_names(pem: bytes) -> CertificateNames:
    """The names of the first certificate in `pem`. Raises ValueError if there is none."""
    from cryptography import x509  # most commands read no certificate

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
    """True if a DNS name matches a certificate's name. A wildcard matches exactly the first label."""
    if not pattern.startswith("*."):
        return pattern == name
    return name.partition(".")[2] == pattern[2:] and not name.startswith(".")


#: The path under which the extender's verbs are served.
PATH: Final = "/scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The parts of an extender's `urlPrefix`. `host` has no brackets."""

    url: str
    scheme: str
    host: str
    port: int
    path: str

    @property
    def is_loopback(self) -> bool:
        return Address(host=self.host, port=self.port).is_loopback


def target_of(extender: dict[str, Any]) -> Target | None:
    """The parts of an extender's URL; None if it is not usable, which `transport_findings` reports."""
    url = extender.get("urlPrefix", "")
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname or not port:
        return None
    return Target(url=url, scheme=parts.scheme, host=parts.hostname, port=port, path=parts.path.rstrip("/"))


def transport_findings(
    extender: dict[str, Any], at: Steps, settings: Settings | None, names: CertificateNames | None, *, ours: bool = True
) -> Iterator[Finding]:
    """All findings on the connection to one extender. `settings` and `names`, the names in the listener's certificate, are
    passed only for our own extender."""
    target = target_of(extender)
    if target is None:
        yield Finding(
            path=json_path((*at, "urlPrefix")),
            trap="url-prefix",
            why=f"got {show(extender.get('urlPrefix', ''))}, which is no URL that can be called",
            fix=f"want http://HOST:PORT{PATH} or https://HOST:PORT{PATH}",
        )
        return
    yield from _url_findings(urlsplit(target.url), at)
    yield from _clear_text_findings(extender, target, at, settings)
    yield from _verification_findings(extender, target, at, names, ours=ours)
    if settings is not None:
        yield from _listener_findings(extender, target, at, settings)


def _url_findings(url: SplitResult, at: Steps) -> Iterator[Finding]:
    path = json_path((*at, "urlPrefix"))
    if url.username is not None or url.password is not None:
        yield Finding(
            path=path,
            trap="no-token",
            why="a user and password in the URL are checked by nobody, and kube-scheduler writes the URL to its log",
            fix="remove them; use a client certificate where the listener has to know its caller",
        )
    if url.query or url.fragment:
        yield Finding(
            path=path,
            trap="url-prefix",
            why="the verb is appended to the whole URL, so it ends up in the query or fragment",
            fix="remove everything from ? or # on",
        )


def _clear_text_findings(extender: dict[str, Any], target: Target, at: Steps, settings: Settings | None) -> Iterator[Finding]:
    if target.scheme == "https":
        return
    if extender.get("enableHTTPS") or extender.get("tlsConfig"):
        key = "enableHTTPS" if extender.get("enableHTTPS") else "tlsConfig"
        yield Finding(
            path=json_path((*at, key)),
            trap="https-not-used",
            why="the URL decides whether TLS is used, and urlPrefix starts with http://: everything goes in the clear",
            fix=f"write urlPrefix with https://, or remove {key}",
        )
    if not target.is_loopback:
        listener = settings.listeners.extender if settings else None
        meant = listener is not None and listener.tls is None and listener.address.host == target.host
        yield Finding(
            path=json_path((*at, "urlPrefix")),
            trap="plain-http",
            why=f"pods go in the clear to {target.host}, and anyone who can reach that listener can bind pods",
            fix="run Slackwater in the scheduler's Pod and use 127.0.0.1, or use https:// with a client certificate",
            severity="advice" if meant else "warning",  # our own configuration asks for it, so it is intended
        )


def _verification_findings(
    extender: dict[str, Any], target: Target, at: Steps, names: CertificateNames | None, *, ours: bool
) -> Iterator[Finding]:
    tls = extender.get("tlsConfig", {})
    where = json_path((*at, "tlsConfig"))
    has_ca = bool(tls.get("caFile") or tls.get("caData"))
    if tls.get("insecure") and (ours or has_ca):  # without a CA some others serve certificates that nobody can verify (HAMi)
        refused = ", and refuses to start with a CA beside it" if has_ca else ""
        yield Finding(
            path=f"{where}.insecure",
            trap="https-not-verified",
            why=f"kube-scheduler accepts any certificate{refused}, so anybody on the way can answer for Slackwater",
            fix="remove insecure and set caFile",
        )
    if bool(tls.get("certFile") or tls.get("certData")) != bool(tls.get("keyFile") or tls.get("keyData")):
        yield Finding(
            path=where,
            trap="client-certificate-incomplete",
            why="a certificate without its key, or a key without its certificate, is not used",
            fix="set both certFile and keyFile",
        )
    if target.scheme != "https" or tls.get("insecure"):
        return
    if not has_ca:
        yield _without_ca(bool(extender.get("enableHTTPS")), at)
        return
    yield from _name_findings(tls, target, where, names)


def _without_ca(enabled: bool, at: Steps) -> Finding:
    if enabled:
        return Finding(
            path=json_path((*at, "tlsConfig", "caFile")),
            trap="https-without-ca",
            why="with enableHTTPS and no CA kube-scheduler silently verifies nothing: anybody on the way can answer",
            fix="set tlsConfig.caFile to the CA of the listener's certificate",
        )
    return Finding(
        path=json_path((*at, "enableHTTPS")),
        trap="https-without-ca",
        why="without enableHTTPS and a CA the certificate is checked against the system's roots only",
        fix="set enableHTTPS: true and tlsConfig.caFile to the CA of the listener's certificate",
    )


def _name_findings(tls: dict[str, Any], target: Target, where: str, names: CertificateNames | None) -> Iterator[Finding]:
    called = tls.get("serverName") or target.host
    if names is None:
        yield Finding(
            path=f"{where}.serverName",
            trap="https-server-name",
            why=f"the listener's certificate is not known here; it has to be valid for {called}, or every call fails",
            fix="set serverName to a name in the certificate, or check with --config where the certificate can be read",
            severity="advice",
        )
    elif not names.cover(called):
        yield Finding(
            path=f"{where}.serverName",
            trap="https-server-name",
            why=f"the listener's certificate is valid for {names}, not for {called}: every call fails",
            fix="set serverName to one of its names, or issue a certificate that has this one",
        )


def _listener_findings(extender: dict[str, Any], target: Target, at: Steps, settings: Settings) -> Iterator[Finding]:
    listener = settings.listeners.extender
    scheme = "https" if listener.tls else "http"
    address = listener.address
    reaches = address.is_every_interface or target.host == address.host or (target.is_loopback and address.is_loopback)
    if (target.scheme, target.port, target.path) != (scheme, address.port, PATH) or not reaches:
        host = "127.0.0.1" if address.is_every_interface else str(address).rpartition(":")[0]
        yield Finding(
            path=json_path((*at, "urlPrefix")),
            trap="url-prefix",
            why=f"got {target.url}, but listeners.extender listens on {scheme}://{address} and serves {PATH}",
            fix=f"want {scheme}://{host}:{address.port}{PATH}",
        )
    tls = extender.get("tlsConfig", {})
    if listener.tls and listener.tls.client_ca_file and not (tls.get("certFile") or tls.get("certData")):
        yield Finding(
            path=json_path((*at, "tlsConfig", "certFile")),
            trap="client-certificate-missing",
            why="listeners.extender.tls.clientCAFile asks for a client certificate, so every call is refused",
            fix="set tlsConfig.certFile and keyFile",
        )
