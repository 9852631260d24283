"""Chooses free TCP ports on loopback, for the demo's listeners and for the components of a control plane in tests.

Ports are chosen outside the range from which the kernel takes the local ports of outgoing connections. A port of that range
could be taken by any client while a component restarts. Worse, a client that keeps connecting to 127.0.0.1:P may get P as its
own local port, connect to itself, and keep the port.
"""

import os
import random
import socket
import sys
import weakref
from collections import deque
from pathlib import Path
from typing import Final

LOOPBACK: Final = "127.0.0.1"
_LOWEST: Final = 15000
_LINUX_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
#: The first port of IANA's range for outgoing connections; used if there is no file with Linux' own range.
_IANA_FIRST: Final = 49152
_ATTEMPTS: Final = 1000
#: How many ports are held at the same time; more than one test or control plane needs. None are held on other systems than
#: Linux, where a server cannot listen on a port to which another socket is bound.
_MOST_HELD: Final = 100 if sys.platform == "linux" else 0


class NoFreePort(Exception):
    """No port of the candidates is free."""


class FreePorts:
    """Chooses ports: each instance returns a port only once. On Linux it does not return ports that another instance, of this
    or another process, has returned lately.

    Seconds may pass between the choice of a port and the start of its server, long enough for another run to choose the same
    port. Therefore each port is held: a socket that does not listen is bound to it. A server that sets SO_REUSEADDR, as our and
    Go's servers do, can listen in spite of that. A program that does not use this class may still take the port, so callers
    have to retry.
    """

    def __init__(self, rng: random.Random, *, candidates: range | None = None) -> None:
        self._rng = rng
        self._candidates = candidates if candidates is not None else _ports_below_ephemeral()
        self._given: set[int] = set()
        self._held: deque[int] = deque()
        weakref.finalize(self, _release, self._held, most=0)

    def take(self) -> int:
        """A free port. Raises NoFreePort if none was found in 1,000 tries."""
        for _ in range(_ATTEMPTS):
            port = self._rng.choice(self._candidates)
            if port not in self._given and (held := _hold(port)) is not None:
                self._given.add(port)
                self._held.append(held)
                _release(self._held, most=_MOST_HELD)
                return port
        seen = f"{self._candidates.start}..{self._candidates.stop - 1}"
        raise NoFreePort(f"no free port on {LOOPBACK} in {seen} after {_ATTEMPTS} tries")


def _hold(port: int) -> int | None:
    """Binds a socket to this port of loopback and returns its descriptor; None if the port is in use or held."""
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        holder.bind((LOOPBACK, port))
    except OSError:
        holder.close()
        return None
    # Set only after `bind`: otherwise a second instance could bind to the same port.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return holder.detach()


def _release(held: deque[int], *, most: int) -> None:
    """Closes the oldest descriptors until at most `most` are left."""
    while len(held) > most:
        os.close(held.popleft())


def _ports_below_ephemeral() -> range:
    first = int(_LINUX_RANGE.read_text().split()[0]) if _LINUX_RANGE.exists() else _IANA_FIRST
    # If nearly all ports are for outgoing connections, too few are outside of that range: then uses all.
    return range(_LOWEST, first) if first - _LOWEST >= _ATTEMPTS else range(_LOWEST, 65536)
