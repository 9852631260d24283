"""`POST /drains/{node}/cancel` on the ops listener: a person stops the removal of a node, and it is rolled back.

Who may: whoever is on this machine, or shows a client certificate where the listener asks for one. A page in a browser on this
machine may not, unless it is the listener's own.
"""

from collections.abc import Callable
from ipaddress import ip_address
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, ConfigDict, Field

from slackwater.model.ids import NodeName

#: cancelled: it is being rolled back. too-late: the provider was asked already. none: the node is not being removed.
Answer = Literal["cancelled", "too-late", "none"]

_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409


class Cancelled(BaseModel):
    """What was done."""

    model_config = ConfigDict(frozen=True)

    node: Annotated[str, Field(description="The node's name.")]
    answer: Annotated[Literal["cancelled"], Field(description="Its removal is being rolled back.")] = "cancelled"


def add_drains(app: FastAPI, cancel: Callable[[NodeName], Answer], *, certified: bool) -> None:
    """`certified`: whoever reaches the listener has shown a client certificate."""

    @app.post(
        "/drains/{node}/cancel",
        summary="Stop the removal of a node and roll it back",
        responses={
            _FORBIDDEN: {"description": "Neither from this machine nor with a client certificate."},
            _NOT_FOUND: {"description": "The node is not being removed."},
            _CONFLICT: {"description": "Too late: its provider was asked to delete it."},
        },
    )
    async def cancel_drain(node: str, request: Request) -> Cancelled:
        _check(request, certified=certified)
        answer = cancel(NodeName(node))
        if answer == "none":
            raise HTTPException(_NOT_FOUND, f"node {node}: is not being removed")
        if answer == "too-late":
            raise HTTPException(_CONFLICT, f"node {node}: too late, its provider was asked to delete it")
        return Cancelled(node=node)


def _check(request: Request, *, certified: bool) -> None:
    host = None if request.client is None else request.client.host
    if not certified and not _is_loopback(host):
        raise HTTPException(_FORBIDDEN, f"caller {host}: got neither loopback nor a client certificate, want one of them")
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise HTTPException(_FORBIDDEN, f"origin {origin}: got another page's, want this listener's own")


def _is_loopback(host: str | None) -> bool:
    try:
        return host is not None and ip_address(host).is_loopback
    except ValueError:
        return False
