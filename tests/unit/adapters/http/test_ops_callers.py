"""Who may do more than look at the ops listener, over real sockets: what a caller writes of itself never helps it."""

import socket
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from slackwater.adapters.http import bounded_http
from slackwater.adapters.http.bounded_http import MAX_HEAD_BYTES
from slackwater.adapters.http.certificates import Certificates
from slackwater.adapters.http.ops import CancelResult
from slackwater.adapters.http.uvicorn_listener import listen, serve_app
from slackwater.model.ids import NodeName
from tests.support.ops import ops_app
from tests.support.pki import Pki

pytestmark = pytest.mark.anyio

WRITES = ("/drains/n/cancel", "/simulate/placement", "/simulate/scale-up", "/simulate/scale-down")
READS = ("/livez", "/readyz", "/statusz", "/dumpstate", "/metrics", "/")
CLAIMS = {
    "x-forwarded-for": "127.0.0.1",
    "x-real-ip": "127.0.0.1",
    "forwarded": "for=127.0.0.1",
    "host": "localhost",
    "x-client-cert": "CN=admin",
    "ssl-client-verify": "SUCCESS",
}


class Ops:
    """The listener on every interface; `cancelled` is what it was asked to cancel."""

    def __init__(self) -> None:
        self.cancelled: list[NodeName] = []
        self.port = 0

    def cancel(self, node: NodeName) -> CancelResult:
        self.cancelled.append(node)
        return "cancelled"

    async def post(self, path: str, at: str = "127.0.0.1", scheme: str = "http", verify: Any = False, **headers: str) -> int:
        url = f"{scheme}://{at}:{self.port}{path}"
        async with httpx.AsyncClient(verify=verify, trust_env=False, timeout=60) as http:
            return (
                await http.post(url, headers={name.replace("_", "-"): value for name, value in headers.items()})
            ).status_code

    async def get(self, path: str, at: str = "127.0.0.1", **headers: str) -> int:
        async with httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as http:
            return (await http.get(f"http://{at}:{self.port}{path}", headers=headers)).status_code


@asynccontextmanager
async def an_ops_listener(certificates: Certificates | None = None) -> AsyncIterator[Ops]:
    ops = Ops()
    app: Any = ops_app(cancel_drain=ops.cancel)
    with listen("ops", "0.0.0.0", 0) as sock:
        ops.port = sock.getsockname()[1]
        async with anyio.create_task_group() as group:
            await group.start(serve_app, app, sock, certificates)
            yield ops
            group.cancel_scope.cancel()


def elsewhere() -> str:
    """An address of this machine that is not loopback: whoever calls it calls from it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return str(probe.getsockname()[0])


async def test_from_elsewhere_every_caller_may_read_and_none_may_write() -> None:
    async with an_ops_listener() as ops:
        for path in READS:
            assert await ops.get(path, elsewhere()) == 200, path
        for path in WRITES:
            assert await ops.post(path, elsewhere()) == 403, path
            for name, value in CLAIMS.items():
                assert await ops.post(path, elsewhere(), **{name: value}) == 403, (path, name)
        assert ops.cancelled == []


async def test_from_this_machine_a_drain_is_cancelled_but_not_through_a_proxy() -> None:
    async with an_ops_listener() as ops:
        cancel = WRITES[0]
        assert await ops.post(cancel) == 200
        assert await ops.post(cancel, x_forwarded_for="127.0.0.1") == 200
        assert ops.cancelled == ["n", "n"]
        for headers in (
            {"x_forwarded_for": "10.0.0.7"},
            {"x_forwarded_for": "127.0.0.1, 10.0.0.7"},
            {"forwarded": "for=10.0.0.7;proto=https"},
            {"x_real_ip": "fd00::7"},
        ):
            assert await ops.post(cancel, **headers) == 403, headers
        assert ops.cancelled == ["n", "n"]


async def test_a_page_that_gave_a_name_of_its_own_to_this_machine_sees_and_does_nothing() -> None:
    async with an_ops_listener() as ops:
        name = f"rebound.example:{ops.port}"
        for path in READS:
            assert await ops.get(path, **{"Host": name}) == 403, path
        for path in WRITES:
            assert await ops.post(path, Host=name, origin=f"http://{name}") == 403, path
        for own in (
            "localhost",
            f"localhost:{ops.port}",
            f"[::1]:{ops.port}",
            socket.gethostname(),
            "slackwater.kube-system.svc",
        ):
            assert await ops.get("/livez", **{"Host": own}) == 200, own
        assert ops.cancelled == []


async def test_with_a_certificate_one_may_write_from_elsewhere_and_without_only_look(tmp_path: Path) -> None:
    pki = Pki(tmp_path)
    host = elsewhere()
    pki.write(pki.server(host))
    certificates = Certificates("ops", pki.tls(optional=True), unix_seconds=lambda: 0.0)
    async with an_ops_listener(certificates) as ops:
        with_one, without = pki.context(pki.client("admin")), pki.context()
        assert await ops.post(WRITES[0], host, "https", with_one) == 200
        assert await ops.post(WRITES[0], host, "https", without, x_forwarded_for="127.0.0.1") == 403
        assert ops.cancelled == ["n"]
        async with httpx.AsyncClient(verify=without, trust_env=False, timeout=60) as http:
            assert (await http.get(f"https://{host}:{ops.port}/statusz")).status_code == 200


# --- bounds ---------------------------------------------------------------------------------------------------------------


async def heard(port: int, *parts: bytes) -> bytes:
    """What the listener says to these bytes until it hangs up."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        said = b""
        with anyio.fail_after(60):
            try:
                for part in parts:
                    await stream.send(part)
                while True:
                    said += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return said


