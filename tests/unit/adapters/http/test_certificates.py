"""The TLS files of a listener while it runs: a new content serves whoever connects next, a broken one changes nothing."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.streams.tls
import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from prometheus_client import CollectorRegistry

from slackwater.adapters.http.application import Answer, Request, RequestTerms
from slackwater.adapters.http.certificates import Certificates, ListenError, certificate_families
from slackwater.adapters.http.uvicorn_listener import listen, serve_app, serve_direct
from slackwater.ports.clock import Times
from slackwater.ports.metric_families import Families
from tests.support.loops import each_loop
from tests.support.pki import Pki
from tests.support.waiting import until

pytestmark = pytest.mark.anyio
__all__ = ["each_loop"]  # a fixture

NOW = 1_900_000_000.0

Serving = Callable[..., Coroutine[Any, Any, None]]


class Direct:
    terms = RequestTerms(max_body_bytes=1_000)

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        return Answer(200, (request.peer or "").encode())

    def refusal(self, status: int, _path: str, message: str) -> Answer:
        return Answer(status, message.encode())


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": (scope["state"]["peer"] or "").encode()})


@pytest.fixture(params=["direct", "ASGI"])
def serving(request: pytest.FixtureRequest) -> Serving:
    async def serve(sock: Any, certificates: Certificates, *, task_status: Any) -> None:
        if request.param == "direct":
            await serve_direct(Direct(), sock, certificates, task_status=task_status)
        else:
            await serve_app(app, sock, certificates, task_status=task_status)

    return serve


class Running:
    """A listener, and whoever calls it."""

    def __init__(self, pki: Pki, port: int, certificates: Certificates) -> None:
        self.pki = pki
        self.certificates = certificates
        self._port = port

    async def presented(self, client: ssl.SSLContext) -> int:
        """The serial number of the certificate that a new connection meets."""
        stream = await anyio.connect_tcp("127.0.0.1", self._port, ssl_context=client, tls_standard_compatible=False)
        async with stream:
            found = stream.extra(anyio.streams.tls.TLSAttribute.ssl_object).getpeercert(binary_form=True)
            assert found is not None
            await stream.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            assert (await stream.receive()).startswith(b"HTTP/1.1 200")
        return x509.load_der_x509_certificate(found).serial_number

    def client(self, client: ssl.SSLContext) -> httpx.AsyncClient:
        return httpx.AsyncClient(verify=client, base_url=f"https://127.0.0.1:{self._port}", trust_env=False, timeout=60)

    async def until(self, condition: Callable[[], bool]) -> None:
        await until(condition)


@asynccontextmanager
async def running(pki: Pki, serving: Serving, *, now: float | None = None) -> AsyncIterator[Running]:
    clock = (lambda: now) if now is not None else Times().wall
    certificates = Certificates("test", pki.tls(), unix_seconds=clock, interval_seconds=0.02)
    with listen("test", "127.0.0.1", 0) as sock:
        async with anyio.create_task_group() as group:
            await group.start(serving, sock, certificates)
            yield Running(pki, sock.getsockname()[1], certificates)
            group.cancel_scope.cancel()


def serial(leaf: Any) -> int:
    return x509.load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes()).serial_number


async def test_new_connections_meet_the_new_certificate_and_open_ones_go_on(tmp_path: Path, serving: Serving) -> None:
    pki = Pki(tmp_path)
    first, second = pki.server(), pki.server()
    pki.write(first)
    client = pki.context(pki.client("someone"))
    async with running(pki, serving) as listener, listener.client(client) as open_before:
        assert await listener.presented(client) == serial(first)
        assert (await open_before.get("/")).text == "someone"
        pki.write(second)
        await listener.until(lambda: listener.certificates.renewals == 1)
        assert await listener.presented(client) == serial(second)
        assert (await open_before.get("/")).text == "someone"
        assert listener.certificates.problem is None


async def test_with_a_new_client_ca_the_old_ones_certificates_open_nothing(tmp_path: Path, serving: Serving) -> None:
    pki = Pki(tmp_path)
    pki.write()
    old, new = pki.context(pki.client("old")), pki.context(pki.client("new", by=pki.stranger))
    async with running(pki, serving) as listener:
        async with listener.client(old) as http:
            assert (await http.get("/")).text == "old"
        pki.write(ca=pki.stranger)
        await listener.until(lambda: listener.certificates.renewals == 1)
        async with listener.client(new) as http:
            assert (await http.get("/")).text == "new"
        async with listener.client(old) as http:  # no session of before helps either: the context is the same
            with pytest.raises(httpx.TransportError):
                await http.get("/")


def break_certificate(pki: Pki) -> None:
    (pki.folder / "certFile.pem").write_text("no certificate\n")


def break_key(pki: Pki) -> None:
    pki.server().private_key_pem.write_to_path(str(pki.folder / "keyFile.pem"))


def encrypt_key(pki: Pki) -> None:
    key = serialization.load_pem_private_key((pki.folder / "keyFile.pem").read_bytes(), None)
    secret = serialization.BestAvailableEncryption(b"secret")
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret)
    (pki.folder / "keyFile.pem").write_bytes(pem)


def break_ca(pki: Pki) -> None:
    (pki.folder / "clientCAFile.pem").write_text("")


def lose_file(pki: Pki) -> None:
    (pki.folder / "certFile.pem").unlink()


def outlive(pki: Pki) -> None:
    pki.write(pki.server(expired=True))


BROKEN = [break_certificate, break_key, encrypt_key, break_ca, lose_file, outlive]


@pytest.mark.parametrize("spoil", BROKEN, ids=lambda spoil: spoil.__name__)
async def test_files_that_cannot_be_used_leave_the_old_ones_in_use_and_it_is_said_once(
    tmp_path: Path, serving: Serving, spoil: Callable[[Pki], None]
) -> None:
    pki = Pki(tmp_path)
    first, last = pki.server(), pki.server()
    pki.write(first)
    client = pki.context(pki.client("someone"))
    async with running(pki, serving) as listener:
        registry = CollectorRegistry()
        registry.register(Families(lambda: certificate_families({"test": listener.certificates})))
        spoil(pki)
        await listener.until(lambda: listener.certificates.problem is not None)
        for _ in range(3):
            assert await listener.presented(client) == serial(first)
        problem = listener.certificates.problem or ""
        assert problem.startswith("listeners.test.tls"), problem
        assert str(tmp_path) in problem
        assert "secret" not in problem
        assert registry.get_sample_value("slackwater_tls_files_refused", {"listener": "test"}) == 1
        assert listener.certificates.refusals == 1
        pki.write(last)
        await listener.until(lambda: listener.certificates.renewals == 1)
        assert await listener.presented(client) == serial(last)
        assert registry.get_sample_value("slackwater_tls_files_refused", {"listener": "test"}) == 0


@pytest.mark.parametrize("spoil", BROKEN[:-1], ids=lambda spoil: spoil.__name__)
def test_at_the_start_they_are_an_error_that_names_the_file(tmp_path: Path, spoil: Callable[[Pki], None]) -> None:
    pki = Pki(tmp_path)
    pki.write()
    spoil(pki)
    with pytest.raises(ListenError, match=str(tmp_path)):
        Certificates("test", pki.tls(), unix_seconds=lambda: NOW)
