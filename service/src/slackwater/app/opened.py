"""Opens the listening sockets that the settings name and reads their TLS files, before anything is started."""

import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from slackwater.adapters.http.certificates import Certificates, Tls
from slackwater.adapters.http.serving import listen
from slackwater.app.settings.serving import AgentsListener, ExtenderListener, Listeners, OpsListener


@dataclass(frozen=True, slots=True)
class Opened:
    """An open listener. `certificates` is None if it does not use TLS."""

    sock: socket.socket
    certificates: Certificates | None


def open_listeners(listeners: Listeners, stack: ExitStack, unix_seconds: Callable[[], float]) -> dict[str, Opened]:
    """Opens all listeners; returns them by name. `stack` closes the sockets.

    :raises ListenError: an address is taken, or a TLS file is missing or invalid.
    """
    opened = {}
    for name, listener in (("ops", listeners.ops), ("extender", listeners.extender), ("agents", listeners.agents)):
        tls = tls_of(listener)
        certificates = None if tls is None else Certificates(name, tls, unix_seconds=unix_seconds)
        sock = stack.enter_context(listen(name, listener.address.host, listener.address.port))
        opened[name] = Opened(sock, certificates)
    return opened


def tls_of(listener: OpsListener | ExtenderListener | AgentsListener) -> Tls | None:
    """The TLS parameters of a listener; None without TLS. A client certificate is optional if agents may show a token instead,
    or if the ops listener says so; otherwise it is required, provided that a client CA is configured."""
    if (files := listener.tls) is None:
        return None
    match listener:
        case AgentsListener():
            optional = listener.authentication.tokens is not None
        case OpsListener():
            optional = listener.client_certificates == "optional"
        case ExtenderListener():
            optional = False
    return Tls(
        cert_file=files.cert_file,
        key_file=files.key_file,
        client_ca_file=files.client_ca_file,
        client_certificate="may" if optional else "must",
    )
