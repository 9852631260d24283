"""Certificates of every kind for tests: those that should be accepted, and each way in which one is not."""

import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

from slackwater.adapters.http.certificates import TlsFiles

_YESTERDAY = datetime.now(UTC) - timedelta(days=1)


@dataclass
class Pki:
    """A CA that both sides trust, one that nobody does, and files in `folder`."""

    folder: Path
    ca: trustme.CA = field(default_factory=trustme.CA)
    stranger: trustme.CA = field(default_factory=trustme.CA)

    def server(self, name: str = "127.0.0.1", *, expired: bool = False, by: trustme.CA | None = None) -> trustme.LeafCert:
        return (by or self.ca).issue_cert(name, not_after=_YESTERDAY if expired else None)

    def client(self, name: str, *, expired: bool = False, by: trustme.CA | None = None) -> trustme.LeafCert:
        return (by or self.ca).issue_cert(common_name=name, not_after=_YESTERDAY if expired else None)

    def write(self, server: trustme.LeafCert | None = None, *, ca: trustme.CA | None = None) -> dict[str, str]:
        """The three files of a listener, as its settings name them."""
        server = server or self.server()
        paths = {key: str(self.folder / f"{key}.pem") for key in ("certFile", "keyFile", "clientCAFile")}
        server.cert_chain_pems[0].write_to_path(paths["certFile"])
        server.private_key_pem.write_to_path(paths["keyFile"])
        (ca or self.ca).cert_pem.write_to_path(paths["clientCAFile"])
        return paths

    def tls(self, *, optional: bool = False) -> TlsFiles:
        """Of the files that `write` wrote."""
        names = (str(self.folder / f"{key}.pem") for key in ("certFile", "keyFile", "clientCAFile"))
        cert, key, ca = names
        return TlsFiles(cert_file=cert, key_file=key, client_ca_file=ca, client_certificate="may" if optional else "must")

    def context(self, client: trustme.LeafCert | None = None) -> ssl.SSLContext:
        """Of a client that trusts the CA, and shows `client` if there is one."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # to read the system's authorities takes 45 ms each time
        self.ca.configure_trust(made)
        if client is not None:
            client.configure_cert(made)
        return made
