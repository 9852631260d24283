"""Who may ask the ops listener for what.

Reading: whoever reaches it. More than that: whoever is on this machine, or shows a client certificate. A page in a browser on
this machine may not, unless it is the listener's own; and since a page may give a name of its own to this machine's address
(DNS rebinding), a caller from here that names the listener by a name of the wide world is not answered at all.
Headers by which proxies tell of their callers never help a caller; they take from one on this machine what it could do as such.
"""

import socket
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from fastapi import HTTPException, Request
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

FORBIDDEN: Final = 403
#: What the OpenAPI document says of it.
FORBIDDEN_ANSWER: Final[dict[int | str, dict[str, Any]]] = {
    FORBIDDEN: {"description": "Neither from this machine nor with a client certificate; or by a foreign name."}
}
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-real-ip")
#: Beside names without a dot: none of these can be registered by somebody else.
_OWN_SUFFIXES: Final = (".localhost", ".svc", ".cluster.local")


def check_caller(request: Request) -> None:
    """For what is more than to look. Raises `HTTPException`."""
    host = None if request.client is None else request.client.host
    if _peer(request.scope) is None:
        if not _is_loopback(host):
            raise HTTPException(FORBIDDEN, f"caller {host}: got neither loopback nor a client certificate, want one of them")
        if (elsewhere := _forwarded_for(request.headers)) is not None:
            raise HTTPException(
                FORBIDDEN, f"caller {elsewhere}, through a proxy on this machine: got no client certificate, want one"
            )
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise HTTPException(FORBIDDEN, f"origin {origin}: got another page's, want this listener's own")


class OwnNames:
    """In front of the application: whoever calls from this machine without a certificate calls it by a name of its own."""

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
        return "." not in name or name == self._own or name.endswith(_OWN_SUFFIXES) or _is_address(name)


def _peer(scope: Scope) -> str | None:
    """The name of the caller's certificate; `bounded` puts it there."""
    peer: str | None = scope.get("state", {}).get("peer")
    return peer


def _forwarded_for(headers: Headers) -> str | None:
    """Whom a proxy on this machine speaks for, where that is somebody else."""
    for name in _FORWARDED:
        for said in headers.getlist(name):
            for part in said.split(","):
                if not _is_loopback(part.strip()):
                    return said
    return None


def _is_loopback(host: str | None) -> bool:
    try:
        return host is not None and ip_address(host).is_loopback
    except ValueError:
        return False


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
