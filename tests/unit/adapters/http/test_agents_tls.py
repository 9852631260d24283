"""The agents' listener over TLS sockets: whose certificate it is reaches the permit service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest

from slackwater.adapters.http.authenticator import Authenticator, AuthenticatorConfig
from slackwater.adapters.http.certificates import Certificates
from slackwater.adapters.http.uvicorn_listener import listen, serve_direct
from slackwater.model.ids import Instant
from tests.support.agents import a_request, an_agent_service
from tests.support.loops import each_loop
from tests.support.pki import Pki

pytestmark = pytest.mark.anyio
__all__ = ["each_loop"]  # a fixture


@asynccontextmanager
async def served(pki: Pki, *, optional: bool) -> AsyncIterator[str]:
    gate = Authenticator(
        AuthenticatorConfig(certificate_prefix="system:node:"), None, clock=lambda: Instant(0.0), unix_seconds=lambda: 0.0
    )
    pki.write()
    certificates = Certificates("agents", pki.tls(optional=optional), unix_seconds=lambda: 0.0)
    with listen("agents", "127.0.0.1", 0) as sock:
        async with an_agent_service(authenticator=gate) as service, anyio.create_task_group() as group:
            await group.start(serve_direct, service.app, sock, certificates)
            yield f"https://127.0.0.1:{sock.getsockname()[1]}"
            group.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("name", "want_status"), [("system:node:n", 200), ("system:node:other", 403), ("kubelet", 403), (None, 401)]
)
async def test_the_certificates_node_is_the_callers(tmp_path: Path, name: str | None, want_status: int) -> None:
    pki = Pki(tmp_path)
    verify = pki.context(None if name is None else pki.client(name))
    async with served(pki, optional=True) as url, httpx.AsyncClient(verify=verify, timeout=60) as http:
        for _ in range(2):  # also on a connection that is used again
            assert (await http.post(url, json=a_request())).status_code == want_status


async def test_where_a_certificate_is_demanded_other_callers_are_refused(tmp_path: Path) -> None:
    pki = Pki(tmp_path)
    async with served(pki, optional=False) as url:
        for client in (None, pki.client("system:node:n", by=pki.stranger)):
            async with httpx.AsyncClient(verify=pki.context(client), timeout=60) as http:
                with pytest.raises(httpx.TransportError):
                    await http.post(url, json=a_request())
