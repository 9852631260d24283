"""Accepts TLS connections. Each takes a place in the connection limiter before its handshake, so unfinished handshakes count
too.

asyncio's own servers report a connection only after its handshake. Here a connection without a place is closed before it costs
anything, and a handshake that fails or takes too long gives its place back. Each handshake uses the TLS context that is in use
when it begins, so a renewed certificate needs no new listener (docs/adr/0152).
"""

import asyncio
import errno
import socket
from typing import Final, Protocol

import anyio
import anyio.lowlevel
import structlog

from slackwater.adapters.http.certificates import Certificates
from slackwater.adapters.http.connection_limiter import ConnectionLimiter, Enter, Place

_log = structlog.get_logger(__name__)

#: The time limit of a handshake.
HANDSHAKE_SECONDS: Final = 10.0
#: The pause when the kernel has no resources for another connection, as in asyncio's own servers.
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_AGAIN_SECONDS: Final = 1.0


class MakeConnection(Protocol):
    """Creates the protocol of one connection."""

    def __call__(self, *, enter: Enter) -> asyncio.Protocol: ...


class TlsDoor:
    """Accepts the connections of one listening socket."""

    def __init__(
        self, sock: socket.socket, certificates: Certificates, connection_limiter: ConnectionLimiter, make: MakeConnection
    ) -> None:
        self._sock = sock
        self._certificates = certificates
        self._connection_limiter = connection_limiter
        self._make = make

    async def run(self) -> None:
        """Accepts until cancelled; unfinished handshakes end then. The socket itself stays open."""
        async with anyio.create_task_group() as handshakes:
            with self._sock.dup() as sock:
                sock.setblocking(False)
                while True:
                    accepted = await self._accepted(sock)
                    place = self._connection_limiter.enter(_host(accepted))
                    if isinstance(place, Place):
                        handshakes.start_soon(self._shake_hands, accepted, place)
                    else:
                        accepted.close()
                    await anyio.lowlevel.checkpoint()  # so that a flood of connections does not block the event loop

    async def _accepted(self, sock: socket.socket) -> socket.socket:
        loop = asyncio.get_running_loop()
        while True:
            try:
                return (await loop.sock_accept(sock))[0]
            except OSError as error:  # for other errors: the caller hung up before the accept
                if error.errno in _EXHAUSTED:
                    _log.error("no connection can be accepted", listener=self._certificates.listener, problem=str(error))
                    await anyio.sleep(_AGAIN_SECONDS)
            await anyio.lowlevel.checkpoint()

    async def _shake_hands(self, accepted: socket.socket, place: Place) -> None:
        """Completes the handshake. After that, the connection's protocol gives the place back when the connection is lost."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._make(enter=lambda _host: place),
                accepted,
                ssl=self._certificates.context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
        except OSError:  # no TLS, a certificate that is not trusted, or too slow
            place.leave()
        except BaseException:
            place.leave()
            raise


def _host(accepted: socket.socket) -> str:
    try:
        return str(accepted.getpeername()[0])
    except OSError:  # the caller has hung up already
        return ""
