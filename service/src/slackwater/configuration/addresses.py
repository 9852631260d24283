"""Addresses of listeners in the configuration file."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Any, Final

from pydantic.json_schema import JsonSchemaValue

from slackwater.configuration.kind import Kind, refused

DNS_LABEL: Final = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_HOST_NAME: Final = re.compile(rf"{DNS_LABEL}(\.{DNS_LABEL})*", re.IGNORECASE)
_LONGEST_HOST_NAME: Final = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A host and a port. `host` has no brackets, even if it is an IPv6 address."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"

    @property
    def is_every_interface(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPort(Kind):
    """An address as text, `host:port`, with an IPv6 address in brackets."""

    @property
    def wanted(self) -> str:
        return 'host:port such as "127.0.0.1:10297" or "[::1]:10297", port 1 to 65535'

    def read(self, value: object) -> Address:
        parts = re.fullmatch(r"(?:\[([^\[\]]+)\]|([^\[\]:]+)):([0-9]{1,5})", value) if isinstance(value, str) else None
        if parts is None:
            raise refused(self.wanted)
        bracketed, plain, port = parts.groups()
        known = _is_address(bracketed, 6) if bracketed else (_is_address(plain, 4) or _is_host_name(plain))
        if not known or not 0 < int(port) < 65536:
            raise refused(self.wanted)
        return Address(host=bracketed or plain, port=int(port))

    def write(self, value: Any) -> object:
        return str(value)

    def schema(self) -> JsonSchemaValue:
        return {"type": "string", "pattern": r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}$"}


def _is_address(host: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(host).version == version
    except ValueError:
        return False


def _is_host_name(host: str) -> bool:
    # A name of digits and dots is a mistyped IPv4 address.
    is_name = len(host) <= _LONGEST_HOST_NAME and _HOST_NAME.fullmatch(host) is not None
    return is_name and re.fullmatch(r"[0-9.]+", host) is None
