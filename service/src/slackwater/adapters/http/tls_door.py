"""Accepts TLS connections. Each has its place in the connection limiter from its first packet on, so handshakes that never end
are counted.

asyncio's own servers show a connection to nobody before its handshake is over. Here a connection that finds no place is closed
before anything is spent on it, and a handshake that fails or takes too long gives its place back. Each handshake takes the TLS
context that is in use when it begins, so a renewed certificate needs no new listener (docs/adr/0152).
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

#: Who begins TLS and does not go on is let go.
HANDSHAKE_SECONDS: Final = 10.0
#: The kernel has nothing left for one more connection. As asyncio's own servers, we try again after a second.
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_AGAIN_SECONDS: Final = 1.0


class MakeConnection(Protocol):
    """Makes the protocol of one connection."""

    def __call__(self, *, enter: Enter) -> asyncio.Protocol: ...


class TlsDoor:
    """The way in at one listening socket."""

    def __init__(
        self, sock: socket.socket, certificates: Certificates, connection_limiter: ConnectionLimiter, make: MakeConnection
    ) -> None:
        self._sock = sock
        self._certificates = certificates
        self._connection_limiter = connection_limiter
        self._make = make

    async def run(self) -> None:
        """Accepts until cancelled; handshakes that are under way end then. The socket itself stays open."""
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
                    await anyio.lowlevel.checkpoint()  # a flood of callers must not keep the loop to itself

    async def _accepted(self, sock: socket.socket) -> socket.socket:
        loop = asyncio.get_running_loop()
        while True:
            try:
                return (await loop.sock_accept(sock))[0]
            except OSError as error:  # of others, the caller hung up before it was accepted
                if error.errno in _EXHAUSTED:
                    _log.error("no connection can be accepted", listener=self._certificates.listener, problem=str(error))
                    await anyio.sleep(_AGAIN_SECONDS)
            await anyio.lowlevel.checkpoint()

    async def _shake_hands(self, accepted: socket.socket, place: Place) -> None:
        """From here on the connection lives by itself: its protocol gives the place back when it is lost."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._make(enter=lambda _host: place),
                accepted,
                ssl=self._certificates.context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
        except OSError:  # what the caller sent is no TLS, no certificate that we trust, or not whole in time
            place.leave()
        except BaseException:
            place.leave()
            raise


def _host(accepted: socket.socket) -> str:
    try:
        return str(accepted.getpeername()[0])
    except OSError:  # it has hung up already
        return ""
