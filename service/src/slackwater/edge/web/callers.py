"""Who may ask the ops listener for more than to look: whoever is on this machine, or shows a client certificate.

A page in a browser on this machine may not, unless it is the listener's own.
"""

from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from fastapi import HTTPException, Request

FORBIDDEN: Final = 403
#: What the OpenAPI document says of it.
FORBIDDEN_ANSWER: Final[dict[int | str, dict[str, Any]]] = {
    FORBIDDEN: {"description": "Neither from this machine nor with a client certificate."}
}


def check_caller(request: Request, *, certified: bool) -> None:
    """`certified`: whoever reaches the listener has shown a client certificate. Raises `HTTPException`."""
    host = None if request.client is None else request.client.host
    if not certified and not _is_loopback(host):
        raise HTTPException(FORBIDDEN, f"caller {host}: got neither loopback nor a client certificate, want one of them")
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise HTTPException(FORBIDDEN, f"origin {origin}: got another page's, want this listener's own")


def _is_loopback(host: str | None) -> bool:
    try:
        return host is not None and ip_address(host).is_loopback
    except ValueError:
        return False
