"""The webhook and a real listener: what arrives, what is refused before anything is sent, and faults of the receiver."""

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
import trustme
from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge

from slackwater.adapters.http.webhook import Webhook
from slackwater.app.notifications import notification_loop
from slackwater.app.settings import Settings, SettingsError, loads
from slackwater.controllers.notifications.loop import Undelivered
from slackwater.model.ids import Instant
from tests.support.configuration import HEADER

pytestmark = pytest.mark.anyio
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def receiver(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A listener; yields its port."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def hook(tmp_path: Path, address: str, *, hosts: tuple[str, ...] = ("127.0.0.1",), seconds: float = 5.0) -> Webhook:
    (file := tmp_path / "url").write_text(address)
    return Webhook(url_file=str(file), hosts=frozenset(hosts), seconds=seconds)


async def refused(webhook: Webhook) -> str:
    with pytest.raises(Undelivered) as error:
        await webhook.send("text")
    return str(error.value)


async def test_a_message_is_one_post_of_json(tmp_path: Path) -> None:
    got: list[tuple[str, str, str, object]] = []

    async def take(request: web.Request) -> web.Response:
        got.append((request.method, request.path_qs, request.content_type, json.loads(await request.read())))
        return web.Response(text="ok")

    async with receiver(take) as port:
        await hook(tmp_path, f"http://127.0.0.1:{port}/services/T0/B0?x=1\n").send("a & b\n• ü")
    assert got == [("POST", "/services/T0/B0?x=1", "application/json", {"text": "a & b\n• ü"})]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("https://evil.example/x", "its host is not one of notifications.webhook.allowedHosts"),
        ("http://hooks.example/secret", "hooks.example over http, want https"),
        ("https://hooks.example.evil.example/secret", "its host is not one of"),
        ("https://user:secret@hooks.example/", "no address of a webhook, want https://HOST/PATH"),
        ("https://hooks.example@evil.example/secret", "no address of a webhook"),
        ("file:///etc/secret", "no address of a webhook"),
        ("https://[::1", "no address of a webhook"),
        ("https://hooks.example:99999/secret", "no address of a webhook"),
        ("", "no address of a webhook"),
        ("https://höoks/secret", "not ASCII"),
        ("https://hooks.example/" + "secret" * 1000, "more than 4096 bytes"),
    ],
)
async def test_an_address_that_may_not_be_asked_gets_nothing(tmp_path: Path, address: str, said: str) -> None:
    text = await refused(hook(tmp_path, address, hosts=("hooks.example",)))
    assert said in text
    assert "secret" not in text.replace(str(tmp_path), "")


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = Webhook(url_file=str(tmp_path / "none"), hosts=frozenset(), seconds=1.0)
    assert await refused(missing) == f"{tmp_path}/none: No such file or directory"


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    asked: list[str] = []

    async def turn(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        raise web.HTTPTemporaryRedirect("/elsewhere")

    async with receiver(turn) as port:
        assert await refused(hook(tmp_path, f"http://127.0.0.1:{port}/secret")) == "127.0.0.1: answered 307, want 200"
    assert asked == ["/secret"]


async def test_faults_of_the_receiver_are_said_without_its_address(tmp_path: Path) -> None:
    async def silent(_: web.Request) -> web.StreamResponse:
        await anyio.sleep(60)
        raise AssertionError

    async def endless(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b"x" * 65536)

    async def broken(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def no(_: web.Request) -> web.StreamResponse:
        return web.Response(status=429, text="secret")

    for handler, want in (
        (silent, "no answer within 0.5 s"),
        (broken, "ServerDisconnectedError"),
        (no, "answered 429, want 200"),
    ):
        async with receiver(handler) as port:
            text = await refused(hook(tmp_path, f"http://127.0.0.1:{port}/secret", seconds=0.5))
        assert text == f"127.0.0.1: {want}"
    async with receiver(endless) as port:  # its answer is not read
        await hook(tmp_path, f"http://127.0.0.1:{port}/secret").send("text")
    assert "ClientConnectorError" in await refused(hook(tmp_path, f"http://127.0.0.1:{port}/secret"))


async def test_a_certificate_of_nobody_is_refused(tmp_path: Path) -> None:
    async def take(_: web.Request) -> web.StreamResponse:
        raise AssertionError("nothing may arrive")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    async with receiver(take, context) as port:
        text = await refused(hook(tmp_path, f"https://127.0.0.1:{port}/secret"))
    assert text == "127.0.0.1: ClientConnectorCertificateError"


def configured(url_file: Path, more: str = "") -> Settings:
    return loads(f"{HEADER}notifications: {{webhook: {{urlFile: {url_file}, allowedHosts: [127.0.0.1]}}{more}}}")


async def test_the_loop_posts_what_the_metrics_say_once_and_again_after_a_fault(tmp_path: Path) -> None:
    texts: list[str] = []
    answers = [500, 200, 200]

    async def take(request: web.Request) -> web.StreamResponse:
        texts.append((await request.json())["text"])
        return web.Response(status=answers.pop(0))

    registry, now, leads = CollectorRegistry(), [0.0], [True]
    alive = Gauge("slackwater_event_source_alive", "", ["resource"], registry=registry)
    alive.labels("pods").set(1)
    async with receiver(take) as port:
        (url := tmp_path / "url").write_text(f"http://127.0.0.1:{port}/secret")
        loop = notification_loop(
            configured(url, ", interval: 60s"), registry, leads=lambda: leads[0], clock=lambda: Instant(now[0])
        )
        assert loop is not None
        for minute in range(6):
            now[0] = 60.0 * minute
            alive.labels("pods").set(minute >= 5)
            await loop.look()
        leads[0] = False  # the term is over, and the loop not yet cancelled
        alive.labels("pods").set(0)
        for minute in range(6, 12):
            now[0] = 60.0 * minute
            await loop.look()
    began = "critical: SlackwaterEventSourceSilent: Slackwater hears nothing of pods; it decides by its last cluster state."
    assert texts == [
        f"Slackwater: 1 began, 0 ended\n• {began}",
        f"Slackwater: 1 began, 0 ended\n• {began}",
        "Slackwater: 0 began, 1 ended\n• ended: SlackwaterEventSourceSilent",
    ]
    assert loop.counts == {"delivered": 2, "undelivered": 1}


async def test_nothing_is_posted_unless_a_webhook_is_configured() -> None:
    assert notification_loop(Settings(), CollectorRegistry(), leads=lambda: True, clock=lambda: Instant(0.0)) is None


def test_a_webhook_without_a_host_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"notifications\.webhook\.allowedHosts: got no host, want the host of"):
        loads(f"{HEADER}notifications: {{webhook: {{urlFile: /url, allowedHosts: []}}}}")
