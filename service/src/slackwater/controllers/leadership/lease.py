"""A Lease of coordination.k8s.io as a value, and the interface of its store."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A Lease. `holder` is an identity, "" if there is none. `seconds` is how long the Lease lasts from a renewal on.

    `renewed` and `acquired` are times by the clock of the replica that wrote them: they are compared with one another for
    equality, never with a clock. `version` is the object's version, and the condition of the next write.
    """

    holder: str
    seconds: int
    renewed: str
    acquired: str = ""
    transitions: int = 0
    version: str = ""

    def says_the_same(self, other: "Lease | None") -> bool:
        """Are both the same renewal? Other writes to the object change only its version."""
        return other is not None and _record(self) == _record(other)


def _record(lease: Lease) -> tuple[str, int, str, str, int]:
    return lease.holder, lease.seconds, lease.renewed, lease.acquired, lease.transitions


class LeaseUnreachable(Exception):
    """No answer shows what the Lease says; the message names the Lease and what was received."""


class LeaseStore(Protocol):
    """The store of one Lease. Every call ends within `timeout_seconds`, and raises `LeaseUnreachable` only."""

    async def read(self, *, timeout_seconds: float) -> Lease | None:
        """The Lease as of some moment of the call, not from a cache; None if there is none."""
        ...

    async def write(self, lease: Lease, *, timeout_seconds: float) -> Lease | None:
        """Writes the Lease if its version still is `lease.version` ("": if there is none); returns it as written. None: the
        version differs, and nothing was written."""
        ...

    def changes(self) -> AsyncGenerator[None, None]:
        """Yields soon after each change, and perhaps without one; the caller then reads the Lease. Ends with the connection,
        and raises `LeaseUnreachable` if there is none. Iterate it within `contextlib.aclosing`."""
        ...


def holder_name(identity: str) -> str:
    """The host's name in an identity `<hostname>_<uuid>`, as kube-scheduler makes it; usually a Pod's name."""
    name, _, _ = identity.rpartition("_")
    return name or identity
