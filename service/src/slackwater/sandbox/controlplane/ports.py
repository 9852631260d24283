"""Chooses free TCP ports on loopback, outside the range that outgoing connections take theirs from.

A port of that range may be taken by any client while a component restarts; worse, a client that keeps dialling
127.0.0.1:P from that range is in time given P as its own port, connects to itself, and holds the port.
"""

import random
import socket
from pathlib import Path
from typing import Final

from slackwater.sandbox.controlplane.errors import ControlPlaneError

LOOPBACK: Final = "127.0.0.1"
_LOWEST: Final = 15000
_LINUX_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
#: First port of IANA's range for outgoing connections; other systems start there, Linux says where in a file.
_IANA_FIRST: Final = 49152
_ATTEMPTS: Final = 1000


class FreePorts:
    """Gives each port once. Another process may still take one before it is used: who uses it has to retry."""

    def __init__(self, rng: random.Random, *, candidates: range | None = None) -> None:
        self._rng = rng
        self._candidates = candidates if candidates is not None else _outside_outgoing()
        self._given: set[int] = set()

    def take(self) -> int:
        """A port that nothing listens on now; ControlPlaneError if none was found in 1,000 tries."""
        for _ in range(_ATTEMPTS):
            port = self._rng.choice(self._candidates)
            if port not in self._given and is_free(port):
                self._given.add(port)
                return port
        seen = f"{self._candidates.start}..{self._candidates.stop - 1}"
        raise ControlPlaneError(f"no free port on {LOOPBACK} in {seen} after {_ATTEMPTS} tries")


def is_free(port: int) -> bool:
    """Whether a server could listen on this port of loopback now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Go's listeners do: connections in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def _outside_outgoing() -> range:
    first = int(_LINUX_RANGE.read_text().split()[0]) if _LINUX_RANGE.exists() else _IANA_FIRST
    # Where a machine gives nearly every port to outgoing connections there is no outside.
    return range(_LOWEST, first) if first - _LOWEST >= _ATTEMPTS else range(_LOWEST, 65536)
