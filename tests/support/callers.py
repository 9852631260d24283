"""Who calls an ASGI application, where there is no connection that would tell."""

from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send


def showing(app: ASGIApp, certificate: str | None) -> Any:
    """The application, as a caller meets it that shows a client certificate of this name."""

    async def shown(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "state": {"peer": certificate}}, receive, send)

    return shown
