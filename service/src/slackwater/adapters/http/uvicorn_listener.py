"""Runs one listener: a uvicorn server as a task of the caller's task group, which alone decides when the server stops.

`serve_app` serves an ASGI application, `serve_direct` an `application.Application`. uvicorn installs no signal handlers.

Connections with TLS are accepted by `TlsAcceptor`, which counts each in the connection limiter before its handshake. asyncio's
own servers report a connection only after its handshake, so handshakes that never end would not be counted. Here a connection
above the limit is closed before its handshake, and a handshake that fails or takes too long gives its place back. Each
handshake uses the TLS context that is current when it begins, so a renewed certificate needs no new listener (docs/adr/0152).
"""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final, Protocol, cast

import anyio
import anyio.lowlevel
import structlog
import uvicorn
from anyio.abc import TaskStatus

from slackwater.adapters.http import bounded_http
from slackwater.adapters.http.application import Application, ConnectionLimiter, ConnectionSlot, Enter
from slackwater.adapters.http.bounded_http import BoundedProtocol
from slackwater.adapters.http.certificates import Certificates, ListenError
from slackwater.adapters.http.http_server import DirectProtocol

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


#: Longer than the 90 s for which kube-scheduler keeps an idle connection. If we closed it first, a request that is being sent
#: would be lost, since Go does not repeat a POST.
_KEEP_ALIVE_SECONDS: Final = 600
#: Keep-alive of the ops listener: longer than the usual interval of Prometheus' scrapes and kubelets' probes.
_APP_KEEP_ALIVE_SECONDS: Final = 75
_BACKLOG: Final = 2048
_GRACE_SECONDS: Final = 4
#: kube-scheduler opens one connection for each concurrent call, and keeps two of them.
_MAX_CONNECTIONS: Final = 2048


def listen(name: str, host: str, port: int) -> socket.socket:
    """Opens a listening TCP socket. `name` is the listener's, for the error text.

    :raises ListenError: the address is in use or not one of this host.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ListenError(f"listeners.{name}.address: cannot listen on {host}:{port}: {error.strerror or error}") from error


class _Server(uvicorn.Server):
    """A uvicorn server whose caller accepts the connections. `accept` gets what makes the protocol of one connection."""

    def __init__(self, config: uvicorn.Config, accept: Callable[[MakeConnection], Awaitable[list[asyncio.Server]]]) -> None:
        super().__init__(config)
        self._accept = accept

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        protocol = cast("Callable[..., asyncio.Protocol]", self.config.http_protocol_class)
        make = partial(protocol, config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
        self.servers = await self._accept(make)
        self.started = True


async def serve_app(
    app: Callable[..., Any],
    sock: socket.socket,
    certificates: Certificates | None,
    on_stop: Callable[[], None] = lambda: None,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serves an ASGI application until cancelled; then pending answers may end within `_GRACE_SECONDS`.

    `on_stop` is called when stopping begins, to end answers that would not end by themselves (the dashboard's streams).
    """
    config = _config(app, BoundedProtocol, _APP_KEEP_ALIVE_SECONDS)
    await _serve(
        config, sock, certificates, ConnectionLimiter(bounded_http.MAX_CONNECTIONS), task_status=task_status, on_stop=on_stop
    )


async def serve_direct(
    app: Application,
    sock: socket.socket,
    certificates: Certificates | None,
    max_connections: int = _MAX_CONNECTIONS,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serves an `application.Application` until cancelled. Connections above `max_connections` get 503 and are closed."""
    config = _config(cast("Any", app), DirectProtocol, _KEEP_ALIVE_SECONDS)
    await _serve(config, sock, certificates, ConnectionLimiter(max_connections), task_status=task_status)


def _config(app: Callable[..., Any], protocol: type[asyncio.Protocol], keep_alive_seconds: int) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        proxy_headers=False,  # a caller may write any address there; `callers` never grants anything because of them
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=keep_alive_seconds,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )


async def _serve(
    config: uvicorn.Config,
    sock: socket.socket,
    certificates: Certificates | None,
    connection_limiter: ConnectionLimiter,
    *,
    task_status: TaskStatus[None],
    on_stop: Callable[[], None] = lambda: None,
) -> None:
    """Accepts on a duplicate of `sock`, which stays open. So a later server accepts from the same queue, and no caller is
    refused in between."""
    async with anyio.create_task_group() as group:

        async def accept(make: MakeConnection) -> list[asyncio.Server]:
            servers = []
            if certificates is None:
                here = partial(make, enter=connection_limiter.enter)
                servers = [await asyncio.get_running_loop().create_server(here, sock=sock.dup(), backlog=_BACKLOG)]
            else:
                acceptor = TlsAcceptor(sock, certificates, connection_limiter, make)
                group.start_soon(acceptor.run, name=f"TLS of {certificates.listener}")
            task_status.started()
            return servers

        server = _Server(config, accept)
        group.start_soon(_until_stopped, server)
        if certificates is not None:
            group.start_soon(certificates.watch, name=f"certificates of {certificates.listener}")
        try:
            await anyio.sleep_forever()
        finally:
            server.should_exit = True
            on_stop()


async def _until_stopped(server: uvicorn.Server) -> None:
    # Shielded from cancellation: `should_exit` stops uvicorn, within `timeout_graceful_shutdown`.
    with anyio.CancelScope(shield=True):
        await server.serve()
