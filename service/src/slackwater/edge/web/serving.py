"""One uvicorn server as a child of the root task group: the group decides when it ends, never a signal handler of its own."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, cast

import anyio
import uvicorn
from anyio.abc import TaskStatus

from slackwater.edge.web.crowd import Crowd
from slackwater.edge.web.direct import Application, DirectProtocol
from slackwater.edge.web.opsprotocol import OpsProtocol

#: Longer than the 90 s for which kube-scheduler keeps an idle connection: were we to close it first, a request that is just
#: being sent would be lost, since Go does not repeat a POST.
_KEEP_ALIVE_SECONDS: Final = 600
_GRACE_SECONDS: Final = 4
#: kube-scheduler opens one for each call that is under way, and keeps two.
_MAX_CONNECTIONS: Final = 2048
#: People, probes and Prometheus.
_MAX_OPS_CONNECTIONS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Paths of PEM files. With a client CA, callers must present a certificate that it signed; `may` if optional."""

    cert_file: str
    key_file: str
    client_ca_file: str | None
    client_certificate: Literal["must", "may"] = "must"


class ListenError(Exception):
    """A listener cannot be opened: its address, or its TLS files; the message names listener, what was seen and the cause."""


def listen(name: str, host: str, port: int) -> socket.socket:
    """A listening socket.

    :raises ListenError: the address is taken or not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise ListenError(f"listeners.{name}.address: cannot listen on {host}:{port}: {error.strerror or error}") from error


def check_tls(name: str, tls: Tls) -> None:
    """Loads the files once, before anything is started.

    :raises ListenError: a file is missing, or is not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(tls.cert_file, tls.key_file)
    except (OSError, ssl.SSLError) as error:
        raise ListenError(f"listeners.{name}.tls: cannot load {tls.cert_file} with {tls.key_file}: {error}") from error
    if tls.client_ca_file is not None:
        try:
            context.load_verify_locations(tls.client_ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ListenError(f"listeners.{name}.tls.clientCAFile: cannot load {tls.client_ca_file}: {error}") from error


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_started()


async def serve_app(
    app: Callable[..., Any],
    sock: socket.socket,
    tls: Tls | None,
    on_stop: Callable[[], None] = lambda: None,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """An ASGI application, until cancelled; what is being answered then ends, within a bound. `on_stop` is called as that
    begins: answers that would never end by themselves end then."""
    protocol = cast("type[asyncio.Protocol]", partial(OpsProtocol, crowd=Crowd(_MAX_OPS_CONNECTIONS)))
    await _serve(_config(app, protocol, tls), sock, task_status, on_stop)


async def serve_direct(
    app: Application,
    sock: socket.socket,
    tls: Tls | None,
    max_connections: int = _MAX_CONNECTIONS,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """The same for one that answers whole requests, see `direct`. More connections get 503 and nothing else."""
    protocol = cast("type[asyncio.Protocol]", partial(DirectProtocol, crowd=Crowd(max_connections)))
    await _serve(_config(cast("Any", app), protocol, tls), sock, task_status)


def _config(
    app: Callable[..., Any],
    protocol: type[asyncio.Protocol],
    tls: Tls | None,
) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        proxy_headers=False,  # nobody forwards to us, and the middleware costs each call a little
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ssl_certfile=tls.cert_file if tls else None,
        ssl_keyfile=tls.key_file if tls else None,
        ssl_ca_certs=tls.client_ca_file if tls else None,
        ssl_cert_reqs=_certificates_asked(tls),
    )


async def _serve(
    config: uvicorn.Config,
    sock: socket.socket,
    task_status: TaskStatus[None],
    on_stop: Callable[[], None] = lambda: None,
) -> None:
    server = _Server(config, task_status.started)
    async with anyio.create_task_group() as group:
        group.start_soon(_until_stopped, server, sock)
        try:
            await anyio.sleep_forever()
        finally:
            server.should_exit = True
            on_stop()


def _certificates_asked(tls: Tls | None) -> ssl.VerifyMode:
    if tls is None or tls.client_ca_file is None:
        return ssl.CERT_NONE
    return ssl.CERT_REQUIRED if tls.client_certificate == "must" else ssl.CERT_OPTIONAL


async def _until_stopped(server: uvicorn.Server, sock: socket.socket) -> None:
    # Shielded, since uvicorn ends by `should_exit`; it bounds its own end by `timeout_graceful_shutdown`.
    with anyio.CancelScope(shield=True):
        await server.serve(sockets=[sock])
