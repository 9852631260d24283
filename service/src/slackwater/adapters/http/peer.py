"""Who is at the other end of a TLS connection: the name of its client certificate."""

import asyncio
from collections.abc import Mapping
from typing import Any


def common_name(certificate: Mapping[str, Any]) -> str:
    """The last CN of the subject of what `getpeercert` gives, as Kubernetes reads user names; "" without one."""
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return names[-1] if names else ""


def peer_name(transport: asyncio.BaseTransport) -> str | None:
    """None where no certificate was asked for, or none presented; what is presented was verified."""
    certificate = transport.get_extra_info("peercert")
    return common_name(certificate) if certificate else None


def host_of(transport: asyncio.BaseTransport) -> str:
    """The address that the connection comes from; empty where the socket tells none."""
    name = transport.get_extra_info("peername")
    return str(name[0]) if isinstance(name, tuple) and name else ""
