"""The agents' listener over TLS sockets: whose certificate it is reaches the desk."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest
import trustme
import uvloop

from slackwater.edge.web.gate import Gate, GateConfig
from slackwater.edge.web.serving import Tls, listen, serve_direct
from slackwater.model.ids import Instant
from tests.support.agents import a_request, an_agent_service

pytestmark = pytest.mark.anyio

BACKENDS = [("asyncio", {}), ("asyncio", {"loop_factory": uvloop.new_event_loop})]


@pytest.fixture(params=BACKENDS, ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


def tls_files(ca: trustme.CA, folder: Path, *, optional: bool) -> Tls:
    server = ca.issue_cert("127.0.0.1")
    paths = {name: str(folder / name) for name in ("ca", "cert", "key")}
    ca.cert_pem.write_to_path(paths["ca"])
    server.cert_chain_pems[0].write_to_path(paths["cert"])
    server.private_key_pem.write_to_path(paths["key"])
    return Tls(
        cert_file=paths["cert"],
        key_file=paths["key"],
        client_ca_file=paths["ca"],
        client_certificate="may" if optional else "must",
    )


def context(ca: trustme.CA, name: str | None) -> ssl.SSLContext:
    made = ssl.create_default_context()
    ca.configure_trust(made)
    if name is not None:
        ca.issue_cert(common_name=name).configure_cert(made)
    return made


@asynccontextmanager
async def served(ca: trustme.CA, folder: Path, *, optional: bool) -> AsyncIterator[str]:
    gate = Gate(GateConfig(certificate_prefix="system:node:"), None, clock=lambda: Instant(0.0), unix_seconds=lambda: 0.0)
    with listen("agents", "127.0.0.1", 0) as sock:
        async with an_agent_service(gatekeeper=gate) as service, anyio.create_task_group() as group:
            await group.start(serve_direct, service.app, sock, tls_files(ca, folder, optional=optional))
            yield f"https://127.0.0.1:{sock.getsockname()[1]}"
            group.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("name", "want_status"), [("system:node:n", 200), ("system:node:other", 403), ("kubelet", 403), (None, 401)]
)
async def test_the_certificates_node_is_the_callers(tmp_path: Path, name: str | None, want_status: int) -> None:
    ca = trustme.CA()
    async with served(ca, tmp_path, optional=True) as url, httpx.AsyncClient(verify=context(ca, name)) as http:
        for _ in range(2):  # also on a connection that is used again
            assert (await http.post(url, json=a_request())).status_code == want_status


async def test_where_a_certificate_is_demanded_nobody_else_is_heard(tmp_path: Path) -> None:
    ca, stranger = trustme.CA(), trustme.CA()
    async with served(ca, tmp_path, optional=False) as url:
        for own in (None, stranger):
            verify = context(ca, None)
            if own is not None:
                own.issue_cert(common_name="system:node:n").configure_cert(verify)
            async with httpx.AsyncClient(verify=verify) as http:
                with pytest.raises(httpx.TransportError):
                    await http.post(url, json=a_request())
