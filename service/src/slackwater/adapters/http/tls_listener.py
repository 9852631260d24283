"""Accepts TLS connections of one listener, and counts each in the connection limiter before its handshake.

asyncio's own servers report a connection only after its handshake, so handshakes that never end would not be counted. Here a
connection above the limit is closed before its handshake, and a handshake that fails or takes too long gives its place back.
Each handshake uses the TLS context that is current when it begins, so a renewed certificate needs no new listener
(docs/adr/0152).
"""

import asyncio
import errno
import socket
from typing import Final, Protocol

import anyio
import anyio.lowlevel
import structlog

from slackwater.adapters.http.certificates import Certificates
from slackwater.adapters.http.connection_limiter import ConnectionLimiter, ConnectionSlot, Enter

_log = structlog.get_logger(__name__)

#: A handshake that takes longer is aborted.
HANDSHAKE_SECONDS: Final = 10.0
#: The kernel has no resources for another connection. Like asyncio's own servers, we try again after a second.
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_AGAIN_SECONDS: Final = 1.0


class MakeConnection(Protocol):
    """Creates the asyncio protocol of one connection. The protocol calls `enter` for its place in the limiter."""

    def __call__(self, *, enter: Enter) -> asyncio.Protocol: ...


class TlsAcceptor:
    """Accepts connections at one listening socket and performs their TLS handshakes."""

    def __init__(
        self, sock: socket.socket, certificates: Certificates, connection_limiter: ConnectionLimiter, make: MakeConnection
    ) -> None:
        self._sock = sock
        self._certificates = certificates
        self._connection_limiter = connection_limiter
        self._make = make

    async def run(self) -> None:
        """Accepts until cancelled, which also cancels handshakes in progress. The socket itself stays open."""
        async with anyio.create_task_group() as handshakes:
            with self._sock.dup() as sock:
                sock.setblocking(False)
                while True:
                    accepted = await self._accepted(sock)
                    place = self._connection_limiter.enter(_host(accepted))
                    if isinstance(place, ConnectionSlot):
                        handshakes.start_soon(self._handshake, accepted, place)
                    else:
                        accepted.close()
                    await anyio.lowlevel.checkpoint()  # many waiting connections must not occupy the event loop

    async def _accepted(self, sock: socket.socket) -> socket.socket:
        loop = asyncio.get_running_loop()
        while True:
            try:
                return (await loop.sock_accept(sock))[0]
            except OSError as error:  # any other error: the caller closed the connection before it was accepted
                if error.errno in _EXHAUSTED:
                    _log.error("no connection can be accepted", listener=self._certificates.listener, problem=str(error))
                    await anyio.sleep(_AGAIN_SECONDS)
            await anyio.lowlevel.checkpoint()

    async def _handshake(self, accepted: socket.socket, place: ConnectionSlot) -> None:
        """Performs one handshake. Afterwards the connection's protocol owns the place, and gives it back on closing."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._make(enter=lambda _host: place),
                accepted,
                ssl=self._certificates.context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
        except OSError:  # not TLS, no trusted certificate, or not finished in time
            place.release()
        except BaseException:
            place.release()
            raise


def _host(accepted: socket.socket) -> str:
    try:
        return str(accepted.getpeername()[0])
    except OSError:  # the caller has closed the connection already
        return ""
