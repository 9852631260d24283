"""Identifies and authorizes the callers of the ops listener, and limits how often they are answered.

- Every caller that can connect may read.
- More (what-if, cancelling a drain) needs a connection from loopback or a client certificate.
- A web page in a browser on this host gets only what any caller may read, unless it is the listener's own page (`Origin`).
- A web page could let a name of its own resolve to loopback (DNS rebinding). So requests from loopback without a certificate
  are refused unless `Host` is an address or a local name.
- Headers with which proxies name their callers grant nothing. If they name another host, loopback alone is not enough.

A caller is identified by its address and the common name of its client certificate.

`OpsThrottle` limits the listener's share of the event loop, which also answers kube-scheduler and agents:

    health                                                  answered at once, always
    dashboard stream, explanations, what-if, drains, report answered at once; most of them have limits of their own
    everything else                                         one request at a time, with a pause between two requests

The pause grows with the time that the previous request took. Number and time of waiting requests are bounded; above a bound a
request gets 503 with Retry-After.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
from fastapi import HTTPException, Request
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

FORBIDDEN: Final = 403
#: The description of the refusal in the OpenAPI document.
FORBIDDEN_ANSWER: Final[dict[int | str, dict[str, Any]]] = {
    FORBIDDEN: {"description": "Neither from this machine nor with a client certificate; or by a foreign name."}
}
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-real-ip")
#: Suffixes of local names, besides names without a dot: public DNS cannot have any of them.
_OWN_SUFFIXES: Final = (".localhost", ".svc", ".cluster.local")


def check_caller(request: Request) -> None:
    """Checks that the caller may do more than read.

    :raises HTTPException: 403, with what is missing.
    """
    host = None if request.client is None else request.client.host
    if _peer(request.scope) is None:
        if not _is_loopback(host):
            raise HTTPException(FORBIDDEN, f"caller {host}: got neither loopback nor a client certificate, want one of them")
        # A proxy header that names a caller outside loopback.
        named = (said for name in _FORWARDED for said in request.headers.getlist(name))
        elsewhere = next((said for said in named if not all(_is_loopback(part.strip()) for part in said.split(","))), None)
        if elsewhere is not None:
            raise HTTPException(
                FORBIDDEN, f"caller {elsewhere}, through a proxy on this machine: got no client certificate, want one"
            )
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise HTTPException(FORBIDDEN, f"origin {origin}: got another page's, want this listener's own")


class OwnNames:
    """An ASGI middleware that refuses requests from loopback, without certificate, whose `Host` is not a local name."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._own = socket.gethostname().lower()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _peer(scope) is None and _is_loopback((scope.get("client") or (None,))[0]):
            host = Headers(scope=scope).get("host", "")
            if not self._is_own(host):
                text = f"host {host}: got a name that is not this machine's, want an address, localhost or {self._own}"
                await JSONResponse({"detail": text}, FORBIDDEN)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_own(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        except ValueError:
            return False
        return "." not in name or name == self._own or name.endswith(_OWN_SUFFIXES) or _address(name) is not None


def _peer(scope: Scope) -> str | None:
    """Returns the common name of the client certificate, None without one. `bounded_http` puts it into the request's state."""
    peer: str | None = scope.get("state", {}).get("peer")
    return peer


def _address(host: str | None) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host or "")
    except ValueError:
        return None


def _is_loopback(host: str | None) -> bool:
    address = _address(host)
    return address is not None and address.is_loopback


def common_name(certificate: Mapping[str, Any]) -> str:
    """Returns the last CN of the subject, which Kubernetes takes as user name too; "" without one.

    `certificate` has the form that `ssl.SSLSocket.getpeercert` returns.
    """
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return names[-1] if names else ""


def peer_name(transport: asyncio.BaseTransport) -> str | None:
    """Returns the common name of the client certificate, which TLS has verified; None if the client presented none."""
    certificate = transport.get_extra_info("peercert")
    return common_name(certificate) if certificate else None


def host_of(transport: asyncio.BaseTransport) -> str:
    """Returns the peer's IP address; empty if the transport does not know it."""
    name = transport.get_extra_info("peername")
    return str(name[0]) if isinstance(name, tuple) and name else ""


HEALTH: Final = frozenset({"/livez", "/readyz", "/healthz"})
#: The pause after a request, as a multiple of the time it took, up to `_LONGEST_REST_SECONDS`.
_REST: Final = 3.0
_LONGEST_REST_SECONDS: Final = 0.5
_MOST_WAITING: Final = 32
_WAIT_SECONDS: Final = 10.0
#: The path of the largest answer, the whole state. At most `_MOST_LARGE` of these answers are in memory at once, each until its
#: last byte is sent.
_LARGE: Final = "/dumpstate"
_MOST_LARGE: Final = 2
_BOUND_THEMSELVES: Final = ("/dashboard/events", "/explain/", "/simulate/", "/drains/", "/report")


class OpsThrottle:
    """Runs one throttled request of the ops listener at a time. `clock` counts seconds."""

    def __init__(self, app: ASGIApp, *, clock: Callable[[], float] = anyio.current_time) -> None:
        self._app = app
        self._clock = clock
        self._turn = anyio.Lock()
        self._large = anyio.Semaphore(_MOST_LARGE)
        self._rest_until = 0.0
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or path in HEALTH or path.startswith(_BOUND_THEMSELVES):
            await self._app(scope, receive, send)
            return
        if self._waiting >= _MOST_WAITING:
            await _busy(f"{self._waiting} requests wait already")(scope, receive, send)
            return
        if path == _LARGE:
            async with self._large:
                await self._in_turn(scope, receive, send)
        else:
            await self._in_turn(scope, receive, send)

    async def _in_turn(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._waiting += 1
        try:
            with anyio.move_on_after(_WAIT_SECONDS) as wait:
                await self._turn.acquire()
        finally:
            self._waiting -= 1
        if wait.cancelled_caught:
            await _busy(f"others were answered for {_WAIT_SECONDS:g} s")(scope, receive, send)
            return
        try:
            made = await self._made(scope, receive)
        finally:
            self._turn.release()
        for message in made:
            await send(message)

    async def _made(self, scope: Scope, receive: Receive) -> list[Any]:
        """Waits for the end of the pause, then runs the application and returns its whole answer as ASGI messages."""
        await anyio.sleep(max(self._rest_until - self._clock(), 0.0))
        began = self._clock()
        made: list[Any] = []

        async def keep(message: Any) -> None:
            last = message["type"] == "http.response.body" and not message.get("more_body", False)
            made.append({**message, "more_body": True} if last else message)
            if last:  # the end is a message of its own, so that it is sent only after the caller has taken the body
                made.append({"type": "http.response.body", "body": b"", "more_body": False})

        await self._app(scope, receive, keep)
        took = self._clock() - began
        self._rest_until = self._clock() + min(_REST * took, _LONGEST_REST_SECONDS)
        return made


def _busy(why: str) -> JSONResponse:
    return JSONResponse({"detail": f"{why}; ask again"}, status_code=503, headers={"retry-after": "1"})
