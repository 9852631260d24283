"""Who is at the other end of a TLS connection: uvicorn's protocol, and the client certificate's name in the ASGI scope.

uvicorn has no part of ASGI's TLS extension; the name of a verified certificate is all that is asked for here.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from slackwater.edge.web.wholeanswers import WholeAnswers

#: Key in `scope["extensions"]`: {"common_name": str}, there only with a certificate that the client CA signed.
PEER: Final = "slackwater.peer"


class PeerProtocol(WholeAnswers):
    """HTTP/1.1 with the peer's name."""

    _peer: dict[object, object] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # The certificate is there only if it was asked for and verified.
        if certificate := transport.get_extra_info("peercert"):
            self._peer = {"common_name": common_name(certificate)}

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._peer is not None:
            self.scope["extensions"] = {PEER: self._peer}


def common_name(certificate: Mapping[str, Any]) -> str:
    """The last CN of the subject of what `getpeercert` gives, as Kubernetes reads user names; "" without one."""
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return names[-1] if names else ""


def peer_name(scope: Mapping[str, Any]) -> str | None:
    """The name of the caller's certificate; None where it presented none."""
    peer = (scope.get("extensions") or {}).get(PEER)
    return None if peer is None else str(peer["common_name"])
