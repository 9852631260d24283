"""The application of a listener that `http_server` serves, and the listener's limits.

- `Request`, `Answer`: one request as it was read, and its response.
- `RequestTerms`: the application's limits.
- `Application`: the protocol of all such applications.
- `ConnectionLimiter`, `ConnectionSlot`: the open connections, in total and for each caller. A connection takes a slot when it
  is accepted and gives it back when it ends.
- `BodyBudget`: the bytes of request bodies that a listener keeps. They are added as they arrive and given back once the request
  is answered. No count ever exceeds its limit.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

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


JSON: Final = b"application/json"
TEXT: Final = b"text/plain"

#: Pairs of name and value; names in lower case.
Headers = Sequence[tuple[bytes, bytes]]
#: Asks the caller to come back in a second.
RETRY_SOON: Final[Headers] = ((b"retry-after", b"1"),)


class Request(NamedTuple):
    """One request as it was read. `whole` is False if its body exceeded `RequestTerms.max_body_bytes` and was cut."""

    method: str
    path: str
    body: bytes
    keep_alive: bool = True
    headers: Headers = ()  #: only those named in `RequestTerms.headers`
    peer: str | None = None  #: common name of the client certificate; None without one
    whole: bool = True
    address: str = ""  #: the caller's IP address


class Answer(NamedTuple):
    """One HTTP response. `headers` exclude content-type, content-length and connection, which the server adds."""

    status: int
    body: bytes
    media_type: bytes = JSON
    headers: Headers = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTerms:
    """What an application accepts: limits of a request, and the headers it needs."""

    max_body_bytes: int  #: a longer body is refused with 413, unless `read_body_bytes` is set
    #: The application gets only this many first bytes of a body. If set, a body above `max_body_bytes` is not refused: the
    #: request is answered from the bytes that were read, and the connection is closed.
    read_body_bytes: int | None = None
    #: Limit of the time from a request's first byte to its last. A request that takes longer gets 408; if not even its head is
    #: complete, the connection is closed without an answer.
    arrive_seconds: float = 30.0
    headers: frozenset[bytes] = frozenset()  #: names, in lower case, of the headers that the application reads
    bodies: BodyBudget | None = None  #: limit of all kept bodies together; None with `read_body_bytes`
    ends_with_caller: bool = False  #: the task of a pending answer is cancelled when the caller closes the connection


class Application(Protocol):
    """Answers the requests of one listener. Its methods never raise."""

    @property
    def terms(self) -> RequestTerms: ...

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        """Returns the answer to a request, or an awaitable of it."""

    def refusal(self, status: int, path: str, message: str) -> Answer:
        """Returns the error answer to a request whose body was left unread (too large, too slow), or that is not HTTP."""