HEAD = b"GET /statusz HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    "parts",
    [
        (HEAD, *[b"a: %b\r\n" % (b"x" * 1000)] * 80),
        (HEAD, b"a: ", *[b"x" * 8192] * 20),
        (b"GET /", *[b"x" * 8192] * 20),
        (HEAD, b"a" * (8 * MAX_HEAD_BYTES)),
    ],
    ids=["many headers", "one endless header", "an endless path", "an endless name"],
)
async def test_a_head_without_end_is_refused_and_not_kept(parts: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_http, "LINGER_SECONDS", 0.1)
    async with an_ops_listener() as ops:
        assert (await heard(ops.port, *parts)).startswith(b"HTTP/1.1 431 ")
        assert await ops.get("/livez") == 200


async def test_callers_that_send_nothing_or_half_a_request_are_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_http, "LINGER_SECONDS", 0.1)
    async with an_ops_listener() as ops:
        monkeypatch.setattr(bounded_http, "ARRIVE_SECONDS", 0.2)
        assert await heard(ops.port) == b""
        for seconds in (0.2, 2.0, 20.0):
            monkeypatch.setattr(bounded_http, "ARRIVE_SECONDS", seconds)
            # Empty where not even half a request arrived in time: the machine stood still.
            if said := await heard(ops.port, HEAD):
                break
        assert said.startswith(b"HTTP/1.1 408 ")
        monkeypatch.setattr(bounded_http, "ARRIVE_SECONDS", 60.0)
        assert await ops.get("/livez") == 200


async def test_beyond_the_bound_connections_are_turned_away_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_http, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(bounded_http, "LINGER_SECONDS", 0.1)
    async with an_ops_listener() as ops:
        async with await anyio.connect_tcp("127.0.0.1", ops.port) as one, await anyio.connect_tcp("127.0.0.1", ops.port) as two:
            for stream in (one, two):
                await stream.send(HEAD + b"\r\n")
                assert (await stream.receive()).startswith(b"HTTP/1.1 200 ")
            assert (await heard(ops.port)).startswith(b"HTTP/1.1 503 ")
        with anyio.fail_after(60):
            while True:
                if await ops.get("/livez") == 200:
                    return
                await anyio.sleep(0.01)


async def test_unread_parts_of_a_body_are_not_kept() -> None:
    async with an_ops_listener() as ops, await anyio.connect_tcp("127.0.0.1", ops.port) as stream:
        await stream.send(b"POST /none HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000000\r\n\r\n")
        with anyio.fail_after(60):
            assert (await stream.receive()).startswith(b"HTTP/1.1 404 ")
            tracemalloc.start()
            try:
                for _ in range(200):
                    await stream.send(b"x" * 65536)
                _, most = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
        assert most < 8 * 65536
