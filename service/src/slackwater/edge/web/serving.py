"""One uvicorn server as a child of the root task group: the group decides when it ends, never a signal handler of its own."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, cast

import anyio
import uvicorn
from anyio.abc import TaskStatus

from slackwater.edge.web.bounded import BoundedProtocol
from slackwater.edge.web.certificates import Certificates, ListenError
from slackwater.edge.web.crowd import Crowd
from slackwater.edge.web.direct import Application, DirectProtocol

#: Longer than the 90 s for which kube-scheduler keeps an idle connection: were we to close it first, a request that is just
#: being sent would be lost, since Go does not repeat a POST.
_KEEP_ALIVE_SECONDS: Final = 600
#: Of the ops listener: longer than what Prometheus and kubelets leave between two questions.
_APP_KEEP_ALIVE_SECONDS: Final = 75
#: Whoever begins TLS and does not go on is let go.
_HANDSHAKE_SECONDS: Final = 10.0
_BACKLOG: Final = 2048
_GRACE_SECONDS: Final = 4
#: kube-scheduler opens one for each call that is under way, and keeps two.
_MAX_CONNECTIONS: Final = 2048


def listen(name: str, host: str, port: int) -> socket.socket:
    """A listening socket.

    :raises ListenError: the address is taken or not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ListenError(f"listeners.{name}.address: cannot listen on {host}:{port}: {error.strerror or error}") from error


class _Server(uvicorn.Server):
    """Accepts on copies of `sock`, which stays open: a new TLS context, or a new server, is a new acceptor of the same queue,
    and no caller is turned away."""

    def __init__(self, config: uvicorn.Config, sock: socket.socket, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._sock = sock
        self._on_started = on_started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        self.servers = [await self._acceptor(self.config.ssl)]
        self.started = True
        self._on_started()

    async def renew(self, context: ssl.SSLContext) -> None:
        """Whoever connects from now on meets `context`."""
        before = self.servers
        self.servers = [await self._acceptor(context)]
        for server in before:
            server.close()

    async def _acceptor(self, context: ssl.SSLContext | None) -> asyncio.base_events.Server:
        protocol: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        make = partial(protocol, config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
        seconds = None if context is None else _HANDSHAKE_SECONDS
        loop = asyncio.get_running_loop()
        return await loop.create_server(
            make, sock=self._sock.dup(), ssl=context, backlog=_BACKLOG, ssl_handshake_timeout=seconds
        )


async def serve_app(
    app: Callable[..., Any],
    sock: socket.socket,
    certificates: Certificates | None,
    on_stop: Callable[[], None] = lambda: None,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """An ASGI application, until cancelled; what is being answered then ends, within a bound. `on_stop` is called as that
    begins: answers that would never end by themselves end then."""
    config = _config(app, BoundedProtocol, certificates, _APP_KEEP_ALIVE_SECONDS)
    await _serve(config, sock, certificates, task_status, on_stop)


async def serve_direct(
    app: Application,
    sock: socket.socket,
    certificates: Certificates | None,
    max_connections: int = _MAX_CONNECTIONS,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """The same for one that answers whole requests, see `direct`. More connections get 503 and nothing else."""
    protocol = cast("type[asyncio.Protocol]", partial(DirectProtocol, crowd=Crowd(max_connections)))
    config = _config(cast("Any", app), protocol, certificates, _KEEP_ALIVE_SECONDS)
    await _serve(config, sock, certificates, task_status)


def _config(
    app: Callable[..., Any],
    protocol: type[asyncio.Protocol],
    certificates: Certificates | None,
    keep_alive_seconds: int,
) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        proxy_headers=False,  # what a caller says of its own address is worth nothing, see `callers`
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=keep_alive_seconds,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ssl_context_factory=None if certificates is None else lambda _config, _default: certificates.context,
    )


async def _serve(
    config: uvicorn.Config,
    sock: socket.socket,
    certificates: Certificates | None,
    task_status: TaskStatus[None],
    on_stop: Callable[[], None] = lambda: None,
) -> None:
    server = _Server(config, sock, task_status.started)
    async with anyio.create_task_group() as group:
        group.start_soon(_until_stopped, server)
        if certificates is not None:
            group.start_soon(certificates.watch, server.renew, name=f"certificates of {certificates.listener}")
        try:
            await anyio.sleep_forever()
        finally:
            server.should_exit = True
            on_stop()


async def _until_stopped(server: uvicorn.Server) -> None:
    # Shielded, since uvicorn ends by `should_exit`; it bounds its own end by `timeout_graceful_shutdown`.
    with anyio.CancelScope(shield=True):
        await server.serve()
