"""The paths of one control plane's files.

Chooses free TCP ports on loopback, outside the range of ports for outgoing connections.

Any client may take a port of that range while a component restarts. Worse, a client that keeps connecting to 127.0.0.1:P is at
some time given P as its own port, connects to itself, and holds the port.
"""

import os
import random
import socket
import sys
import weakref
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slackwater.sandbox.controlplane.errors import ControlPlaneError


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Paths under one folder."""

    root: Path

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def etcd_data(self) -> Path:
        return self.root / "etcd"

    @property
    def audit_policy(self) -> Path:
        return self.root / "audit-policy.yaml"

    @property
    def audit_log(self) -> Path:
        return self.logs / "audit.log"

    @property
    def tokens(self) -> Path:
        return self.root / "tokens.csv"

    def kubeconfig(self, account: str) -> Path:
        return self.root / "kubeconfigs" / f"{account}.yaml"

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"

    def scheduler_config(self, component: str) -> Path:
        return self.root / f"{component}-config.yaml"

    def make(self) -> None:
        """Makes the folders."""
        for folder in (self.root, self.pki, self.logs, self.kubeconfig("any").parent):
            folder.mkdir(parents=True, exist_ok=True)


LOOPBACK: Final = "127.0.0.1"
_LOWEST: Final = 15000
_LINUX_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
#: The first port of IANA's range for outgoing connections. Linux has its own range in a file.
_IANA_FIRST: Final = 49152
_ATTEMPTS: Final = 1000
#: More than one test or one control plane takes. Elsewhere than on Linux nobody can listen beside a socket that is bound.
_MOST_HELD: Final = 100 if sys.platform == "linux" else 0


class FreePorts:
    """Returns each port once, and on Linux none that another one has returned lately, of this process or another.

    Between the choice of a port and the server's start are seconds, on a busy machine many: long enough for another run to
    choose the same port. So each port is held: bound to a socket that does not listen. A server that sets SO_REUSEADDR may
    listen beside it, as all of ours and Go's do. A program that never asked here may take a port nevertheless, so the user has
    to retry."""

    def __init__(self, rng: random.Random, *, candidates: range | None = None) -> None:
        self._rng = rng
        self._candidates = candidates if candidates is not None else _outside_outgoing()
        self._given: set[int] = set()
        self._held: deque[int] = deque()
        weakref.finalize(self, _release, self._held, most=0)

    def take(self) -> int:
        """A free port. Raises ControlPlaneError if none was found in 1,000 tries."""
        for _ in range(_ATTEMPTS):
            port = self._rng.choice(self._candidates)
            if port not in self._given and (held := _hold(port)) is not None:
                self._given.add(port)
                self._held.append(held)
                _release(self._held, most=_MOST_HELD)
                return port
        seen = f"{self._candidates.start}..{self._candidates.stop - 1}"
        raise ControlPlaneError(f"no free port on {LOOPBACK} in {seen} after {_ATTEMPTS} tries")


def _hold(port: int) -> int | None:
    """The descriptor of a socket that is bound to this port of loopback; None if the port is in use or held."""
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        holder.bind((LOOPBACK, port))
    except OSError:
        holder.close()
        return None
    # Only now: if it were set before, a second holder could bind to the same port.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return holder.detach()


def _release(held: deque[int], *, most: int) -> None:
    """Closes the oldest descriptors, so that at most so many are left."""
    while len(held) > most:
        os.close(held.popleft())


def _outside_outgoing() -> range:
    first = int(_LINUX_RANGE.read_text().split()[0]) if _LINUX_RANGE.exists() else _IANA_FIRST
    # Where a machine gives nearly every port to outgoing connections there is no outside.
    return range(_LOWEST, first) if first - _LOWEST >= _ATTEMPTS else range(_LOWEST, 65536)
