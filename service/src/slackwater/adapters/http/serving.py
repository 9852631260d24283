"""Runs uvicorn servers in a task group. The group ends them; they install no signal handlers."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, cast

import anyio
import uvicorn
from anyio.abc import TaskGroup, TaskStatus

from slackwater.adapters.http import bounded
from slackwater.adapters.http.bounded import BoundedProtocol
from slackwater.adapters.http.certificates import Certificates, ListenError
from slackwater.adapters.http.connection_limiter import ConnectionLimiter
from slackwater.adapters.http.http_server import Application, DirectProtocol
from slackwater.adapters.http.tls_door import TlsDoor

#: Longer than the 90 s for which kube-scheduler keeps an idle connection. If we closed it first, a request sent at that moment
#: would be lost: Go does not repeat a POST.
_KEEP_ALIVE_SECONDS: Final = 600
#: For the ops listener: longer than the usual interval between two scrapes or probes.
_APP_KEEP_ALIVE_SECONDS: Final = 75
_BACKLOG: Final = 2048
_GRACE_SECONDS: Final = 4
#: The most connections. kube-scheduler opens one for each concurrent call, and keeps two.
_MAX_CONNECTIONS: Final = 2048


def listen(name: str, host: str, port: int) -> socket.socket:
    """Opens a listening socket.

    :raises ListenError: the address is taken or not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ListenError(f"listeners.{name}.address: cannot listen on {host}:{port}: {error.strerror or error}") from error


class _Server(uvicorn.Server):
    """A server that accepts on a copy of `sock`, which stays open: a later server accepts from the same queue, so no caller is
    refused in between. With `certificates`, a `TlsDoor` in `group` accepts."""

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        sock: socket.socket,
        connection_limiter: ConnectionLimiter,
        certificates: Certificates | None,
        group: TaskGroup,
        on_started: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._sock = sock
        self._connection_limiter = connection_limiter
        self._certificates = certificates
        self._group = group
        self._on_started = on_started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        protocol = cast("Callable[..., asyncio.Protocol]", self.config.http_protocol_class)
        make = partial(protocol, config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
        certificates = self._certificates
        if certificates is None:
            loop, here = asyncio.get_running_loop(), partial(make, enter=self._connection_limiter.enter)
            self.servers = [await loop.create_server(here, sock=self._sock.dup(), backlog=_BACKLOG)]
        else:
            self.servers = []
            door = TlsDoor(self._sock, certificates, self._connection_limiter, make)
            self._group.start_soon(door.run, name=f"TLS of {certificates.listener}")
        self.started = True
        self._on_started()


async def serve_app(
    app: Callable[..., Any],
    sock: socket.socket,
    certificates: Certificates | None,
    on_stop: Callable[[], None] = lambda: None,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serves an ASGI application until cancelled. Requests in progress then get a limited time. `on_stop` is called before
    that, to end answers that would never end by themselves."""
    config = _config(app, BoundedProtocol, _APP_KEEP_ALIVE_SECONDS)
    await _serve(
        config,
        sock,
        certificates,
        connection_limiter=ConnectionLimiter(bounded.MAX_CONNECTIONS),
        task_status=task_status,
        on_stop=on_stop,
    )


async def serve_direct(
    app: Application,
    sock: socket.socket,
    certificates: Certificates | None,
    max_connections: int = _MAX_CONNECTIONS,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serves an application that answers whole requests (see `http_server`). Connections above the limit get 503."""
    config = _config(cast("Any", app), DirectProtocol, _KEEP_ALIVE_SECONDS)
    await _serve(config, sock, certificates, connection_limiter=ConnectionLimiter(max_connections), task_status=task_status)


def _config(app: Callable[..., Any], protocol: type[asyncio.Protocol], keep_alive_seconds: int) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        proxy_headers=False,  # what a caller says of its own address is not trusted, see `callers`
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
    *,
    connection_limiter: ConnectionLimiter,
    task_status: TaskStatus[None],
    on_stop: Callable[[], None] = lambda: None,
) -> None:
    async with anyio.create_task_group() as group:
        server = _Server(
            config,
            sock=sock,
            connection_limiter=connection_limiter,
            certificates=certificates,
            group=group,
            on_started=task_status.started,
        )
        group.start_soon(_until_stopped, server)
        if certificates is not None:
            group.start_soon(certificates.watch, name=f"certificates of {certificates.listener}")
        try:
            await anyio.sleep_forever()
        finally:
            server.should_exit = True
            on_stop()


async def _until_stopped(server: uvicorn.Server) -> None:
    # Shielded, since uvicorn ends by `should_exit`; it bounds its own end by `timeout_graceful_shutdown`.
    with anyio.CancelScope(shield=True):
        await server.serve()
