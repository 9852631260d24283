"""The identity of a caller: the name in its client certificate, and its address."""

import asyncio
from collections.abc import Mapping
from typing import Any


def common_name(certificate: Mapping[str, Any]) -> str:
    """The last CN of the subject in a result of `getpeercert`, which Kubernetes takes as the user name; "" without one."""
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return names[-1] if names else ""


def peer_name(transport: asyncio.BaseTransport) -> str | None:
    """The name in the client certificate; None if there is no certificate. A certificate that is there was verified."""
    certificate = transport.get_extra_info("peercert")
    return common_name(certificate) if certificate else None


def host_of(transport: asyncio.BaseTransport) -> str:
    """The address of the caller; empty if the socket has none."""
    name = transport.get_extra_info("peername")
    return str(name[0]) if isinstance(name, tuple) and name else ""
