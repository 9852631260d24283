"""A proxy between the service and the API server that slows calls down, loses them, or answers in the API server's place.

`decide` is asked about each request and says what becomes of it; None: it passes as it is. Watches stream through. Only on
loopback: the service's token travels in the clear here.
"""

import base64
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import aiohttp
import anyio
import yaml
from aiohttp import web
from yarl import URL

#: Of a request's head, what is not the proxy's own business.
_PASSED_ON: Final = ("Authorization", "Content-Type", "Accept", "User-Agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request as the service sent it; `path` is without its query."""

    method: str
    path: str
    body: bytes

    @property
    def on_victim(self) -> bool:
        """Is it the condition or the deletion of a victim?"""
        return self.method == "DELETE" or b"DisruptionTarget" in self.body

    @property
    def about_preemption(self) -> bool:
        """Does a preemption's life need it: a victim's condition or deletion, a preemptor's annotation or nomination?"""
        marks = (b"slackwater.dev/preempting", b"nominatedNodeName")
        return self.on_victim or (self.method == "PATCH" and any(mark in self.body for mark in marks))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """What becomes of a call. `lost`: the connection breaks, before the API server got it or after it has carried it out.

    `status`: answered so in the API server's place. `slow_seconds` pass before anything else does, or the event.
    """

    slow_seconds: float = 0.0
    held_until: anyio.Event | None = None
    status: int | None = None
    lost: Literal["request", "answer"] | None = None


Decide = Callable[[Call], CallOutcome | None]


def _nothing(_: Call) -> CallOutcome | None:
    return None


class ApiProxy:
    """`kubeconfig` leads to the API server over it. `seen` are the calls of preemptions so far, as they came; `doubled` those
    on victims that came while another of their method was on its way for the same one."""

    def __init__(self, kubeconfig: Path, session: aiohttp.ClientSession, upstream: str) -> None:
        self.kubeconfig = kubeconfig
        self.decide: Decide = _nothing
        self.seen: list[Call] = []
        self.doubled: list[Call] = []
        self._session = session
        self._upstream = upstream
        self._under_way: set[tuple[str, str]] = set()

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request, whatever is to become of it."""
        call = Call(method=request.method, path=request.path, body=await request.content.read())
        if not call.about_preemption:
            return await self._meet(request, call)
        self.seen.append(call)
        name = (call.method, call.path)
        if name in self._under_way and call.on_victim:
            self.doubled.append(call)
        self._under_way.add(name)
        try:
            return await self._meet(request, call)
        finally:
            self._under_way.discard(name)

    async def _meet(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        outcome = self.decide(call) or CallOutcome()
        if outcome.slow_seconds:
            await anyio.sleep(outcome.slow_seconds)
        if outcome.held_until is not None:
            await outcome.held_until.wait()
        if outcome.status is not None:
            return web.json_response(_status(outcome.status), status=outcome.status)
        if outcome.lost == "request":
            return _cut(request)
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        url = URL(f"{self._upstream}{request.raw_path}", encoded=True)
        async with self._session.request(call.method, url, data=call.body or None, headers=headers) as answer:
            if "watch" in request.query:
                return await _streamed(request, answer)
            content = await answer.read()
        if outcome.lost == "answer":
            return _cut(request)
        kind = {"Content-Type": answer.headers.get("Content-Type", "application/json")}
        return web.Response(status=answer.status, body=content, headers=kind)


@asynccontextmanager
async def api_proxy(kubeconfig: Path, folder: Path) -> AsyncIterator[ApiProxy]:
    """A proxy for the account of `kubeconfig`, harmless at first."""
    document: dict[str, Any] = yaml.safe_load(await anyio.Path(kubeconfig).read_text())
    cluster = document["clusters"][0]["cluster"]
    upstream, authority = cluster["server"], cluster.pop("certificate-authority-data")
    context = ssl.create_default_context(cadata=base64.b64decode(authority).decode())
    path = anyio.Path(folder / "proxied.kubeconfig")
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        proxy = ApiProxy(Path(path), session, upstream)
        runner = web.ServerRunner(web.Server(proxy.serve, access_log=None, handler_cancellation=True), shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            cluster["server"] = f"http://127.0.0.1:{runner.addresses[0][1]}"
            await path.write_text(yaml.safe_dump(document))
            yield proxy
        finally:
            await runner.cleanup()
            await connector.close(abort_ssl=True)


async def _streamed(request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status)
    await response.prepare(request)
    with suppress(ConnectionResetError):  # the reader has ended it
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
    return response


def _cut(request: web.BaseRequest) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response(status=500)


def _status(code: int) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "the proxy's", "code": code}
