"""Identifies the peer of a connection: the common name of its client certificate, and its address."""

import asyncio
from collections.abc import Mapping
from typing import Any


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
