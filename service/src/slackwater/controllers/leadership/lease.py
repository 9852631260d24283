"""A Lease of coordination.k8s.io as a value, and what elections need of whoever keeps it."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """`holder` is an identity, "" where nobody holds it. `seconds` is how long it lasts from a renewal on.

    `renewed` and `acquired` are times by the clock of whoever wrote them: compared for being others, never with a clock.
    `version` is the object's, and the condition of the next write.
    """

    holder: str
    seconds: int
    renewed: str
    acquired: str = ""
    transitions: int = 0
    version: str = ""

    def says_the_same(self, other: "Lease | None") -> bool:
        """Has nothing happened between the two? Others may write into the object, which changes its version alone."""
        return other is not None and _record(self) == _record(other)


def _record(lease: Lease) -> tuple[str, int, str, str, int]:
    return lease.holder, lease.seconds, lease.renewed, lease.acquired, lease.transitions


class LeaseUnreachable(Exception):
    """No answer that tells what the Lease says; the message names it and what was seen."""


class LeaseStore(Protocol):
    """One Lease. Every call ends within `timeout_seconds`, and raises `LeaseUnreachable` only."""

    async def read(self, *, timeout_seconds: float) -> Lease | None:
        """As it is at some moment of the call, not from a cache; None: there is none."""
        ...

    async def write(self, lease: Lease, *, timeout_seconds: float) -> Lease | None:
        """Makes it so if it still is of `lease.version` ("": if there is none); as written. None: it is not, and nothing
        happened."""
        ...

    def changes(self) -> AsyncGenerator[None, None]:
        """Yields soon after each change, and perhaps without one; what it has become is to be read. Ends when the connection
        does, and raises `LeaseUnreachable` where there is none. Iterate it within `contextlib.aclosing`."""
        ...


def holder_name(identity: str) -> str:
    """The host's name in an identity `<hostname>_<uuid>`, as kube-scheduler makes it: a Pod's name, mostly."""
    name, _, _ = identity.rpartition("_")
    return name or identity
