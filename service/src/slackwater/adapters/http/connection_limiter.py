"""Limits of one listener: its open connections, in total and for each caller, and the bytes of request bodies it keeps.

A connection takes a `ConnectionSlot` when it is accepted and gives it back when it ends. A body's bytes are added to the
`BodyBudget` as they arrive and given back once the request is answered. No count ever exceeds its limit.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

#: Once this share of all places is taken, a caller that holds `_SHARE` of all places gets no more, so that others can connect.
_CROWDED: Final = 0.75
_SHARE: Final = 0.5


class ConnectionLimiter:
    """Counts a listener's open connections by the caller's address, and refuses new ones above the limits.

    `most` is the greatest number of connections that may be open at once.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._of: Counter[str] = Counter()
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def enter(self, host: str) -> "ConnectionSlot | str":
        """Takes a place for a new connection from `host`; returns the reason as text if it is refused."""
        if self._n >= self._most:
            return f"{self._most} connections are open, and no more are taken"
        if self._n >= _CROWDED * self._most and self._of[host] >= _SHARE * self._most:
            return f"{self._of[host]} of {self._n} open connections are yours, and no more are taken from you"
        self._of[host] += 1
        self._n += 1
        return ConnectionSlot(self, host)

    def _leave(self, host: str) -> None:
        self._n -= 1
        self._of[host] -= 1
        if not self._of[host]:
            del self._of[host]


class ConnectionSlot:
    """One connection's place in a `ConnectionLimiter`."""

    def __init__(self, connection_limiter: ConnectionLimiter, host: str) -> None:
        self._host = host
        self._connection_limiter: ConnectionLimiter | None = connection_limiter

    def release(self) -> None:
        """Gives the place back; further calls do nothing."""
        connection_limiter, self._connection_limiter = self._connection_limiter, None
        if connection_limiter is not None:
            connection_limiter._leave(self._host)


#: Takes a place for a connection from the given host; returns the reason as text if it is refused.
Enter = Callable[[str], ConnectionSlot | str]


class BodyBudget:
    """Limits the bytes of request bodies that a listener keeps in memory, over all its connections.

    A body is kept until its request is answered.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.held = 0

    def take(self, n_bytes: int) -> bool:
        """Adds `n_bytes` to the kept bytes; returns False, and adds nothing, if the limit would be exceeded."""
        if self.held + n_bytes > self.most_bytes:
            return False
        self.held += n_bytes
        return True

    def give_back(self, n_bytes: int) -> None:
        """Subtracts `n_bytes` that are no longer kept."""
        self.held -= n_bytes
