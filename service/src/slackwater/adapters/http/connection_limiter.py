"""Limits the connections of one listener, and the bytes of unanswered bodies: of all callers together, and of each."""

from collections import Counter
from collections.abc import Callable
from typing import Final

#: When this share of all places is taken, one caller may have at most this share of them.
_CROWDED: Final = 0.75
_SHARE: Final = 0.5


class ConnectionLimiter:
    """Counts the connections of a listener by the address of the caller."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of: Counter[str] = Counter()
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def enter(self, host: str) -> "Place | str":
        """A place for another connection from that address, or the reason why there is none."""
        if self._n >= self._most:
            return f"{self._most} connections are open, and no more are taken"
        if self._n >= _CROWDED * self._most and self._of[host] >= _SHARE * self._most:
            return f"{self._of[host]} of {self._n} open connections are yours, and no more are taken from you"
        self._of[host] += 1
        self._n += 1
        return Place(self, host)

    def _leave(self, host: str) -> None:
        self._n -= 1
        self._of[host] -= 1
        if not self._of[host]:
            del self._of[host]


class Place:
    """The place of one connection."""

    def __init__(self, connection_limiter: ConnectionLimiter, host: str) -> None:
        self._host = host
        self._connection_limiter: ConnectionLimiter | None = connection_limiter

    def leave(self) -> None:
        """Gives the place back. Further calls do nothing."""
        connection_limiter, self._connection_limiter = self._connection_limiter, None
        if connection_limiter is not None:
            connection_limiter._leave(self._host)


#: Takes a place for a connection from that host, or returns the reason why there is none.
Enter = Callable[[str], Place | str]


class BodyBudget:
    """Counts the bytes of bodies that have arrived and are not answered yet, over all connections of a listener."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.held = 0

    def take(self, n_bytes: int) -> bool:
        """Adds bytes. False, and nothing added, if that would exceed the limit."""
        if self.held + n_bytes > self.most_bytes:
            return False
        self.held += n_bytes
        return True

    def give_back(self, n_bytes: int) -> None:
        """Removes bytes that are no longer kept."""
        self.held -= n_bytes
