"""Settings -> listening sockets, and the TLS files of those that have some. What fails, fails before anything is started."""

import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from slackwater.adapters.http.certificates import Certificates, Tls
from slackwater.adapters.http.serving import listen
from slackwater.app.settings.serving import AgentsListener, ExtenderListener, Listeners, OpsListener


@dataclass(frozen=True, slots=True)
class Opened:
    """One listener; without `certificates` it speaks no TLS."""

    sock: socket.socket
    certificates: Certificates | None


def open_listeners(listeners: Listeners, stack: ExitStack, unix_seconds: Callable[[], float]) -> dict[str, Opened]:
    """By name; the sockets are closed with the stack.

    :raises ListenError: an address is taken, or a file is missing or not what it should be.
    """
    opened = {}
    for name, listener in (("ops", listeners.ops), ("extender", listeners.extender), ("agents", listeners.agents)):
        tls = tls_of(listener)
        certificates = None if tls is None else Certificates(name, tls, unix_seconds=unix_seconds)
        sock = stack.enter_context(listen(name, listener.address.host, listener.address.port))
        opened[name] = Opened(sock, certificates)
    return opened


def tls_of(listener: OpsListener | ExtenderListener | AgentsListener) -> Tls | None:
    """A certificate is asked for and not demanded where a token will do, or where callers may look without one."""
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
